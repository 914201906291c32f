//! Sends GET requests to the engine without the client library.
//!
//! The client library knows the container states of one version of Docker and fails on all other states. Podman has
//! states of its own (`stopped`, `initialized`), so descriptions of containers are fetched here and parsed in
//! `inspect.rs`. `connect.rs` fetches the engine's `/info` here as well.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

use super::{endpoint::EngineEndpoint, errors::EngineFailure};
use crate::platform::LocalStream;

/// Timeout of a request until its response begins. Stopping a container adds its grace.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Largest response; far more than the description of many containers.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// The body of an error response.
#[derive(Deserialize)]
struct EngineErrorBody {
    message: String,
}

/// Fetches the JSON at `path`, which starts with a slash and is encoded.
pub(super) async fn get_json<T: DeserializeOwned>(
    endpoint: &EngineEndpoint,
    path: &str,
) -> Result<T, EngineFailure> {
    let response = async {
        match endpoint {
            EngineEndpoint::Unix(socket) => {
                let stream =
                    LocalStream::connect(socket).await.map_err(|error| EngineFailure::from_io(&error))?;
                exchange(stream, "localhost", path).await
            }
            EngineEndpoint::Tcp(authority) => {
                let stream =
                    TcpStream::connect(authority).await.map_err(|error| EngineFailure::from_io(&error))?;
                exchange(stream, authority, path).await
            }
        }
    };
    let (status, body) =
        tokio::time::timeout(REQUEST_TIMEOUT, response).await.map_err(|_| EngineFailure::TimedOut)??;
    if status.is_success() {
        return serde_json::from_slice(&body)
            .map_err(|error| EngineFailure::InvalidResponse(error.to_string()));
    }
    let error = serde_json::from_slice::<EngineErrorBody>(&body);
    let message = error.map_or_else(|_| String::from_utf8_lossy(&body).into_owned(), |error| error.message);
    Err(EngineFailure::error_status(status.as_u16(), &message))
}

/// Sends one request over a new connection.
async fn exchange<S>(stream: S, host: &str, path: &str) -> Result<(StatusCode, Bytes), EngineFailure>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let invalid = |error: http::Error| EngineFailure::InvalidResponse(error.to_string());
    let request =
        Request::get(path).header(header::HOST, host).body(Empty::<Bytes>::new()).map_err(invalid)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| EngineFailure::from_error_chain(&error))?;
    let response = async {
        let response =
            sender.send_request(request).await.map_err(|error| EngineFailure::from_error_chain(&error))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
        let body = body.map_err(|error| EngineFailure::from_error_chain(error.as_ref()))?;
        Ok((parts.status, body.to_bytes()))
    };
    let mut response = std::pin::pin!(response);
    // The connection makes progress only while it is polled, and may end before the last byte is read.
    tokio::select! {
        outcome = &mut response => outcome,
        _ = connection => response.await,
    }
}
