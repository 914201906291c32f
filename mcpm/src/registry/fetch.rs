//! Fetches a document over HTTP: one GET, few redirects, a bounded body.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use url::Url;

use crate::{
    Error, ErrorKind, Result,
    transport::{
        body::Body,
        http::{Address, Client},
    },
};

/// The largest document that is read.
const LARGEST: usize = 64 << 20;
/// How long a document may take, redirects included.
const LIMIT: Duration = Duration::from_secs(30);
const REDIRECTS: usize = 5;

/// An answer that can be used.
pub(super) enum Fetched {
    /// The document, and the headers that say how long it holds.
    Document(Vec<u8>, HeaderMap),
    /// It is as it was.
    Unchanged(HeaderMap),
    /// There is none.
    Missing,
}

/// Fetches `url`; with `etag`, only if it changed.
///
/// # Errors
/// `Registry` says what went wrong.
pub(super) async fn fetch(url: &Url, etag: Option<&str>) -> Result<Fetched> {
    let failed = |error: Error| {
        Error::new(ErrorKind::Registry, format!("cannot fetch `{}`", shown(url))).source(error.to_string())
    };
    match tokio::time::timeout(LIMIT, follow(url, etag)).await {
        Ok(fetched) => fetched.map_err(failed),
        Err(_) => {
            let message = format!("not within {} s", LIMIT.as_secs());
            Err(failed(Error::new(ErrorKind::Registry, message)))
        }
    }
}

/// The URL without its query, which may hold a key.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.into()
}

async fn follow(url: &Url, etag: Option<&str>) -> Result<Fetched> {
    let refused = |message: String| Error::new(ErrorKind::Registry, message);
    let mut url = url.clone();
    for _ in 0..=REDIRECTS {
        let response = ask(&url, etag).await?;
        let status = response.status();
        match status {
            StatusCode::OK => {
                let (parts, body) = response.into_parts();
                let whole = Limited::new(body, LARGEST).collect().await.map_err(|error| {
                    refused(format!(
                        "the document broke off, or is larger than {} MiB: {error}",
                        LARGEST >> 20
                    ))
                })?;
                return Ok(Fetched::Document(whole.to_bytes().to_vec(), parts.headers));
            }
            StatusCode::NOT_MODIFIED if etag.is_some() => {
                return Ok(Fetched::Unchanged(response.headers().clone()));
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(Fetched::Missing),
            _ if status.is_redirection() => {
                let place = response.headers().get(header::LOCATION).and_then(|place| place.to_str().ok());
                let place = place.ok_or_else(|| refused("a redirect leads nowhere".to_owned()))?;
                let next =
                    url.join(place).map_err(|error| refused(format!("a redirect leads nowhere: {error}")))?;
                if url.scheme() == "https" && next.scheme() != "https" {
                    return Err(refused("a redirect leads away from `https`".to_owned()));
                }
                url = next;
            }
            _ => return Err(refused(format!("the answer is {status}"))),
        }
    }
    Err(refused(format!("more than {REDIRECTS} redirects")))
}

async fn ask(url: &Url, etag: Option<&str>) -> Result<http::Response<crate::transport::http::Received>> {
    let bad = || Error::new(ErrorKind::Registry, format!("`{}` cannot be fetched", shown(url)));
    let tls = match url.scheme() {
        "https" => true,
        "http" => false,
        _ => return Err(bad()),
    };
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else { return Err(bad()) };
    let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut request = http::Request::new(Body::empty());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = format!("{}{query}", url.path())
        .parse()
        .map_err(|error: http::uri::InvalidUri| bad().source(error))?;
    let headers = request.headers_mut();
    headers.insert(header::HOST, HeaderValue::from_str(&authority).map_err(|error| bad().source(error))?);
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("mcpm/", env!("CARGO_PKG_VERSION"))));
    if let Some(etag) = etag.and_then(|etag| HeaderValue::from_str(etag).ok()) {
        headers.insert(header::IF_NONE_MATCH, etag);
    }
    let address = Address { host: host.trim_matches(['[', ']']).to_owned(), port, tls };
    Client::new(address).send(request).await
}
