//! Tests a workload that a team uses: who can use it, what each user can see and do, and what is recorded.

use std::fs;

use mcpm_tests::harness::upstream::{Upstream, UpstreamResponse};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::support::{Home, Outcome, Program, Session};

/// An introspection endpoint that knows the tokens `ann` and `bob`, and returns that `ann` belongs to the staff.
pub(super) fn provider(runtime: &Runtime) -> String {
    runtime.block_on(async {
        let provider = Upstream::listen().await;
        let uri = provider.uri("/introspect");
        provider.serve(|asked| {
            let form = String::from_utf8_lossy(&asked.body).into_owned();
            let is = |token: &str| form.contains(&format!("token={token}&"));
            let body = match () {
                () if is("ann") => json!({"active": true, "sub": "ann", "aud": "team", "groups": ["staff"]}),
                () if is("bob") => json!({"active": true, "sub": "bob", "aud": "team"}),
                () => json!({"active": false}),
            };
            UpstreamResponse {
                status: "200 OK".to_owned(),
                headers: "Content-Type: application/json\r\n".to_owned(),
                body: body.to_string(),
            }
        });
        uri
    })
}

#[test]
fn callers_of_a_container_see_and_do_what_they_may_and_all_of_it_is_written() {
    let home = Home::new();
    let runtime = Runtime::new().unwrap();
    let introspection = provider(&runtime);
    home.write("tools.json", r#"{"toolsOverride": {"test_simple_text": {"name": "say"}}}"#);
    home.write(
        "policies.yaml",
        "version: '1.0'\ntype: cedarv1\ncedar:\n  policies:\n\
         \x20   - permit(principal, action, resource == Tool::\"test_error_handling\");\n\
         \x20   - permit(principal in McpmGroup::\"staff\", action, resource == Tool::\"test_simple_text\");\n",
    );
    for (image, kind) in [("everything:1", "pipe"), ("everything-http:1", "http")] {
        let (name, image) = (home.name(kind), format!("mcpm-test/{image}"));
        let run = [
            "run",
            &image,
            "--name",
            &name,
            "--enable-audit",
            "--tools",
            "say,test_error*",
            "--tools-override",
            "tools.json",
            "--authz-config",
            "policies.yaml",
            "--oidc-introspection-url",
            &introspection,
            "--oidc-client-id",
            "me",
            "--oidc-audience",
            "team",
            "--jwks-allow-private-ip",
        ];
        let mut command = home.mcpm(&run);
        let outcome =
            Outcome::of(command.env("MCPM_OIDC_CLIENT_SECRET", "other").output().unwrap()).succeeded();
        let url = outcome.url();
        let strange = Session::without_session(&url).with_token("eve").list_tools();
        assert_eq!(strange["error"]["data"]["reason"], "auth.token_inactive", "{kind}: {strange}");
        let (ann, bob) = (Session::open_as(&url, "ann"), Session::open_as(&url, "bob"));
        let mut tools = ann.tools();
        tools.sort_unstable();
        assert_eq!(tools, ["say", "test_error_handling"], "{kind}");
        assert_eq!(bob.tools(), ["test_error_handling"], "{kind}");
        assert!(ann.call("say", &json!({})).contains("simple text"), "{kind}");
        for hidden in ["test_simple_text", "test_image_content"] {
            let answer = ann.call_raw(hidden, &json!({}));
            assert_eq!(answer["error"]["data"]["reason"], "tools.not_listed", "{kind} {hidden}: {answer}");
        }
        let answer = bob.call_raw("say", &json!({}));
        assert_eq!(answer["error"]["data"]["reason"], "authorization.denied", "{kind}: {answer}");
        // The session of another caller does not exist for this caller.
        let taken = bob.in_session_of(&ann).list_tools();
        assert_eq!(taken["error"]["data"]["reason"], "session.unknown", "{kind}: {taken}");
        home.run(&["stop", &name]).succeeded();
        let text = fs::read_to_string(home.record_dir(&name).join("audit.jsonl")).unwrap();
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for (who, kind, outcome) in [
            ("ann", "mcp_tool_call", "success"),
            ("bob", "mcp_tool_call", "denied"),
            ("bob", "mcp_tools_list", "success"),
            ("anonymous", "auth_failure", "denied"),
        ] {
            let is_it = |event: &Value| {
                event["type"] == kind
                    && event["outcome"] == outcome
                    && (event["subjects"]["user_id"] == who || event["subjects"]["user"] == who)
            };
            assert!(events.iter().any(is_it), "{who} {kind} {outcome}: {text}");
        }
        home.run(&["rm", &name]).succeeded();
    }
    home.assert_nothing_left();
}

#[test]
fn a_proxy_warns_once_of_tool_names_that_no_tool_has() {
    let home = Home::without_engine();
    let runtime = Runtime::new().unwrap();
    let target = runtime.block_on(async {
        let server = Upstream::listen().await;
        let uri = server.uri("/mcp");
        server.serve(|asked| {
            let asked: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
            let result = match asked["method"].as_str() {
                Some("tools/list") => json!({"tools": [{"name": "fetch"}, {"name": "read"}]}),
                _ => json!({}),
            };
            let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
            UpstreamResponse {
                status: "200 OK".to_owned(),
                headers: "Content-Type: application/json\r\n".to_owned(),
                body: answer.to_string(),
            }
        });
        uri
    });
    home.write("tools.json", r#"{"toolsOverride": {"raed": {"name": "open"}, "fetch": {"name": "page"}}}"#);
    let run = ["proxy", "front", "--target-uri", &target, "--tools", "page,serch,rea?"];
    // The server still has a tool that callers must not see.
    let policies =
        ["permit(principal, action, resource);", r#"forbid(principal, action, resource == Tool::"read");"#];
    let config = json!({"version": "1.0", "type": "cedarv1", "cedar": {"policies": policies}});
    home.write("authz.json", &config.to_string());
    let run = [&run[..], &["--tools-override", "tools.json", "--authz-config", "authz.json"]].concat();
    let mut proxy = Program::start(&mut home.mcpm(&run));
    let url = proxy.read_line().split_whitespace().last().unwrap().to_owned();
    for _ in 0..2 {
        assert_eq!(Session::without_session(&url).tools(), ["page"]);
    }
    proxy.signal("TERM");
    let outcome = proxy.wait();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
    let says = "the tool filter or the overrides contain `raed`, `serch`, but the server has no such tool";
    assert!(outcome.stderr.contains(says), "{outcome:?}");
}
