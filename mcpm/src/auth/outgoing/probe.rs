//! Detects whether a remote server requires a login, with requests without a token.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use url::Url;

use super::challenge::{Challenge, bearer_challenge};
use crate::{
    auth::guarded_client::{GuardedClient, ProviderRequest, ProviderResponse},
    mcp::era::{self, FIRST_MODERN_VERSION},
};

/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: usize = 1 << 20;
const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");

/// Returns the challenge of a server that requires a login: in the response to the first request of its era or, because
/// some servers accept that request without a login, in the response to `tools/list`.
pub(super) async fn probe(http: &GuardedClient, target: &Url) -> Option<Challenge> {
    let modern = |method: &'static str, body: Bytes| {
        let mut request = post(target, body);
        request.headers.insert(MCP_PROTOCOL_VERSION, HeaderValue::from_static(FIRST_MODERN_VERSION));
        request.headers.insert(MCP_METHOD, HeaderValue::from_static(method));
        request
    };
    let discovered = send(http, modern("server/discover", era::discover_request(1).freeze())).await?;
    match discovered.status {
        StatusCode::UNAUTHORIZED => return bearer_challenge(&discovered.headers),
        StatusCode::OK => {
            let listed = send(http, modern("tools/list", era::tools_request(2, None).freeze())).await?;
            return unauthorized_challenge(&listed);
        }
        _ => {}
    }
    let opened = send(http, post(target, era::initialize_request(3).freeze())).await?;
    let Some(session) = opened.headers.get(MCP_SESSION_ID) else { return unauthorized_challenge(&opened) };
    let in_session = |body| {
        let mut request = post(target, body);
        request.headers.insert(MCP_SESSION_ID, session.clone());
        request
    };
    let listed = send(http, in_session(era::tools_list_request(4).freeze())).await?;
    // If this fails, the server ends the session itself at some time.
    send(http, ProviderRequest { method: Method::DELETE, ..in_session(Bytes::new()) }).await;
    unauthorized_challenge(&listed)
}

fn post(target: &Url, body: Bytes) -> ProviderRequest {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    ProviderRequest { method: Method::POST, url: target.clone(), headers, body }
}

/// Sends a request; `None` if the server cannot be reached, which is no reason to log in. The check of the server
/// reports the error.
async fn send(http: &GuardedClient, request: ProviderRequest) -> Option<ProviderResponse> {
    http.send(request, MAX_RESPONSE_BYTES).await.ok()
}

fn unauthorized_challenge(response: &ProviderResponse) -> Option<Challenge> {
    (response.status == StatusCode::UNAUTHORIZED).then(|| bearer_challenge(&response.headers)).flatten()
}
