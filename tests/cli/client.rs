//! Tests the commands that list the features of a server and call its tools.

use serde_json::json;

use super::{
    pages::completions,
    support::{Home, PseudoTerminal},
};

const STDIO: &str = "mcpm-test/everything:1";
const HTTP: &str = "mcpm-test/everything-http:1";

#[test]
fn a_server_is_inspected_and_its_tools_are_called() {
    let home = Home::new();
    for (what, image) in [("stdio", STDIO), ("http", HTTP)] {
        let name = home.name(what);
        home.run(&["run", image, "--name", &name]).succeeded();

        let completed = || completions(&home, &["call", &name, "test_simple"]);
        assert_eq!(completed(), [""; 0]);
        let tools = home.run(&["tools", &name]).succeeded().stdout;
        assert_eq!(completed(), ["test_simple_text"]);
        assert!(tools.starts_with("NAME "), "{tools}");
        assert!(tools.lines().any(|line| line.starts_with("test_simple_text ")), "{tools}");
        let listed = home.run(&["tools", &name, "-o", "json"]).succeeded().json();
        let listed = listed.as_array().unwrap();
        assert_eq!(listed.len() + 1, tools.lines().count());
        assert!(listed.iter().all(|tool| tool["inputSchema"].is_object()), "{listed:?}");
        let prompts = home.run(&["prompts", &name]).succeeded().stdout;
        let with_arguments =
            prompts.lines().find(|line| line.starts_with("test_prompt_with_arguments ")).unwrap();
        assert!(with_arguments.contains(" arg1 arg2 "), "{prompts}");
        let resources = home.run(&["resources", &name, "-o", "json"]).succeeded().json();
        assert!(
            resources.as_array().unwrap().iter().any(|one| one["uri"] == "test://static-text"),
            "{resources}"
        );

        let found = home.run(&["inspect", &name, "-o", "json"]).succeeded().json();
        assert_eq!(found["tools"], listed.len(), "{found}");
        assert!(found["protocolVersion"].is_string() && found["handshakeMs"].is_u64(), "{found}");
        assert!(found["capabilities"]["tools"].is_object(), "{found}");
        let shown = home.run(&["inspect", &name]).succeeded().stdout;
        assert!(shown.contains(&format!("tools         {}", listed.len())), "{shown}");

        let called = home.run(&["call", &name, "test_simple_text"]).succeeded();
        assert_eq!((called.stdout.as_str(), called.stderr.as_str()), (SIMPLE_TEXT, ""));
        let image = home.run(&["call", &name, "test_image_content"]).succeeded().stdout;
        assert!(image.starts_with("[image image/png, "), "{image}");
        let failed = home.run(&["call", &name, "test_error_handling", "-o", "json"]);
        assert_eq!((failed.code, &failed.json()["isError"]), (Some(1), &json!(true)), "{failed:?}");
        home.run(&["stop", &name]).succeeded();
        home.run(&["rm", &name]).succeeded();
    }
    home.assert_nothing_left();
}

const SIMPLE_TEXT: &str = "This is a simple text response for testing.\n";

#[test]
fn a_call_that_cannot_be_made_says_what_is_wrong() {
    let home = Home::new();
    let name = home.name("a");
    home.run(&["run", STDIO, "--name", &name, "--tools", "add_numbers,test_*"]).succeeded();
    for (args, code, message) in [
        (&["nope"][..], 4, "error: the server has no tool `nope`; its tools are `"),
        (&["test_simple_text", "a=1"], 2, "error: the tool has no argument `a`; it takes no arguments"),
        (&["test_simple_text", "a"], 2, "error: `a` is not an argument of the form `KEY=VALUE`"),
        (&["test_simple_text", "--json", "[1]"], 2, "error: the value of `--json` is not a JSON object"),
        (&["test_elicitation"], 2, "error: the argument `message` (string) is missing"),
        (
            &["test_elicitation", "message=a", "message=b"],
            2,
            "error: the argument `message` is given more than once, but takes one value",
        ),
    ] {
        let outcome = home.run(&[&["call", &name], args].concat());
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(code), ""), "{outcome:?}");
        assert!(outcome.stderr.starts_with(message), "{outcome:?}");
    }
    let gone = home.run(&["tools", &home.name("gone")]);
    assert_eq!(gone.code, Some(4), "{gone:?}");
    let refused = home.run(&["inspect", "http://127.0.0.1:9/mcp"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{refused:?}");
    assert!(refused.stderr.contains("127.0.0.1:9"), "{refused:?}");
}

#[test]
fn progress_is_shown_and_questions_of_a_server_are_asked() {
    let home = Home::new();
    let name = home.name("a");
    home.run(&["run", STDIO, "--name", &name]).succeeded();
    let called = home.run(&["call", &name, "test_tool_with_progress"]).succeeded();
    assert!(called.stderr.contains("progress: 100 of 100"), "{called:?}");

    let call = format!("{} call {name} {ASKING}", home.program());
    let mut typing = PseudoTerminal::spawn(home.command("script"), &call);
    typing.expect_then_type("name", "ann\r");
    let (code, shown) = typing.wait();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("Hello, ann!"), "{shown}");

    // Without a terminal, the user cannot be prompted.
    let declined = home.run(&["call", &name, ASKING]);
    assert_eq!((declined.code, declined.stdout.as_str()), (Some(1), ""));
    assert_eq!(declined.stderr, "error: the server still asked for input after 10 rounds\n");
}

/// A tool that asks for the name of the caller.
const ASKING: &str = "test_input_required_result_elicitation";
