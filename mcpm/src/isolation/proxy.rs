//! Serves the HTTP proxy for isolated containers: CONNECT tunnels, and plain requests.

use std::{
    convert::Infallible,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{self, HeaderName},
};
use http_body_util::{Either, Full};
use hyper::{
    body::Incoming,
    service::service_fn,
    upgrade::{self, OnUpgrade},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use super::{
    denial_response::denial_text,
    policy::EgressError,
    state::IsolationState,
    tunnel::{self, ActivityStream, ActivityTimer},
};
use crate::{permission::Host, platform::LocalStream};

/// Timeout of the head of a request.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest head of a request in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Headers that apply to one connection only (RFC 9110, section 7.6.1).
const HOP_BY_HOP_HEADERS: [&str; 8] = [
    "connection",
    "proxy-connection",
    "proxy-authorization",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

type EgressBody = Either<Full<Bytes>, Incoming>;

/// A tunnel that is opened once the client has the response.
type PendingTunnel = Arc<Mutex<Option<(OnUpgrade, Host, u16, TcpStream)>>>;

/// Serves one connection to its end.
pub(super) async fn serve(connection: LocalStream, state: Arc<IsolationState>) -> io::Result<()> {
    let pending = PendingTunnel::default();
    let service = {
        let (state, pending) = (Arc::clone(&state), Arc::clone(&pending));
        service_fn(move |request| handle_request(request, Arc::clone(&state), Arc::clone(&pending)))
    };
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_READ_TIMEOUT).max_buf_size(MAX_HEAD_BYTES);
    http.serve_connection(TokioIo::new(connection), service)
        .with_upgrades()
        .await
        .map_err(io::Error::other)?;
    let pending = pending.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((upgrade, host, port, server)) = pending {
        let client = TokioIo::new(upgrade.await.map_err(io::Error::other)?);
        tunnel::splice(&state, &host, port, client, server).await?;
    }
    Ok(())
}

async fn handle_request(
    mut request: Request<Incoming>,
    state: Arc<IsolationState>,
    pending: PendingTunnel,
) -> Result<Response<EgressBody>, Infallible> {
    let is_tunnel = request.method() == Method::CONNECT;
    let Some((host, port)) = destination(request.uri(), is_tunnel) else {
        return Ok(text_response(
            StatusCode::BAD_REQUEST,
            "this is a proxy: expected CONNECT, or an absolute http:// URL\n",
        ));
    };
    let server = match tunnel::dial(&state, &host, port).await {
        Ok(server) => server,
        Err(EgressError::Denied(denial)) => {
            return Ok(text_response(StatusCode::FORBIDDEN, &denial_text(&denial)));
        }
        Err(EgressError::Failed(why)) => {
            return Ok(text_response(StatusCode::BAD_GATEWAY, &format!("mcpm: {why}\n")));
        }
    };
    if is_tunnel {
        let upgrade = upgrade::on(&mut request);
        *pending.lock().unwrap_or_else(PoisonError::into_inner) = Some((upgrade, host, port, server));
        return Ok(Response::new(Either::Left(Full::default())));
    }
    Ok(forward(request, &state, server).await.unwrap_or_else(|error| {
        text_response(
            StatusCode::BAD_GATEWAY,
            &format!("mcpm: the connection to `{host}:{port}` was interrupted: {error}\n"),
        )
    }))
}

/// Returns the destination of a request.
fn destination(uri: &Uri, is_tunnel: bool) -> Option<(Host, u16)> {
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
    let scheme_fits = if is_tunnel { uri.scheme().is_none() } else { uri.scheme_str() == Some("http") };
    let port = authority.port_u16().or_else(|| (!is_tunnel && authority.port().is_none()).then_some(80));
    let host = authority.host().parse().ok()?;
    port.filter(|_| scheme_fits).map(|port| (host, port))
}

/// Forwards a plain request over a new connection.
async fn forward(
    request: Request<Incoming>,
    state: &IsolationState,
    server: TcpStream,
) -> Result<Response<EgressBody>, hyper::Error> {
    let activity = Arc::new(ActivityTimer::new());
    let server = TokioIo::new(ActivityStream::new(server, Arc::clone(&activity)));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(server).await?;
    state.spawn(async move {
        tokio::select! {
            outcome = connection => if let Err(error) = outcome {
                tracing::debug!(%error, "the connection to a host failed");
            },
            () = activity.idle() => tracing::debug!("an idle connection to a host was closed"),
        }
    });
    let (mut head, body) = request.into_parts();
    // The server must get the host that the decision was about.
    if let Some(host) = head.uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok()) {
        head.headers.insert(header::HOST, host);
    }
    head.uri =
        head.uri.path_and_query().map_or_else(|| Uri::from_static("/"), |path| Uri::from(path.clone()));
    remove_hop_by_hop_headers(&mut head.headers);
    let mut response = sender.send_request(Request::from_parts(head, body)).await?;
    remove_hop_by_hop_headers(response.headers_mut());
    Ok(response.map(Either::Right))
}

fn remove_hop_by_hop_headers(headers: &mut HeaderMap) {
    let listed = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<HeaderName> =
        listed.flat_map(|list| list.split(',')).filter_map(|name| name.trim().parse().ok()).collect();
    named.iter().for_each(|name| drop(headers.remove(name)));
    HOP_BY_HOP_HEADERS.iter().for_each(|name| drop(headers.remove(*name)));
}

fn text_response(status: StatusCode, text: &str) -> Response<EgressBody> {
    let mut response = Response::new(Either::Left(Full::from(text.to_owned())));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
