use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<PackageReference> {
    PackageReference::parse(text).expect("a scheme of a package")
}

#[test]
fn references_parse_and_format_as_requirements() {
    for (text, requirement, version, workload) in [
        ("uvx://mcp-server-time", "mcp-server-time", None, "mcp-server-time"),
        ("uvx://mcp-server-time@latest", "mcp-server-time", None, "mcp-server-time-latest"),
        ("uvx://mcp-server-time@1.2", "mcp-server-time==1.2", Some("1.2"), "mcp-server-time-1-2"),
        (
            "uvx://Zope.Interface@2!1.0rc1+local.1",
            "Zope.Interface==2!1.0rc1+local.1",
            Some("2!1.0rc1+local.1"),
            "Zope-Interface-2!1-0rc1+local-1",
        ),
        ("uvx://mcp[cli,ws]@1.0.0", "mcp[cli,ws]==1.0.0", Some("1.0.0"), "mcp[cli,ws]-1-0-0"),
        ("uvx://mcp[cli]", "mcp[cli]", None, "mcp[cli]"),
        ("npx://cowsay", "cowsay@latest", None, "cowsay"),
        (
            "npx://@modelcontextprotocol/server-everything",
            "@modelcontextprotocol/server-everything@latest",
            None,
            "-modelcontextprotocol-server-everything",
        ),
        (
            "npx://@scope/pkg@1.2.3-beta.1",
            "@scope/pkg@1.2.3-beta.1",
            Some("1.2.3-beta.1"),
            "-scope-pkg-1-2-3-beta-1",
        ),
        ("npx://pkg@^1.2", "pkg@^1.2", Some("^1.2"), "pkg-^1-2"),
        ("npx://pkg@next", "pkg@next", Some("next"), "pkg-next"),
        ("go://example.com/server", "example.com/server@latest", None, "example-com-server"),
        (
            "go://example.com/org/repo/v2/cmd/server@v2.0.1",
            "example.com/org/repo/v2/cmd/server@v2.0.1",
            Some("v2.0.1"),
            "example-com-org-repo-v2-cmd-server-v2-0-1",
        ),
        (
            "go://example.com/server@1.2.3",
            "example.com/server@v1.2.3",
            Some("v1.2.3"),
            "example-com-server-1-2-3",
        ),
        (
            "go://example.com/server@0a1b2c3",
            "example.com/server@0a1b2c3",
            Some("0a1b2c3"),
            "example-com-server-0a1b2c3",
        ),
    ] {
        let package = parse(text).unwrap();
        assert_eq!(package.requirement(), requirement, "{text}");
        assert_eq!(package.version(), version, "{text}");
        assert_eq!(package.workload_name(), workload, "{text}");
        assert_eq!(package.to_string(), text);
        assert_eq!(package.project(), None, "{text}");
    }
}

#[test]
fn local_projects_are_paths_and_named_like_their_folder() {
    for (text, path, name) in [
        ("go://.", "/home/u/project", "project"),
        ("go://./cmd/server", "/home/u/project/cmd/server", "server"),
        ("go://../other", "/home/u/other", "other"),
        ("go://..", "/home/u", "u"),
        ("go:///srv/a@b c", "/srv/a@b c", "a@b c"),
    ] {
        let package = parse(text).unwrap().resolved_against(Path::new("/home/u/project"));
        assert_eq!(package.project(), Some(Path::new(path)), "{text}");
        assert_eq!(package.workload_name(), name, "{text}");
        assert_eq!(package.to_string(), format!("go://{path}"));
        assert_eq!(parse(&package.to_string()).unwrap(), package);
    }
    let script = parse("uvx://./a.b/server.py").unwrap().resolved_against(Path::new("/home/u"));
    assert_eq!(
        (script.to_string(), script.ecosystem()),
        ("uvx:///home/u/a.b/server.py".to_owned(), Ecosystem::Python)
    );
    assert_eq!(script.workload_name(), "server");
    assert_eq!(parse("npx://./my.app").unwrap().workload_name(), "my.app");
}

#[test]
fn invalid_names_are_rejected_with_one_line() {
    for text in [
        "uvx://",
        "uvx://-r",
        "uvx://--index-url=x",
        "uvx://a b",
        "uvx://a;b",
        "uvx://a$(id)",
        "uvx://a\nRUN id",
        "uvx://a@",
        "uvx://a@1.2;id",
        "uvx://a@-1",
        "uvx://a@>=1",
        "uvx://a==1",
        "uvx://a[",
        "uvx://a[]",
        "uvx://a[x",
        "uvx://a[x]y",
        "uvx://a[x;y]",
        "uvx://a@latest@1",
        "uvx://.a",
        "uvx://git+https://example.com/a",
        "npx://",
        "npx://@",
        "npx://@scope",
        "npx://@scope/",
        "npx://@/pkg",
        "npx://a/b",
        "npx://@a/b/c",
        "npx://.a",
        "npx://-g",
        "npx://_a",
        "npx://a b",
        "npx://a`id`",
        "npx://a@",
        "npx://a@file:x",
        "npx://a@npm:b",
        "npx://a@-1",
        "npx://a@^-1",
        "npx://a@1 || 2",
        "go://",
        "go://server",
        "go://example.com//server",
        "go://example.com/server/",
        "go://example.com/../server",
        "go://example.com/ser ver",
        "go://example.com/-x",
        "go://example.com/x@",
        "go://example.com/x@-v",
        "go://example.com/x@a/b",
        "go://-flag.com/x",
        "go://.hidden",
        "go://...",
        "go://./a\nb",
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{text:?}");
        assert!(!error.to_string().contains('\n'), "{error}");
        assert!(error.next_step().is_some_and(|hint| hint.starts_with("write `")), "{error}");
    }
    for text in ["a", "docker://a", "uvx:a", "UVX://a"] {
        assert!(PackageReference::parse(text).is_none(), "{text}");
    }
}

/// Characters that mean something to a shell, a Dockerfile or a package manager.
const SPECIAL: &[char] = &[
    ' ', '\t', '\n', '\r', '\0', '\'', '"', '`', '$', '\\', ';', '&', '|', '<', '>', '(', ')', '{', '}', '#',
    '*', '?', '=', '%', ':',
];

proptest! {
    #[test]
    fn what_is_accepted_is_one_argument_that_is_neither_a_flag_nor_special(text in "\\PC{0,40}", scheme in 0..3_usize) {
        let scheme = ["uvx", "npx", "go"][scheme];
        if let Some(Ok(package)) = PackageReference::parse(&format!("{scheme}://{text}"))
            && package.project().is_none()
        {
            let written = package.requirement().replace("==", "");
            prop_assert!(!written.starts_with('-'));
            prop_assert!(!written.contains(SPECIAL), "{written:?}");
            prop_assert!(written.is_ascii());
        }
    }

    #[test]
    fn a_special_character_anywhere_is_refused(
        at in 0..20_usize, special in 0..SPECIAL.len(), package in 0..3_usize,
    ) {
        let text = ["uvx://mcp-server-time@1.2.3", "npx://@scope/package@1.2.3", "go://example.com/server@v1.2.3"][package];
        let start = text.find("://").unwrap() + 3;
        let at = start + at.min(text.len() - start);
        let text = format!("{}{}{}", &text[..at], SPECIAL[special], &text[at..]);
        prop_assert!(parse(&text).is_err(), "{text:?}");
    }

    #[test]
    fn any_text_is_read_without_a_panic_and_what_is_read_reads_again(text in "(uvx|npx|go)://.{0,60}") {
        if let Some(Ok(package)) = PackageReference::parse(&text) {
            let again = PackageReference::parse(&package.to_string()).unwrap().unwrap();
            prop_assert_eq!(again, package);
        }
    }
}
