//! Tests which requests Cedar policies allow for callers that a real identity provider authenticates.

use mcpm::{ConnectOptions, ProxyBuilder, stdio_bridge::Connection};
use mcpm_tests::harness::{
    mcp::{LEGACY, initialize, notification, request},
    with_timeout,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::{protected_server::ProtectedServer, provider::IdentityProvider};

/// `robot` is of the staff and has level 3, `other` is a guest of level 1.
const POLICIES: [&str; 5] = [
    r#"permit(principal in McpmGroup::"staff", action == Action::"call_tool", resource == Tool::"test_simple_text");"#,
    r#"permit(principal, action == Action::"call_tool", resource == Tool::"test_error_handling");"#,
    r#"permit(principal, action == Action::"call_tool", resource == Tool::"test_x_mcp_header")
       when { context.arg_level <= principal.claim_level };"#,
    r#"permit(principal == Client::"other", action == Action::"get_prompt", resource);"#,
    r#"@id("never") forbid(principal, action == Action::"call_tool", resource == Tool::"test_x_mcp_header")
       when { context has arg_level && context.arg_level == 0 };"#,
];

fn call(tool: &str, arguments: Value) -> Value {
    json!({ "name": tool, "arguments": arguments })
}

#[tokio::test(flavor = "multi_thread")]
async fn each_principal_sees_and_does_what_policies_allow_it() {
    let provider = IdentityProvider::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policies.json");
    let document = json!({ "version": "1.0", "type": "cedarv1", "cedar": { "policies": POLICIES } });
    std::fs::write(&file, document.to_string()).unwrap();
    let served = ProtectedServer::start(|proxy: ProxyBuilder| {
        let proxy = proxy.oidc_issuer(provider.issuer.clone()).authz_config(file);
        proxy.oidc_client_id("proxy").oidc_client_secret("proxy-secret")
    })
    .await;
    let denied = json!("authorization.denied");
    // The third token belongs to the same principal as the first, which the proxy learns from the provider.
    for (who, is_staff, level, is_other) in
        [("robot", true, 3, false), ("other", false, 1, true), ("opaque", true, 3, false)]
    {
        let token = provider.token(who, served.proxy.url()).await;
        assert_eq!(token.contains('.'), who != "opaque");
        for caller in served.callers(&token).await {
            let tools: &[&str] = if is_staff {
                &["test_error_handling", "test_simple_text", "test_x_mcp_header"]
            } else {
                &["test_error_handling", "test_x_mcp_header"]
            };
            assert_eq!(caller.tools().await, tools, "{who}");
            let text = caller.ask("tools/call", call("test_simple_text", json!({}))).await;
            assert_eq!(text.0, if is_staff { 200 } else { 403 }, "{who}: {text:?}");
            assert!(is_staff || text.1 == denied, "{text:?}");
            // A tool is in the list if the policies allow some arguments of it, even if they deny others.
            for (asked, reason) in [(0, "authorization.forbidden"), (1, ""), (3, "authorization.denied")] {
                let (status, said) =
                    caller.ask("tools/call", call("test_x_mcp_header", json!({ "level": asked }))).await;
                let allowed = asked > 0 && asked <= level;
                assert_eq!(status, if allowed { 200 } else { 403 }, "{who} {asked}: {said}");
                assert!(allowed || said == reason, "{who} {asked}: {said}");
            }
            let hidden = caller.ask("tools/call", call("test_image_content", json!({}))).await;
            assert_eq!(hidden, (403, denied.clone()), "{who}");
            let prompts = caller.listed("prompts/list", "prompts", "name").await;
            assert_eq!(prompts.is_empty(), !is_other, "{who}: {prompts:?}");
            assert!(caller.listed("resources/list", "resources", "uri").await.is_empty(), "{who}");
        }
    }

    // The policies apply to a caller in the same process, too.
    let token = provider.token("other", served.proxy.url()).await;
    let options = ConnectOptions { bearer_token: Some(token.into()), ..ConnectOptions::default() };
    let mut connection = BufReader::new(served.proxy.connect_with(options).unwrap());
    let opened = exchange(&mut connection, &initialize(LEGACY, json!({}))).await;
    assert!(opened["result"]["serverInfo"].is_object(), "{opened}");
    send(&mut connection, &notification("notifications/initialized", json!({}))).await;
    let calls = request(2, "tools/call", call("test_error_handling", json!({})));
    let allowed = exchange(&mut connection, &calls).await;
    assert!(allowed["result"]["content"].is_array(), "{allowed}");
    let calls = request(3, "tools/call", call("test_simple_text", json!({})));
    let refused = exchange(&mut connection, &calls).await;
    assert_eq!(refused["error"]["data"]["reason"], denied, "{refused}");
}

async fn send(connection: &mut BufReader<Connection>, message: &Value) {
    connection.write_all(format!("{message}\n").as_bytes()).await.unwrap();
}

/// Sends a request and returns the response.
async fn exchange(connection: &mut BufReader<Connection>, message: &Value) -> Value {
    send(connection, message).await;
    loop {
        let mut line = String::new();
        with_timeout("a response", connection.read_line(&mut line)).await.unwrap();
        let response: Value = serde_json::from_str(&line).unwrap();
        if response["id"] == message["id"] {
            return response;
        }
    }
}
