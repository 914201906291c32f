//! The tests of isolation with the built-in runtime. Those that are missing here examine a container with the engine.
//! `tests/cli/each_runtime/isolation.rs` tests the same rules as an ordinary user, with a static program.

use super::{
    egress,
    fixture::{IsolationFixture, NODE, PYTHON},
    server,
    ssrf_guards::{WITHOUT_PROXY, fetch},
};

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_enforced_without_an_engine() {
    Box::pin(egress::profile_limits(IsolationFixture::with_builtin_runtime("own-limits", PYTHON))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_none_profile_has_no_network_without_an_engine() {
    Box::pin(egress::none(IsolationFixture::with_builtin_runtime("own-none", PYTHON))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_unaware_program_reaches_an_allowed_name_without_an_engine() {
    Box::pin(egress::proxy_unaware_program(IsolationFixture::with_builtin_runtime("own-node", NODE))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_reachable_again_after_exhausting_connections_without_an_engine() {
    Box::pin(server::all_connections_busy(IsolationFixture::with_builtin_runtime("own-many", PYTHON))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fetch_server_reaches_an_allowed_host_without_an_engine() {
    for command in [&["mcp-server-fetch"][..], &["sh", "-c", WITHOUT_PROXY, "sh", "mcp-server-fetch"]] {
        Box::pin(fetch(IsolationFixture::with_builtin_runtime("own-fetch", PYTHON), command)).await;
    }
}
