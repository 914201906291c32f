//! Tests isolation with the built-in runtime. Tests in the other files that are not repeated here examine a container
//! with the engine. `tests/cli/each_runtime/isolation.rs` tests the same rules as an ordinary user, with a static
//! program.

use super::{
    egress,
    fixture::{IsolationFixture, NODE, PYTHON},
    server,
    ssrf_guards::{self, WITHOUT_PROXY},
};

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_enforced() {
    Box::pin(egress::profile_limits(IsolationFixture::with_builtin_runtime("own-limits", PYTHON))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_public_excludes_this_machine() {
    Box::pin(egress::everything_public(IsolationFixture::with_builtin_runtime("own-all", PYTHON))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_none_profile_has_no_network() {
    Box::pin(egress::none(IsolationFixture::with_builtin_runtime("own-none", PYTHON))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_unaware_program_reaches_an_allowed_name() {
    Box::pin(egress::proxy_unaware_program(IsolationFixture::with_builtin_runtime("own-node", NODE))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_profile_allows_exactly_what_was_used() {
    Box::pin(server::recorded_profile(IsolationFixture::with_builtin_runtime("own-learn", PYTHON))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lookup_without_a_connection_is_recorded_and_reported() {
    Box::pin(server::recorded_lookup(IsolationFixture::with_builtin_runtime("own-lookup", PYTHON))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_reachable_again_after_exhausting_connections() {
    Box::pin(server::all_connections_busy(IsolationFixture::with_builtin_runtime("own-many", PYTHON))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_in_node_lets_a_direct_connection_to_an_allowed_host_pass() {
    Box::pin(ssrf_guards::guard_in_node(IsolationFixture::with_builtin_runtime("own-guard-node", NODE)))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_in_go_lets_a_direct_connection_to_an_allowed_host_pass() {
    Box::pin(ssrf_guards::guard_in_go(IsolationFixture::with_builtin_runtime("own-guard-go", NODE))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fetch_server_reaches_an_allowed_host() {
    for command in [&["mcp-server-fetch"][..], &["sh", "-c", WITHOUT_PROXY, "sh", "mcp-server-fetch"]] {
        let place = IsolationFixture::with_builtin_runtime("own-fetch", PYTHON);
        Box::pin(ssrf_guards::fetch(place, command)).await;
    }
}
