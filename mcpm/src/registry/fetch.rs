//! Fetches a document over HTTP, with limits on time, size and redirects.

use std::{net::IpAddr, time::Duration};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use url::{Host, Url};

use crate::{
    Error, ErrorKind, Result,
    http_client::{self, HttpClient, request_for_url},
    redact::url::redact_url,
    transport::tls::UNTRUSTED_ISSUER_HINT,
};

/// The largest document.
pub(super) const MAX_DOCUMENT_BYTES: usize = 64 << 20;
/// Timeout of a document, including redirects.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_REDIRECTS: usize = 5;

/// A successful response.
pub(super) enum Fetched {
    /// The document, with its caching headers.
    Document(Vec<u8>, HeaderMap),
    /// The document has not changed.
    NotModified(HeaderMap),
    /// The document does not exist.
    Missing,
}

/// Fetches `url`; with `etag`, only if it changed.
///
/// # Errors
/// `Registry` names the cause.
pub(super) async fn fetch(url: &Url, etag: Option<&str>, client: &HttpClient) -> Result<Fetched> {
    let failed = |error: Error| {
        let failed = Error::new(ErrorKind::Registry, format!("cannot fetch `{}`", redact_url(url)));
        let failed = failed.source(error.to_string());
        if http_client::is_untrusted_issuer(&error) { failed.hint(UNTRUSTED_ISSUER_HINT) } else { failed }
    };
    match tokio::time::timeout(FETCH_TIMEOUT, follow(url, etag, client)).await {
        Ok(fetched) => fetched.map_err(failed),
        Err(_) => {
            let message = format!("no complete response within {} s", FETCH_TIMEOUT.as_secs());
            Err(failed(Error::new(ErrorKind::Registry, message)))
        }
    }
}

async fn follow(url: &Url, etag: Option<&str>, client: &HttpClient) -> Result<Fetched> {
    let refused = |message: String| Error::new(ErrorKind::Registry, message);
    let mut url = url.clone();
    for _ in 0..=MAX_REDIRECTS {
        let response = send_request(&url, etag, client).await?;
        let status = response.status();
        match status {
            StatusCode::OK => {
                let (parts, body) = response.into_parts();
                let whole = Limited::new(body, MAX_DOCUMENT_BYTES).collect().await.map_err(|error| {
                    refused(format!(
                        "the transfer was interrupted, or the document is larger than {} MiB: {error}",
                        MAX_DOCUMENT_BYTES >> 20
                    ))
                })?;
                return Ok(Fetched::Document(whole.to_bytes().to_vec(), parts.headers));
            }
            StatusCode::NOT_MODIFIED if etag.is_some() => {
                return Ok(Fetched::NotModified(response.headers().clone()));
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(Fetched::Missing),
            _ if status.is_redirection() => {
                let place = response.headers().get(header::LOCATION).and_then(|place| place.to_str().ok());
                let place = place.ok_or_else(|| refused("a redirect has no valid `Location`".to_owned()))?;
                let next = url
                    .join(place)
                    .map_err(|error| refused(format!("a redirect has no valid `Location`: {error}")))?;
                check_redirect(&url, &next)
                    .await
                    .map_err(|why| refused(format!("a redirect was rejected: {why}")))?;
                url = next;
            }
            _ => return Err(refused(format!("the response has status {status}"))),
        }
    }
    Err(refused(format!("more than {MAX_REDIRECTS} redirects")))
}

/// Checks the target of a redirect: it must be a valid registry URL, and must not lead from the internet into a
/// private network.
async fn check_redirect(from: &Url, to: &Url) -> std::result::Result<(), &'static str> {
    if let Some(why) = super::source::unacceptable_url(to) {
        return Err(why);
    }
    if from.scheme() == "https" && to.scheme() != "https" {
        return Err("it leads from `https` to `http`");
    }
    if !to.username().is_empty() || to.password().is_some() {
        return Err("its URL contains credentials");
    }
    if from.host() != to.host() && !is_private(from).await && is_private(to).await {
        return Err("it leads from the internet into a private network");
    }
    Ok(())
}

/// Tells whether a host is this machine, or in a private network. A host without an address is neither.
async fn is_private(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => is_private_ip(ip.into()),
        Some(Host::Ipv6(ip)) => is_private_ip(ip.into()),
        Some(Host::Domain(name)) => tokio::net::lookup_host((name, 0))
            .await
            .is_ok_and(|mut addresses| addresses.any(|address| is_private_ip(address.ip()))),
        None => false,
    }
}

fn is_private_ip(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [first, second, ..] = ip.octets();
            let is_shared = first == 100 && second & 0xc0 == 64;
            ip.is_loopback() || ip.is_private() || ip.is_link_local() || first == 0 || is_shared
        }
        IpAddr::V6(ip) => {
            ip.is_loopback() || ip.is_unspecified() || ip.is_unique_local() || ip.is_unicast_link_local()
        }
    }
}

async fn send_request(
    url: &Url,
    etag: Option<&str>,
    client: &HttpClient,
) -> Result<http::Response<Incoming>> {
    let bad = || Error::new(ErrorKind::Registry, format!("`{}` cannot be fetched", redact_url(url)));
    if !matches!(url.scheme(), "https" | "http") {
        return Err(bad());
    }
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(etag) = etag.and_then(|etag| HeaderValue::from_str(etag).ok()) {
        headers.insert(header::IF_NONE_MATCH, etag);
    }
    let request = request_for_url(Method::GET, url, headers, "").map_err(|error| bad().source(error))?;
    client.send(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn redirects_to_unsafe_urls_are_rejected() {
        let outcome = async |from: &str, to: &str| {
            check_redirect(&Url::parse(from).unwrap(), &Url::parse(to).unwrap()).await
        };
        let public = "https://8.8.8.8/r.json";
        for to in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "[::1]", "[fd00::1]"]
            .into_iter()
            .chain(["[::ffff:192.168.0.1]", "0.0.0.0", "[fe80::1]"])
        {
            let said = outcome(public, &format!("https://{to}/")).await;
            assert_eq!(said, Err("it leads from the internet into a private network"), "{to}");
        }
        for (from, to) in [
            (public, "https://1.1.1.1/"),
            ("https://10.0.0.1/", "https://10.0.0.2/"),
            ("http://127.0.0.1:1/", "http://127.0.0.1:2/"),
            ("http://127.0.0.1:1/", "https://8.8.8.8/"),
        ] {
            assert_eq!(outcome(from, to).await, Ok(()), "{from} {to}");
        }
        for (from, to) in [
            ("http://127.0.0.1:1/", "http://8.8.8.8/"),
            ("http://127.0.0.1:1/", "http://10.0.0.1/"),
            ("https://127.0.0.1:1/", "http://127.0.0.1:1/"),
            (public, "https://user@1.1.1.1/"),
            (public, "file:///etc/passwd"),
        ] {
            assert!(outcome(from, to).await.is_err(), "{from} {to}");
        }
    }
}
