use super::*;

fn package(text: &str) -> PackageReference {
    PackageReference::parse(text).unwrap().unwrap()
}

fn report(commands: &[(&str, &str)]) -> InstallReport {
    let command = |(name, file): &(&str, &str)| PackageCommand {
        name: (*name).to_owned(),
        path: format!("/app/bin/{name}"),
        file: (*file).to_owned(),
    };
    InstallReport { name: None, version: "1.0".to_owned(), commands: commands.iter().map(command).collect() }
}

fn choose_command(commands: &[(&str, &str)], reference: &str, asked: Option<&str>) -> Result<String> {
    report(commands).choose(&package(reference), asked).map(|command| command.name.clone())
}

#[test]
fn chooses_the_given_the_only_or_the_package_named_command() {
    let (a, b) = (("a", "/app/a"), ("b", "/app/b"));
    for (commands, reference, asked, name) in [
        (&[a][..], "uvx://other", None, "a"),
        (&[a, b], "uvx://other", Some("b"), "b"),
        (&[a, b], "uvx://b[x]@1", None, "b"),
        (&[a, ("my_Server.x", "/f")], "uvx://my-server-x", None, "my_Server.x"),
        (&[a, b], "npx://@scope/b", None, "b"),
        // Two names of the same program count as one command.
        (&[("one", "/f"), ("two", "/f")], "npx://other", None, "one"),
        (&[("server", "/f")], "go://example.com/cmd/server", None, "server"),
    ] {
        assert_eq!(choose_command(commands, reference, asked).unwrap(), name, "{reference}");
    }
}

#[test]
fn a_local_project_has_the_name_that_it_reports() {
    let report =
        InstallReport { name: Some("@scope/b".to_owned()), ..report(&[("a", "/app/a"), ("b", "/app/b")]) };
    assert_eq!(report.choose(&package("npx:///project"), None).unwrap().name, "b");
    let none = InstallReport { commands: Vec::new(), ..report }
        .choose(&package("npx:///project"), None)
        .unwrap_err();
    assert!(none.to_string().contains("use the path of the script that starts the server"), "{none}");
}

#[test]
fn an_ambiguous_command_lists_the_candidates() {
    let two = [("a", "/app/a"), ("b", "/app/b")];
    let several = choose_command(&two, "uvx://other", None).unwrap_err();
    assert_eq!(several.kind(), ErrorKind::InvalidOption);
    let text = "`uvx://other` has several commands: `a`, `b`; select one with `package_command`";
    assert_eq!(several.to_string(), text);
    let absent = choose_command(&two, "uvx://other", Some("c")).unwrap_err();
    assert_eq!(absent.to_string(), "`uvx://other` has no command `c`; it has `a`, `b`");
    let none = choose_command(&[], "uvx://library", None).unwrap_err();
    assert!(none.to_string().starts_with("`uvx://library` has no command; it may be a library"), "{none}");
}

#[test]
fn only_a_valid_report_with_the_token_is_accepted() {
    let sound = r#"{"version": "1", "commands": [{"name": "a", "path": "/app/a", "file": "/app/a"}]}"#;
    assert!(InstallReport::read(&format!("word {sound}"), "word").is_some());
    assert_eq!(InstallReport::read(&format!("other {sound}"), "word"), None);
    for broken in [
        sound.replace("\"/app/a\"", "\"/bin/sh\""),
        sound.replace("\"a\"", "\"a\\nb\""),
        sound.replace("\"1\"", "\"1\\u0000\""),
        sound.replace("\"1\"", "1"),
        sound.replace('}', ""),
        String::new(),
    ] {
        assert_eq!(InstallReport::read(&format!("word {broken}"), "word"), None, "{broken}");
    }
}
