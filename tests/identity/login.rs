//! A published client finds the provider by what the proxy says, logs in on its real pages, and uses the server.

use mcpm::{Proxy, proxy::StdioProxy, transport::LocalProcess};
use mcpm_tests::{
    harness::{testbed, within},
    root,
};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::provider::Provider;

#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_sdk_logs_in_where_the_metadata_leads_it() {
    let provider = Provider::start().await;
    let server = LocalProcess::new(env!("CARGO_BIN_EXE_scripted-server"), [""; 0]);
    let server = within("the server", StdioProxy::new("server", server).start(drop)).await.unwrap();
    let proxy = Proxy::builder("guarded", server.proxy().url())
        .oidc_issuer(provider.issuer.clone())
        .oidc_scopes("openid")
        .oidc_scopes("mcp")
        .jwks_allow_private_ip(true);
    let proxy = proxy.build().unwrap().start().await.unwrap();
    let mut client = Command::new(testbed::path("MCPM_TEST_NODE"));
    client.arg(root().join("tests/identity/login_client.mjs")).arg(proxy.url()).kill_on_drop(true);
    let output = within("the client", client.output()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["authorization"], provider.issuer);
    assert_eq!(said["resource"], proxy.url());
    assert_eq!(said["scope"], "openid mcp");
    assert!(said["tools"].as_array().unwrap().contains(&json!("echo")), "{said}");
}
