//! Asks the engine to describe containers, in words of any version.
//!
//! The client library knows the states of one version of Docker and takes any other word for damage. Podman has
//! states of its own (`stopped`, `initialized`), so descriptions are fetched here and read in `inspect.rs`.

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};

use super::{
    connect::{EngineEndpoint, REQUEST_TIMEOUT},
    errors::EngineFailure,
};

/// Far more than the description of many containers.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// What engines answer when they refuse.
#[derive(Deserialize)]
struct EngineErrorBody {
    message: String,
}

/// Gets the JSON at `path`, which starts with a slash and is encoded already.
pub(super) async fn get_json<T: DeserializeOwned>(
    endpoint: &EngineEndpoint,
    path: &str,
) -> Result<T, EngineFailure> {
    let answer = async {
        match endpoint {
            EngineEndpoint::Unix(socket) => {
                let stream =
                    UnixStream::connect(socket).await.map_err(|error| EngineFailure::from_io(&error))?;
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
        tokio::time::timeout(REQUEST_TIMEOUT, answer).await.map_err(|_| EngineFailure::TimedOut)??;
    if status.is_success() {
        return serde_json::from_slice(&body)
            .map_err(|error| EngineFailure::InvalidResponse(error.to_string()));
    }
    let refusal = serde_json::from_slice::<EngineErrorBody>(&body);
    let message =
        refusal.map_or_else(|_| String::from_utf8_lossy(&body).into_owned(), |refusal| refusal.message);
    Err(EngineFailure::error_status(status.as_u16(), &message))
}

/// Sends one request over a connection of its own.
async fn exchange<S>(stream: S, host: &str, path: &str) -> Result<(StatusCode, Bytes), EngineFailure>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let garbled = |error: http::Error| EngineFailure::InvalidResponse(error.to_string());
    let request =
        Request::get(path).header(header::HOST, host).body(Empty::<Bytes>::new()).map_err(garbled)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| EngineFailure::from_error_chain(&error))?;
    let talk = async {
        let response =
            sender.send_request(request).await.map_err(|error| EngineFailure::from_error_chain(&error))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
        let body = body.map_err(|error| EngineFailure::from_error_chain(error.as_ref()))?;
        Ok((parts.status, body.to_bytes()))
    };
    let mut talk = std::pin::pin!(talk);
    // The connection makes progress only while it is polled, and may end before the last byte is read.
    tokio::select! {
        answer = &mut talk => answer,
        _ = connection => talk.await,
    }
}
