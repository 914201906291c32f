//! Receives the redirect of the authorization server during a login, on a callback server (RFC 8252 section 7.3).
//!
//! The callback server listens on loopback only, and accepts one redirect: the one with the `state` of the login. Other
//! requests get an error page, and the login continues.

use std::{
    convert::Infallible,
    io,
    net::{Ipv4Addr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    task::JoinSet,
};
use url::{Url, form_urlencoded};

use crate::{Error, ErrorKind, Result};

/// The path of the redirect URI.
const CALLBACK_PATH: &str = "/callback";
/// Maximum number of concurrent connections.
const MAX_CONNECTIONS: usize = 16;
/// Timeout for the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Maximum size of the buffer of a connection in bytes.
const MAX_BUFFER_BYTES: usize = 16 << 10;

/// A bound callback server.
#[derive(Debug)]
pub(super) struct CallbackServer {
    listeners: Vec<TcpListener>,
    port: u16,
}

/// The parameters of the redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AuthorizationResponse {
    /// The authorization code, or else the error code.
    pub(super) outcome: std::result::Result<String, String>,
    pub(super) issuer: Option<String>,
}

impl CallbackServer {
    /// Listens on `port` of 127.0.0.1 and, if the machine has IPv6, of ::1.
    ///
    /// # Errors
    /// `PortTaken` if the port is in use; `Io` if the server cannot listen for another reason.
    pub(super) async fn bind(port: u16) -> Result<Self> {
        let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let first = bound.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => in_use(port),
            _ => {
                Error::new(ErrorKind::Io, format!("cannot listen on the callback port {port}")).source(error)
            }
        })?;
        let address = first.local_addr();
        let port = address
            .map_err(|error| Error::new(ErrorKind::Io, "cannot determine the callback port").source(error))?
            .port();
        let mut listeners = vec![first];
        // Browsers may resolve `localhost` to ::1, so no other process may listen there.
        match TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await {
            Ok(second) => listeners.push(second),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(in_use(port)),
            // The machine has no IPv6.
            Err(_) => {}
        }
        Ok(Self { listeners, port })
    }

    /// The redirect URI. Its host is `localhost`, because authorization servers accept it from other clients too.
    pub(super) fn redirect_uri(&self) -> Result<Url> {
        Url::parse(&format!("http://localhost:{}{CALLBACK_PATH}", self.port))
            .map_err(|error| Error::new(ErrorKind::Internal, "the redirect URI is not valid").source(error))
    }

    /// Waits for the redirect with `state`. The page that the browser shows is sent before it returns.
    ///
    /// # Errors
    /// `Io` if connections cannot be accepted.
    pub(super) async fn receive(self, state: &str, server: &str) -> Result<AuthorizationResponse> {
        let (found, mut response) = mpsc::channel(1);
        let page = Arc::new(CallbackPage { state: state.to_owned(), server: server.to_owned() });
        let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut tasks = JoinSet::new();
        let accepting = async {
            loop {
                let accepts = self.listeners.iter().map(|listener| Box::pin(listener.accept()));
                let (accepted, _, _) = futures_util::future::select_all(accepts).await;
                let Ok((stream, _)) = accepted else {
                    // An immediate retry would fail again, for example if too many files are open.
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                };
                // Beyond the limit, a connection is closed.
                let Ok(permit) = Arc::clone(&connections).try_acquire_owned() else { continue };
                let (page, found) = (Arc::clone(&page), found.clone());
                tasks.spawn(async move {
                    if let Some(response) = serve(stream, &page).await {
                        // Only the first response is received.
                        let _ = found.try_send(response);
                    }
                    drop(permit);
                });
                while tasks.try_join_next().is_some() {}
            }
        };
        let received = tokio::select! {
            received = response.recv() => received,
            () = accepting => None,
        };
        received.ok_or_else(|| Error::new(ErrorKind::Internal, "the callback server ended"))
    }
}

fn in_use(port: u16) -> Error {
    Error::new(ErrorKind::PortTaken, format!("the callback port {port} is in use"))
        .hint("stop the program that uses the port, or set `remote_auth_callback_port` to another port")
}

/// Reads a redirect that the user pasted.
///
/// # Errors
/// `InvalidOption` if it is not a redirect of this login.
pub(super) fn parse_pasted(text: &str, state: &str) -> Result<AuthorizationResponse> {
    let invalid = || {
        Error::new(ErrorKind::InvalidOption, "this is not the redirect URL of the current login")
            .hint("copy the full URL of the page that the browser shows after the login")
    };
    let url = Url::parse(text.trim()).map_err(|_| invalid())?;
    parse_redirect(url.query().unwrap_or_default(), state).ok_or_else(invalid)
}

/// Parses the query of a redirect; `None` if it is not for the login with `state`.
fn parse_redirect(query: &str, state: &str) -> Option<AuthorizationResponse> {
    let mut seen = [None, None, None, None];
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let index = ["state", "code", "error", "iss"].iter().position(|known| *known == name);
        if let Some(slot) = index.and_then(|index| seen.get_mut(index)) {
            // A parameter occurs once (RFC 6749 section 3.1).
            if slot.replace(value.into_owned()).is_some() {
                return None;
            }
        }
    }
    let [given, code, error, issuer] = seen;
    if given.as_deref() != Some(state) {
        return None;
    }
    let outcome = match (code, error) {
        (Some(code), None) if !code.is_empty() => Ok(code),
        (None, Some(error)) => Err(error),
        _ => return None,
    };
    Some(AuthorizationResponse { outcome, issuer })
}

#[derive(Debug)]
struct CallbackPage {
    state: String,
    /// The remote server, for the page.
    server: String,
}

/// Serves one connection, and returns the redirect once the browser has the page.
async fn serve(stream: TcpStream, page: &CallbackPage) -> Option<AuthorizationResponse> {
    let found = Mutex::new(None);
    let respond = service_fn(|request| {
        let (response, received) = page.respond(&request);
        if let Some(received) = received {
            *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(received);
        }
        std::future::ready(Ok::<_, Infallible>(response))
    });
    // The login does not fail if the browser disconnects.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_BUFFER_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), respond)
        .await;
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl CallbackPage {
    fn respond(&self, request: &Request<Incoming>) -> (Response<Full<Bytes>>, Option<AuthorizationResponse>) {
        if request.method() != Method::GET || request.uri().path() != CALLBACK_PATH {
            let text = "This URL only receives the redirect of a login.";
            return (html(StatusCode::NOT_FOUND, "Not found", text), None);
        }
        let query = request.uri().query().unwrap_or_default();
        let Some(response) = parse_redirect(query, &self.state) else {
            let text = "This redirect does not belong to the current login. Start the login again.";
            return (html(StatusCode::BAD_REQUEST, "Not this login", text), None);
        };
        let (title, text) = match &response.outcome {
            Ok(_) => ("Logged in", format!("mcpm continues with {}. You can close this page.", self.server)),
            Err(error) if error == "access_denied" => {
                ("Login denied", format!("mcpm got no access to {}. You can close this page.", self.server))
            }
            // The error code is not shown, because a server other than the expected one may have sent it.
            Err(_) => {
                ("Login failed", "The terminal or application says why. You can close this page.".to_owned())
            }
        };
        (html(StatusCode::OK, title, &text), Some(response))
    }
}

/// An HTML page without scripts and external content.
fn html(status: StatusCode, title: &str, text: &str) -> Response<Full<Bytes>> {
    let escape = |text: &str| {
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
    };
    let (title, text) = (escape(title), escape(text));
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title} - mcpm</title>\
         <style>body{{font:16px/1.5 system-ui,sans-serif;max-width:32rem;margin:20vh auto;padding:0 1rem;\
         color-scheme:light dark}}</style><h1>{title}</h1><p>{text}</p></html>"
    );
    let mut response = Response::new(Full::new(Bytes::from(page)));
    *response.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        ),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::testing::with_timeout;

    async fn get(port: u16, path: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("a connection");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).await.expect("a response");
        response
    }

    #[tokio::test]
    async fn only_the_redirect_with_the_state_ends_the_login() {
        let server = CallbackServer::bind(0).await.expect("a server");
        let port = server.port;
        let waiting = tokio::spawn(server.receive("s&t", "<mcp.example>"));
        with_timeout(async {
            for path in [
                "/",
                "/callback",
                "/callback?code=x",
                "/callback?code=x&state=other",
                "/callback?code=x&state=s%26t&state=s%26t",
                "/callback?code=x&error=y&state=s%26t",
            ] {
                let response = get(port, path).await;
                assert!(response.starts_with("HTTP/1.1 40"), "{path}: {response}");
            }
            let response = get(port, "/callback?code=a%2Fb&state=s%26t&iss=https%3A%2F%2Fid.example").await;
            assert!(response.starts_with("HTTP/1.1 200"), "{response}");
            assert!(response.contains("&lt;mcp.example&gt;") && response.contains("no-store"), "{response}");
            let received = waiting.await.expect("a task").expect("a response");
            assert_eq!(received.outcome, Ok("a/b".to_owned()));
            assert_eq!(received.issuer.as_deref(), Some("https://id.example"));
        })
        .await;
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err(), "it accepts one response");
    }

    #[tokio::test]
    async fn a_port_in_use_is_an_error_that_names_the_option() {
        let first = CallbackServer::bind(0).await.expect("a server");
        let error = CallbackServer::bind(first.port).await.expect_err("an error");
        assert_eq!(error.kind(), ErrorKind::PortTaken);
        assert!(error.to_string().contains("`remote_auth_callback_port`"), "{error}");
    }

    #[test]
    fn a_pasted_url_is_read_like_the_redirect() {
        let pasted = parse_pasted(" http://localhost:8666/callback?state=s&error=access_denied\n", "s");
        assert_eq!(pasted.expect("a response").outcome, Err("access_denied".to_owned()));
        for text in ["", "no", "http://localhost:8666/callback?state=t&code=x"] {
            assert_eq!(parse_pasted(text, "s").expect_err(text).kind(), ErrorKind::InvalidOption);
        }
    }
}
