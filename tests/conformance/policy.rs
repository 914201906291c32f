//! Tests tool filters with a real client, for a stdio server and an HTTP server, in each era; for the HTTP server, also
//! a policy.

use std::{collections::BTreeMap, path::Path};

use mcpm::{
    policy::{PolicySpec, ToolOverride},
    proxy::{Proxy, ProxySpec, StdioProxy},
    stdio::LocalProcess,
};
use mcpm_tests::harness::{testbed, with_timeout};
use serde_json::{Value, json};

use crate::{
    clients::{output, python},
    suite::direct,
};

const RENAMED: &str = "plain";
const OWN: &str = "test_simple_text";

/// A filter that allows the renamed tool and one more, and a policy that permits only the first.
fn files(folder: &Path) -> (String, String) {
    let overrides = folder.join("overrides.json");
    let text = json!({ "toolsOverride": { OWN: { "name": RENAMED, "description": "Says something" } } });
    std::fs::write(&overrides, text.to_string()).unwrap();
    let authorization = folder.join("authz.yaml");
    let policy = format!("permit(principal, action, resource == Tool::\"{OWN}\");");
    let text = format!("version: \"1.0\"\ntype: cedarv1\ncedar:\n  policies:\n    - '{policy}'\n");
    std::fs::write(&authorization, text).unwrap();
    let shown = |path: &Path| path.to_str().unwrap().to_owned();
    (shown(&overrides), shown(&authorization))
}

/// The client's view of that tool: the names in the list, the text that it got, or the cause of the failure.
async fn list_and_call(url: &str, tool: &str, mode: &str) -> Result<(Vec<Value>, Value), String> {
    let mut command = python("python_client.py");
    command.args([url, tool, "{}", mode]);
    let ended = with_timeout("a client", command.output()).await.unwrap();
    if !ended.status.success() {
        return Err(String::from_utf8_lossy(&ended.stderr).into_owned());
    }
    let mut command = python("python_client.py");
    command.args([url, tool, "{}", mode]);
    let line = output(command).await;
    Ok((line["tools"].as_array().unwrap().clone(), line["result"]["content"][0]["type"].clone()))
}

async fn assert_policy_enforced(url: &str, modes: &[&str], allowed: &[&str]) {
    for mode in modes {
        let (tools, kind) = list_and_call(url, RENAMED, mode).await.unwrap();
        assert_eq!(
            (tools, kind),
            (allowed.iter().map(|name| json!(name)).collect(), json!("text")),
            "{mode}"
        );
        for hidden in [OWN, "test_image_content", "test_error_handling"] {
            if !allowed.contains(&hidden) {
                let failure = list_and_call(url, hidden, mode).await.unwrap_err();
                assert!(failure.contains("Unknown tool") || failure.contains("not authorized"), "{failure}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_filtered_and_renamed_in_front_of_a_pipe() {
    let rename = ToolOverride { name: Some(RENAMED.to_owned()), description: None };
    let policy = PolicySpec {
        tools: vec![RENAMED.to_owned(), "test_image_c*".to_owned(), "!*_error_*".to_owned()],
        overrides: BTreeMap::from([(OWN.to_owned(), rename)]),
        authorization: None,
    };
    let program = testbed::path("MCPM_TEST_EVERYTHING_SERVER");
    let spec = ProxySpec { policy, ..ProxySpec::default() };
    let proxy = StdioProxy::new("server", LocalProcess::new(program, [""; 0])).spec(spec);
    let running = with_timeout("the proxy to start", proxy.start(drop)).await.unwrap();
    assert_policy_enforced(
        running.proxy().url(),
        &["legacy", "2026-07-28"],
        &["test_image_content", RENAMED],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_hold_in_front_of_a_server_that_speaks_http() {
    let folder = tempfile::tempdir().unwrap();
    let (overrides, authorization) = files(folder.path());
    for (requirements, mode) in [("2025-11-25", "legacy"), ("2026-07-28", "2026-07-28")] {
        let (_server, url) = direct(requirements).await;
        let proxy = Proxy::builder("server", &url)
            .tools(RENAMED)
            .tools("test_image_content")
            .tools_override(&overrides)
            .authz_config(&authorization);
        let proxy = with_timeout("the proxy to start", proxy.build().unwrap().start()).await.unwrap();
        assert_policy_enforced(proxy.url(), &[mode], &[RENAMED]).await;
    }
}
