//! Tests `mcpm explain` with denials by the origin check, the tool filter and policies, and checks that the same
//! request passes after the change that the explanation names.
//!
//! `tests/identity` tests the same for authenticated callers.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use serde_json::{Value, json};

use super::support::{Home, Program};

/// A tool of the everything-server.
const CALL: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_simple_text","arguments":{}}}"#;

/// Posts to a proxy with additional headers, and returns the complete response.
fn post(url: &str, headers: &str, body: &str) -> String {
    let address = url.strip_prefix("http://").unwrap().trim_end_matches("/mcp");
    let mut stream = TcpStream::connect(address).unwrap();
    let host = if headers.contains("Host:") { String::new() } else { format!("Host: {address}\r\n") };
    let head = format!(
        "POST /mcp HTTP/1.1\r\n{host}{headers}Content-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    let accept = "Accept: application/json, text/event-stream\r\nConnection: close";
    write!(stream, "{head}{accept}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The id of the denial, from the header of the response.
fn refusal(answer: &str) -> Option<&str> {
    answer.lines().find_map(|line| line.strip_prefix("mcpm-refusal: "))
}

/// Calls a tool in a new session, as a client does.
fn call(url: &str, headers: &str) -> String {
    let open = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
        },
    });
    let opened = post(url, headers, &open.to_string());
    let session = opened.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    let Some(session) = session else { return opened };
    let headers = format!("{headers}Mcp-Session-Id: {session}\r\n");
    post(url, &headers, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    post(url, &headers, CALL)
}

/// The text between the first pair of backticks.
fn quoted(text: &str) -> &str {
    text.split('`').nth(1).unwrap_or_else(|| panic!("nothing is quoted in: {text}"))
}

struct ProxyFixture<'a> {
    home: &'a Home,
    target: &'a str,
}

impl ProxyFixture<'_> {
    /// A proxy with these options.
    fn start(&self, options: &[&str]) -> (Program, String) {
        let proxy = ["proxy", "front", "--target-uri", self.target];
        let mut proxy = Program::start(&mut self.home.mcpm(&[&proxy[..], options].concat()));
        let url = proxy.read_line().split_whitespace().last().unwrap().to_owned();
        (proxy, url)
    }

    /// Calls the tool through a proxy that denies the call, and returns the explanation that the command prints.
    #[track_caller]
    fn explained(&self, options: &[&str], headers: &str) -> Value {
        let (proxy, url) = self.start(options);
        let answer = call(&url, headers);
        let id = refusal(&answer).unwrap_or_else(|| panic!("it was not refused: {answer}")).to_owned();
        assert!(
            !answer.contains("option `") && !answer.contains("permit("),
            "a client is told no fix: {answer}"
        );
        proxy.signal("TERM");
        assert_eq!(proxy.wait().code, Some(0));
        let explained = self.home.run(&["explain", &id, "--output", "json"]).succeeded().json();
        // The same explanation as text.
        let text = self.home.run(&["explain", &id]).succeeded().stdout;
        let inputs = explained["refusal"]["inputs"].as_object().unwrap();
        // The text contains flags where the JSON contains names of settings.
        let fix = explained["refusal"]["fix"].as_str().unwrap().split(" option `").next().unwrap();
        let shown = [&explained["reason"], &explained["layer"]].into_iter().chain(inputs.values());
        for shown in shown.map(|shown| shown.as_str().unwrap()).chain([fix]) {
            assert!(text.contains(shown), "{shown} is not in: {text}");
        }
        assert!(!text.contains("option `") || text.contains("option `--"), "{text}");
        assert_eq!(
            (&explained["refusal"]["id"], &explained["refusal"]["server"]),
            (&json!(id), &json!("front"))
        );
        explained
    }

    /// Calls the tool through a proxy that allows the call.
    #[track_caller]
    fn passes(&self, options: &[&str], headers: &str) {
        let (_proxy, url) = self.start(options);
        let answer = call(&url, headers);
        assert!(answer.contains("This is a simple text response"), "{options:?}: {answer}");
    }
}

#[test]
fn applying_the_suggested_fix_allows_the_request() {
    let home = Home::new();
    let name = home.name("behind");
    // The workload's own proxy gets the requests of the page, too, so it must allow the page's origin.
    let run = ["run", "mcpm-test/everything:1", "--name", &name, "--allowed-origins", "https://app.example"];
    let target = home.run(&run).succeeded().url();
    let front = ProxyFixture { home: &home, target: &target };

    let page = "Origin: https://app.example\r\n";
    let explained = front.explained(&[], page);
    assert_eq!((&explained["reason"], &explained["layer"]), (&json!("origin.not_allowed"), &json!("origin")));
    assert_eq!(explained["refusal"]["inputs"], json!({"Origin": "https://app.example"}));
    let origin = quoted(explained["refusal"]["fix"].as_str().unwrap());
    front.passes(&["--allowed-origins", origin], page);

    let named = "Host: box.example\r\n";
    let explained = front.explained(&[], named);
    assert_eq!(explained["reason"], "origin.host_not_allowed");
    let host = quoted(explained["refusal"]["fix"].as_str().unwrap());
    front.passes(&["--allowed-hosts", host], named);

    let explained = front.explained(&["--tools", "test_image_content"], "");
    assert_eq!((&explained["reason"], &explained["layer"]), (&json!("tools.not_listed"), &json!("tools")));
    assert_eq!(explained["refusal"]["inputs"], json!({"method": "tools/call", "tool": "test_simple_text"}));
    let tool = quoted(explained["refusal"]["fix"].as_str().unwrap());
    front.passes(&["--tools", "test_image_content", "--tools", tool], "");

    home.write("renamed.json", r#"{"toolsOverride": {"test_simple_text": {"name": "plain"}}}"#);
    let explained = front.explained(&["--tools-override", "renamed.json"], "");
    assert_eq!(explained["refusal"]["fix"], "call it `plain`");

    let authorize = |policies: &[&str]| {
        let config = json!({"version": "1.0", "type": "cedarv1", "cedar": {"policies": policies}});
        home.write("authz.json", &config.to_string())
    };
    let other = r#"permit(principal, action == Action::"call_tool", resource == Tool::"other");"#;
    let file = authorize(&[other]);
    let explained = front.explained(&["--authz-config", &file], "");
    let layer = (&explained["reason"], &explained["layer"]);
    assert_eq!(layer, (&json!("authorization.denied"), &json!("authorization")));
    assert_eq!(explained["refusal"]["rule"], "no policy permits the request");
    let policy = quoted(explained["refusal"]["fix"].as_str().unwrap());
    front.passes(&["--authz-config", &authorize(&[other, policy])], "");

    let forbid = r#"@id("no-text") forbid(principal, action, resource == Tool::"test_simple_text");"#;
    let file = authorize(&["permit(principal, action, resource);", forbid]);
    let explained = front.explained(&["--authz-config", &file], "");
    assert_eq!(explained["reason"], "authorization.forbidden");
    let fix = explained["refusal"]["fix"].as_str().unwrap();
    assert!(fix.contains("no-text"), "the policy is named: {fix}");
    let mended = forbid.replace("test_simple_text", "other");
    front.passes(&["--authz-config", &authorize(&["permit(principal, action, resource);", &mended])], "");
}

#[test]
fn denials_are_per_workload_and_removed_with_it() {
    let home = Home::new();
    let names = ["one", "two"].map(|what| home.name(what));
    let refusals = names.clone().map(|name| {
        let run = ["run", "mcpm-test/everything:1", "--name", &name, "--tools", "!test_simple_text"];
        let url = home.run(&run).succeeded().url();
        refusal(&post(&url, "", CALL)).unwrap().to_owned()
    });
    let explain = |id: &str| home.run(&["explain", id, "--output", "json"]);
    for (name, id) in names.iter().zip(&refusals) {
        assert_eq!(explain(id).succeeded().json()["refusal"]["server"], json!(name));
        // With the quotes and spaces with which users copy the id.
        assert_eq!(
            explain(&format!(" {} ", id.to_uppercase())).succeeded().json()["refusal"]["id"],
            json!(id)
        );
    }
    home.run(&["stop", &names[0]]).succeeded();
    home.run(&["rm", &names[0]]).succeeded();
    let gone = explain(&refusals[0]);
    assert_eq!((gone.code, gone.stdout.as_str()), (Some(4), ""), "{gone:?}");
    let says = format!("no denial or reason `{}`", refusals[0]);
    assert!(gone.stderr.contains(&says) && gone.stderr.lines().count() == 1, "{gone:?}");
    explain(&refusals[1]).succeeded();
}
