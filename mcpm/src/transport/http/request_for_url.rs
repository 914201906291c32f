//! A URL that is asked: where it leads, and the request that goes there.

use http::{HeaderMap, HeaderValue, Method, Request, header};
use url::{Host, Url};

use super::Address;
use crate::{Error, ErrorKind, Result, transport::body::Body};

/// Who asks.
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("mcpm/", env!("CARGO_PKG_VERSION")));

/// Makes a request for a URL, `https` or `http`, and says where it is to be sent.
///
/// # Errors
/// `Upstream` for a URL that names no host, or cannot stand in a request.
pub(crate) fn request_for_url(
    method: Method,
    url: &Url,
    mut headers: HeaderMap,
    body: Body,
) -> Result<(Address, Request<Body>)> {
    let failed = |message: &'static str| Error::new(ErrorKind::Upstream, message);
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err(failed("the URL names no host"));
    };
    let unfit = |error: http::Error| failed("the URL cannot be asked").source(error);
    let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    headers.insert(header::HOST, HeaderValue::from_str(&authority).map_err(|error| unfit(error.into()))?);
    headers.insert(header::USER_AGENT, USER_AGENT);
    let mut request =
        Request::builder().method(method).uri(format!("{}{query}", url.path())).body(body).map_err(unfit)?;
    *request.headers_mut() = headers;
    let tls = url.scheme() == "https";
    Ok((Address { host: host.trim_matches(['[', ']']).to_owned(), port, tls }, request))
}

/// Whether a URL names this machine.
pub(crate) fn is_loopback_url(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}
