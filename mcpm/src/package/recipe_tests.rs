use std::collections::BTreeSet;

use super::*;
use crate::package::certificates::tests::AUTHORITY;

fn recipe<'a>(reference: &str, change: impl FnOnce(&mut RecipeInputs<'a>)) -> Result<Recipe> {
    // Leaked, so that tests can freely borrow other inputs beside the package.
    let package = Box::leak(Box::new(PackageReference::parse(reference).unwrap().unwrap()));
    let settings = Box::leak(Box::default());
    let mut ingredients = RecipeInputs {
        package,
        bundle: None,
        with: &[],
        runtime_image: None,
        add_packages: &[],
        command: None,
        ca_cert: None,
        settings,
        global_ignore_file: None,
    };
    change(&mut ingredients);
    Recipe::new(&ingredients)
}

fn plain(reference: &str) -> Recipe {
    recipe(reference, |_| {}).unwrap()
}

#[test]
fn the_name_of_an_image_is_a_hash_of_all_that_goes_in() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), AUTHORITY).unwrap();
    let certificates = Certificates::read(file.path()).unwrap();
    let mirror =
        BuildSettings::from_lookup(|name| (name == "PIP_INDEX_URL").then(|| "https://i.example".to_owned()));
    let packages = ["git".to_owned(), "jq".to_owned()];
    let with = ["httpx".to_owned()];
    let names = [
        plain("uvx://server"),
        plain("uvx://server@1.2"),
        plain("uvx://server[x]"),
        recipe("uvx://server", |all| all.runtime_image = Some("example.com/python:1")).unwrap(),
        recipe("uvx://server", |all| all.add_packages = &packages[..1]).unwrap(),
        recipe("uvx://server", |all| all.add_packages = &packages).unwrap(),
        recipe("uvx://server", |all| all.command = Some("other")).unwrap(),
        recipe("uvx://server", |all| all.with = &with).unwrap(),
        recipe("uvx://server", |all| all.ca_cert = Some(&certificates)).unwrap(),
        recipe("uvx://server", |all| all.settings = &mirror).unwrap(),
    ]
    .map(|recipe| recipe.image.to_string());
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("localhost/mcpm/uvx-server:")), "{names:?}");
    // A proxy affects how packages are downloaded, but not which packages.
    let proxy =
        BuildSettings::from_lookup(|name| (name == "HTTPS_PROXY").then(|| "http://p.example".to_owned()));
    let behind = recipe("uvx://server", |all| all.settings = &proxy).unwrap();
    assert_eq!(behind.image.to_string(), names[0]);
    assert_eq!(behind.args["HTTPS_PROXY"], "http://p.example");
    // `latest` means the same as no version.
    assert_eq!(plain("uvx://server@latest").image.to_string(), names[0]);
}

#[test]
fn a_change_of_a_projects_file_is_another_image() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("go.mod", "module example.com/a\n");
    write("main.go", "package main\n");
    write(".gitignore", "ignored\n");
    let image = || plain(&format!("go://{}", folder.path().display())).image;
    let before = image();
    write("ignored", "text");
    assert_eq!(image(), before);
    write("main.go", "package main\n\n");
    assert_ne!(image(), before);
}

#[test]
fn a_script_is_installed_with_what_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("the server's.py");
    std::fs::write(&script, "print()\n").unwrap();
    let with = ["httpx>=0.27".to_owned()];
    let reference = format!("uvx://{}", script.display());
    let built = recipe(&reference, |all| all.with = &with).unwrap();
    let steps = "COPY src /app/src\nRUN [\"/bin/sh\", \"/mcpm/python.sh\", \"--script\", \"the server's.py\", \
                 \"httpx>=0.27\"]\n";
    assert!(built.dockerfile.contains(steps), "{}", built.dockerfile);
    assert_eq!(built.image.familiar_name(), "localhost/mcpm/uvx-the-server-s-py");
    std::fs::write(&script, "print(1)\n").unwrap();
    assert_ne!(recipe(&reference, |all| all.with = &with).unwrap().image, built.image);
}

#[test]
fn image_names_are_valid_repository_names() {
    for (reference, name) in [
        ("uvx://Zope.Interface", "localhost/mcpm/uvx-zope-interface"),
        ("npx://@scope/my__pkg", "localhost/mcpm/npx-scope-my-pkg"),
        ("npx://~a", "localhost/mcpm/npx-a"),
        ("go://example.com/a/v2", "localhost/mcpm/go-example-com-a-v2"),
    ] {
        assert_eq!(plain(reference).image.familiar_name(), name);
    }
    let long = plain(&format!("npx://{}", "a".repeat(200)));
    assert!(long.image.familiar_name().len() < 160, "{}", long.image);
}

#[test]
fn base_images_are_the_usual_ones_unless_one_is_given() {
    let bases = |recipe: Recipe| recipe.bases.iter().map(ToString::to_string).collect::<Vec<_>>();
    let packages = ["git".to_owned()];
    assert_eq!(bases(plain("uvx://a")), [PYTHON_IMAGE]);
    assert_eq!(bases(plain("npx://a")), [NODE_IMAGE]);
    assert_eq!(bases(plain("go://example.com/a")), [GO_IMAGE]);
    let with_git = recipe("go://example.com/a", |all| all.add_packages = &packages).unwrap();
    assert_eq!(bases(with_git), [GO_IMAGE, GO_RUNTIME_IMAGE]);
    let given = recipe("go://example.com/a", |all| {
        all.add_packages = &packages;
        all.runtime_image = Some("example.com/go:1");
    });
    assert_eq!(bases(given.unwrap()), ["example.com/go:1"]);
    let error = recipe("uvx://a", |all| all.runtime_image = Some("Not An Image")).unwrap_err();
    assert!(error.to_string().contains("(option: runtime_image)"), "{error}");
}

#[test]
fn packages_of_the_distribution_are_names_and_nothing_else() {
    for name in
        ["", "-y", "a b", "a;b", "$(id)", "a\n", "/etc/passwd", "a=1", "ca-certificates-", &"a".repeat(129)]
    {
        let name = [name.to_owned()];
        let error = recipe("uvx://a", |all| all.add_packages = &name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{name:?}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    let names = ["libstdc++6".to_owned(), "python3.11-dev".to_owned()];
    let recipe = recipe("uvx://a", |all| all.add_packages = &names).unwrap();
    let step = r#"RUN ["/bin/sh", "/mcpm/prepare.sh", "libstdc++6", "python3.11-dev"]"#;
    assert!(recipe.dockerfile.contains(step), "{}", recipe.dockerfile);
}

#[test]
fn user_input_never_reaches_a_shell() {
    let packages = ["git".to_owned()];
    for reference in ["uvx://server[x]@1.2", "npx://@scope/server@^1.2", "go://example.com/server@v1.2.3"] {
        let recipe = recipe(reference, |all| {
            all.add_packages = &packages;
            all.command = Some("$(id)");
        });
        for line in recipe.unwrap().dockerfile.lines().filter(|line| line.starts_with("RUN")) {
            let words: Vec<String> = serde_json::from_str(line.trim_start_matches("RUN ")).unwrap();
            assert!(words.len() > 1, "{line}");
        }
    }
}

#[test]
fn the_server_runs_unprivileged_without_build_files() {
    for reference in ["uvx://server", "npx://server", "go://example.com/server"] {
        let text = plain(reference).dockerfile;
        let (_, server) = text.rsplit_once("\nFROM ").unwrap();
        assert!(server.contains("\nUSER 65532:65532\n"), "{text}");
        assert!(!server.contains("RUN") && !server.contains("ARG"), "{text}");
    }
    assert!(plain("go://example.com/server").dockerfile.contains("\nFROM scratch\n"));
}

#[test]
fn a_version_with_a_backslash_is_reported_unchanged() {
    // Only an installation needs the launcher.
    let script = BUNDLE_SCRIPT.1.replace(". /mcpm/launcher.sh", "");
    let report = r#"{"version": "1.0\\b", "commands": []}"#;
    let shell = std::process::Command::new("/bin/sh")
        .args(["-c", &script, "bundle.sh", "--report", report])
        .env("MCPM_REPORT", "mark")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(shell.stdout).unwrap(), format!("mark {report}\n"));
}
