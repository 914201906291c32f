use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;
use crate::ErrorKind;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (path, content) in files {
            let path = folder.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    /// The packed files in the order of their names, and the notices about excluded files.
    fn packed(&self) -> (Vec<String>, Vec<String>) {
        self.packed_as(Ecosystem::Go, "project")
    }

    fn packed_as(&self, ecosystem: Ecosystem, path: &str) -> (Vec<String>, Vec<String>) {
        let mut context = BuildContext::new();
        let project = Project::find(ecosystem, &self.path(path)).unwrap();
        let said = project.pack(&mut context, "src", Some(&self.path("mcpmignore"))).unwrap();
        let archive = context.finish().unwrap();
        let mut archive = tar::Archive::new(archive.as_ref());
        let names = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let link = entry.link_name().unwrap().map(|target| format!(" -> {}", target.display()));
            let mode = if entry.header().mode().unwrap() == 0o755 { "*" } else { "" };
            format!("{}{mode}{}", entry.path().unwrap().display(), link.unwrap_or_default())
        });
        (names.collect(), said)
    }

    /// The error of packing the Go project in `project`.
    fn refused(&self) -> crate::Error {
        let project = Project::find(Ecosystem::Go, &self.path("project")).unwrap();
        project.pack(&mut BuildContext::new(), "src", None).unwrap_err()
    }
}

#[test]
fn gitignore_and_dockerignore_exclude_files() {
    let folder = Folder::new(&[
        ("project/go.mod", "module example.com/a\n"),
        ("project/main.go", ""),
        ("project/.env", ""),
        ("project/.gitignore", ".env\n*.log\n/build/\n"),
        ("project/deep/.gitignore", "local\n!kept.log\n"),
        ("project/deep/local", ""),
        ("project/deep/kept.log", ""),
        ("project/deep/other.log", ""),
        ("project/build/out", ""),
        // Docker's patterns are relative to the root, and can re-include files.
        ("project/.dockerignore", "# comment\n\nsecret\ndocs/\n!docs/embedded.md\n**/*.key\n./assets/*\n"),
        ("project/secret", ""),
        ("project/deep/secret", ""),
        ("project/docs/guide.md", ""),
        ("project/docs/embedded.md", ""),
        ("project/deep/a.key", ""),
        ("project/assets/a", ""),
        ("project/.git/config", ""),
        ("project/.github/x.yml", ""),
    ]);
    let (names, said) = folder.packed();
    let expected = [
        "src/.dockerignore",
        "src/.github/x.yml",
        "src/.gitignore",
        "src/deep/.gitignore",
        "src/deep/kept.log",
        "src/deep/secret",
        "src/docs/embedded.md",
        "src/go.mod",
        "src/main.go",
    ];
    assert_eq!(names, expected);
    assert!(said.is_empty(), "{said:?}");
}

#[test]
fn the_last_pattern_of_dockerignore_that_matches_decides() {
    let packed = |ignored: &str| {
        let files = ["go.mod", "docs/a.md", "docs/deep/b.md", "docs/keep.md", "c.md"];
        let mut all: Vec<(String, &str)> = files.map(|file| (format!("project/{file}"), "")).into();
        all.push(("project/.dockerignore".to_owned(), ignored));
        let all: Vec<(&str, &str)> = all.iter().map(|(path, content)| (path.as_str(), *content)).collect();
        let names = Folder::new(&all).packed().0;
        let names = names.iter().filter_map(|name| name.strip_prefix("src/")?.strip_suffix(".md"));
        names.collect::<Vec<_>>().join(" ")
    };
    for (ignored, kept) in [
        ("docs\n!docs/keep.md\n", "c docs/keep"),
        // The file is re-included, and then excluded again by a later pattern.
        ("!docs/keep.md\ndocs\n", "c"),
        ("docs\n!docs/keep.md\ndocs/k*\n", "c"),
        ("docs/keep.md\n!docs\n", "c docs/a docs/deep/b docs/keep"),
        ("**/*.md\n!docs/deep\n", "docs/deep/b"),
        ("*\n!docs\ndocs/deep/b.md\n!go.mod\n", "docs/a docs/keep"),
        ("*.md\n", "docs/a docs/deep/b docs/keep"),
        ("#c.md\n!*.md\n", "c docs/a docs/deep/b docs/keep"),
    ] {
        assert_eq!(packed(ignored), kept, "{ignored:?}");
    }
}

#[test]
fn patterns_above_the_project_count_only_in_a_repository() {
    let files = [("project/go.mod", ""), ("project/a.log", ""), (".gitignore", "*.log\n")];
    let folder = Folder::new(&files);
    assert_eq!(folder.packed().0, ["src/a.log", "src/go.mod"]);
    fs::create_dir(folder.path(".git")).unwrap();
    assert_eq!(folder.packed().0, ["src/go.mod"]);
}

#[test]
fn symlinks_out_of_the_project_are_skipped_with_a_warning() {
    let folder = Folder::new(&[("project/go.mod", ""), ("project/a", ""), ("outside/secret", "")]);
    symlink("../a", folder.path("project/nowhere")).unwrap();
    symlink("a", folder.path("project/inside")).unwrap();
    symlink("../outside", folder.path("project/folder")).unwrap();
    symlink(folder.path("outside/secret"), folder.path("project/file")).unwrap();
    fs::set_permissions(folder.path("project/a"), fs::Permissions::from_mode(0o700)).unwrap();
    let (names, said) = folder.packed();
    assert_eq!(names, ["src/a*", "src/go.mod", "src/inside -> a"]);
    assert_eq!(said, ["links to targets outside the project are excluded: `file`, `folder`, `nowhere`"]);
    // The number of links does not matter, and neither do their names.
    for number in 0..10 {
        symlink("/", folder.path(&format!("project/\u{1b}{number}"))).unwrap();
    }
    let shown: Vec<String> = (0..5).map(|number| format!("`\\u{{1b}}{number}`")).collect();
    let expected =
        format!("links to targets outside the project are excluded: {} and 8 more", shown.join(", "));
    assert_eq!(folder.packed().1, [expected]);
}

#[test]
fn a_program_below_the_module_is_found_with_its_module() {
    let folder = Folder::new(&[("project/go.mod", ""), ("project/cmd/server/main.go", "")]);
    let project = Project::find(Ecosystem::Go, &folder.path("project/cmd/server")).unwrap();
    assert_eq!(project.package, "./cmd/server");
    assert_eq!(project.root, fs::canonicalize(folder.path("project")).unwrap());
    assert_eq!(Project::find(Ecosystem::Go, &folder.path("project")).unwrap().package, ".");
}

#[test]
fn what_is_no_project_is_refused() {
    let folder = Folder::new(&[("file", "")]);
    let refused = |below: &str| Project::find(Ecosystem::Go, &folder.path(below)).unwrap_err();
    assert_eq!(refused("absent").kind(), ErrorKind::NotFound);
    assert_eq!(refused("file").kind(), ErrorKind::InvalidOption);
    assert!(refused("").to_string().contains("no `go.mod` in it or in a parent folder"), "{}", refused(""));
}

#[test]
fn the_files_of_a_module_are_files_of_the_project() {
    let folder = Folder::new(&[("project/go.mod", "module example.com/a\n"), ("key", "hush")]);
    let project = Project::find(Ecosystem::Go, &folder.path("project")).unwrap();
    assert_eq!(project.root_file("go.mod").unwrap().unwrap(), b"module example.com/a\n");
    assert_eq!(project.root_file("go.sum").unwrap(), None);
    for target in ["../key", "/dev/zero", "no-such", "go.mod"] {
        symlink(target, folder.path("project/go.sum")).unwrap();
        let error = project.root_file("go.sum").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{target}: {error}");
        assert!(regular_file::read(&folder.path("project/go.sum"), 100).is_err(), "{target}");
        fs::remove_file(folder.path("project/go.sum")).unwrap();
    }
    fs::create_dir(folder.path("project/go.sum")).unwrap();
    assert!(project.root_file("go.sum").is_err());
}

#[test]
fn an_oversized_file_is_not_read_whole() {
    let folder = Folder::new(&[("project/go.mod", "module example.com/a\n"), ("project/large", "")]);
    let file = fs::OpenOptions::new().write(true).open(folder.path("project/large")).unwrap();
    file.set_len(1 << 50).or_else(|_| file.set_len(1 << 40)).unwrap();
    let error = folder.refused();
    assert!(error.message().contains("larger than 256 MiB"), "{error}");
}

#[test]
fn files_with_secrets_and_installed_packages_are_excluded() {
    let folder = Folder::new(&[
        ("project/package.json", "{}"),
        ("project/.env", "KEY=1"),
        ("project/.env.local", "KEY=1"),
        ("project/.env.example", "KEY="),
        ("project/deep/.npmrc", "//registry/:_authToken=x"),
        ("project/.mcpmignore", "private/\n"),
        ("project/private/a", ""),
        ("project/node_modules/a/index.js", ""),
        ("project/server.js", ""),
    ]);
    let (names, said) = folder.packed_as(Ecosystem::Node, "project");
    assert_eq!(names, ["src/.env.example", "src/.mcpmignore", "src/package.json", "src/server.js"]);
    assert_eq!(said, ["files that may contain secrets are excluded: `.env`, `.env.local`, `deep/.npmrc`"]);
    // A script of the project has the same files; one without a project is standalone.
    assert_eq!(folder.packed_as(Ecosystem::Node, "project/server.js").0, names);
    fs::remove_file(folder.path("project/package.json")).unwrap();
    assert_eq!(folder.packed_as(Ecosystem::Node, "project/server.js").0, ["src/server.js"]);
}

#[test]
fn a_script_with_inline_metadata_is_standalone() {
    let script = "# /// script\n# dependencies = []\n# ///\nprint()\n";
    let folder = Folder::new(&[
        ("project/pyproject.toml", ""),
        ("project/server.py", script),
        ("project/part.py", "# no /// script\n"),
    ]);
    assert_eq!(folder.packed_as(Ecosystem::Python, "project/server.py").0, ["src/server.py"]);
    let all = ["src/part.py", "src/pyproject.toml", "src/server.py"];
    assert_eq!(folder.packed_as(Ecosystem::Python, "project/part.py").0, all);
    assert_eq!(folder.packed_as(Ecosystem::Python, "project").0, all);
}

#[test]
fn a_home_folder_is_no_project() {
    let folder = Folder::new(&[("package.json", "{}"), (".bashrc", ""), ("server.js", "")]);
    for path in ["", "server.js"] {
        let error = Project::find(Ecosystem::Node, &folder.path(path)).unwrap_err();
        assert!(error.message().contains("is a home folder"), "{error}");
    }
}

#[test]
fn keys_and_histories_are_excluded_whatever_their_case() {
    let secret = [
        ".ENV",
        ".env-local",
        ".envrc",
        "b/.env/a",
        ".yarnrc.yml",
        "prod.env",
        "a/id_rsa",
        "a/ID_ed25519.bak",
        "a/b.PEM",
        "a/b.key",
        "a/b.p12",
        ".aws/credentials",
        "a/.ssh/config",
        "home/.docker/config.json",
        "Credentials.json",
        "a/terraform.tfstate",
    ];
    let skipped = [
        ".git/config",
        ".hg/store",
        ".svn/wc.db",
        ".jj/repo",
        ".tox/a",
        "any name/pyvenv.cfg",
        "any name/bin/a",
    ];
    let kept = [
        ".docker/Dockerfile",
        ".env.Example",
        "environment.py",
        "id_generator.py",
        "keys.py",
        "pyproject.toml",
    ];
    let all = secret.iter().chain(&skipped).chain(&kept);
    let paths: Vec<String> = all.map(|path| format!("project/{path}")).collect();
    let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "")).collect();
    let (names, said) = Folder::new(&files).packed_as(Ecosystem::Python, "project");
    assert_eq!(names, kept.map(|path| format!("src/{path}")));
    let [notice] = &said[..] else { panic!("{said:?}") };
    assert!(notice.ends_with(" and 11 more"), "{notice}");
}

#[test]
fn an_ignore_file_that_cannot_be_read_fails_the_build() {
    for name in [".gitignore", ".mcpmignore", ".dockerignore", "deep/.gitignore"] {
        let folder =
            Folder::new(&[("project/go.mod", ""), ("project/secrets.txt", ""), ("project/deep/a", "")]);
        let file = folder.path("project").join(name);
        // A comment in Latin-1, before a pattern.
        fs::write(&file, b"# caf\xe9\nsecrets.txt\n").unwrap();
        assert!(folder.refused().message().ends_with("is not UTF-8"), "{name}: {}", folder.refused());
        fs::write(&file, "a\n{b\n").unwrap();
        assert!(folder.refused().message().starts_with("line 2 of `"), "{name}: {}", folder.refused());
        fs::write(&file, "a".repeat(2 << 20)).unwrap();
        assert!(folder.refused().message().ends_with("larger than 1 MiB"), "{name}: {}", folder.refused());
        fs::remove_file(&file).unwrap();
        crate::testing::make_pipe(&file);
        assert!(folder.refused().message().contains("not a regular file"), "{name}: {}", folder.refused());
        fs::remove_file(&file).unwrap();
        symlink("/dev/zero", &file).unwrap();
        assert!(folder.refused().message().contains("is a link"), "{name}: {}", folder.refused());
    }
}

#[test]
fn the_ignore_files_of_mcpm_only_exclude() {
    let folder = Folder::new(&[
        ("project/go.mod", ""),
        ("project/.gitignore", "by-git\n"),
        ("project/.mcpmignore", "by-mcpm\n!by-git\n!by-user\n"),
        ("project/deep/.mcpmignore", "!by-mcpm\n"),
        ("project/by-git", ""),
        ("project/by-mcpm", ""),
        ("project/by-user", ""),
        ("project/deep/by-mcpm", ""),
        ("mcpmignore", "by-user\n"),
    ]);
    let expected =
        ["src/.gitignore", "src/.mcpmignore", "src/deep/.mcpmignore", "src/deep/by-mcpm", "src/go.mod"];
    assert_eq!(folder.packed().0, expected);
    fs::remove_file(folder.path("mcpmignore")).unwrap();
    assert!(folder.packed().0.contains(&"src/by-user".to_owned()));
}

#[test]
fn the_ignore_file_of_a_worktree_is_that_of_its_repository() {
    let folder = Folder::new(&[
        ("repository/.git/info/exclude", "secret\n"),
        ("repository/.git/worktrees/project/commondir", "../..\n"),
        ("project/.git", "gitdir: ../repository/.git/worktrees/project\n"),
        ("project/go.mod", ""),
        ("project/secret", ""),
    ]);
    assert_eq!(folder.packed().0, ["src/go.mod"]);
}

#[test]
fn a_list_of_packages_that_is_not_read_is_named() {
    let metadata = "# /// script\n# dependencies = []\n# ///\n";
    let folder =
        Folder::new(&[("a/server.py", ""), ("a/requirements.txt", "httpx\n"), ("a/own.py", metadata)]);
    let said = |script| folder.packed_as(Ecosystem::Python, script).1;
    assert!(
        said("a/server.py")[0].contains("`requirements.txt` are not installed"),
        "{:?}",
        said("a/server.py")
    );
    assert_eq!(said("a/own.py"), Vec::<String>::new());
}
