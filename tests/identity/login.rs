//! Checks that published clients discover the provider in the proxy's metadata, log in on the provider's real pages,
//! and use the server.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Stdio};

use mcpm::{
    Proxy, RunningProxy,
    proxy::{RunningStdioProxy, StdioProxy},
    stdio::LocalProcess,
};
use mcpm_tests::{
    harness::{testbed, with_timeout},
    root,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
};

use crate::provider::IdentityProvider;

/// A server, and a proxy in front of it that requires tokens of the provider.
async fn guarded(provider: &IdentityProvider) -> (RunningStdioProxy, RunningProxy) {
    let server = LocalProcess::new(env!("CARGO_BIN_EXE_scripted-server"), [""; 0]);
    let server = with_timeout("the server", StdioProxy::new("server", server).start(drop)).await.unwrap();
    let proxy = Proxy::builder("guarded", server.proxy().url())
        .oidc_issuer(provider.issuer.clone())
        .oidc_scopes("openid")
        .oidc_scopes("mcp")
        .jwks_allow_private_ip(true);
    (server, proxy.build().unwrap().start().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_sdk_logs_in_using_the_metadata() {
    let provider = IdentityProvider::start().await;
    let (_server, proxy) = guarded(&provider).await;
    let mut client = Command::new(testbed::path("MCPM_TEST_NODE"));
    client.arg(root().join("tests/identity/login_client.mjs")).arg(proxy.url()).kill_on_drop(true);
    let output = with_timeout("the client", client.output()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["authorization"], provider.issuer);
    assert_eq!(said["resource"], proxy.url());
    assert_eq!(said["scope"], "openid mcp");
    assert!(said["tools"].as_array().unwrap().contains(&json!("echo")), "{said}");
}

/// `mcp-remote` connects a client that does not support logins to a server that requires one: it registers itself,
/// opens a browser, and waits for the redirect. Returns the server's tools.
pub(crate) async fn log_in_with_mcp_remote(url: &str) -> Vec<Value> {
    let home = tempfile::tempdir().unwrap();
    let node = testbed::path("MCPM_TEST_NODE");
    let browser = home.path().join("browser");
    let script = root().join("tests/identity/browser.mjs");
    let complaints = home.path().join("complaints");
    let (node_shown, script) = (node.display(), script.display());
    let text = format!("#!/bin/sh\nexec {node_shown} {script} \"$@\" 2>>{}\n", complaints.display());
    fs::write(&browser, text).unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();

    let remote = testbed::path("MCPM_TEST_NODE_MODULES").join("mcp-remote/dist/proxy.js");
    let mut client = Command::new(&node)
        .arg(remote)
        .args([url, "--transport", "http-only"])
        .env("HOME", home.path())
        .env("BROWSER", &browser)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = client.stdin.take().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    let opens = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "behind mcp-remote", "version": "1" },
    });
    let mut said = Value::Null;
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opens }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }),
    ] {
        stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        if message.get("id").is_some() {
            let line = with_timeout("an answer", lines.next_line()).await.unwrap();
            said = serde_json::from_str(&line.unwrap_or_default()).unwrap_or_default();
            assert_eq!(said["id"], message["id"], "{said} {:?}", fs::read_to_string(&complaints));
        }
    }
    drop(stdin);
    with_timeout("the end of mcp-remote", client.wait()).await.unwrap();
    said["result"]["tools"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_remote_has_its_user_log_in_with_a_browser() {
    let provider = IdentityProvider::start().await;
    let (_server, proxy) = guarded(&provider).await;
    let tools = log_in_with_mcp_remote(proxy.url()).await;
    assert!(tools.iter().any(|tool| tool["name"] == "echo"), "{tools:?}");
    assert_eq!(provider.request_count("/reg").await, 1, "it registered itself");
}
