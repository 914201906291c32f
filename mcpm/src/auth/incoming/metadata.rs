//! Fetches the metadata of an issuer (OpenID Connect Discovery 1.0; RFC 8414).

use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use url::Url;

use crate::{
    Error, ErrorKind, Result,
    auth::guarded_client::{GuardedClient, ProviderRequest},
    printable::Printable as _,
    redact::url::{redact_url, redact_url_text},
};

/// Maximum size of the document in bytes.
const MAX_METADATA_BYTES: usize = 256 << 10;

/// The metadata fields that token verification needs.
#[derive(Debug, Deserialize)]
pub(super) struct IssuerMetadata {
    issuer: String,
    pub(super) jwks_uri: Option<String>,
    pub(super) introspection_endpoint: Option<String>,
}

/// Fetches the metadata, first from the location of OpenID Connect Discovery, then from that of RFC 8414.
///
/// # Errors
/// `Upstream` if there is none, or if it belongs to another issuer.
pub(super) async fn discover(
    http: &GuardedClient,
    issuer: &str,
    headers: &HeaderMap,
) -> Result<IssuerMetadata> {
    let failed = |why: String| {
        Error::new(ErrorKind::Upstream, format!("cannot get the metadata of the issuer: {why}"))
    };
    for url in discovery_urls(issuer).ok_or_else(|| failed("the issuer is not a URL".to_owned()))? {
        let shown = redact_url(&url);
        let failed = |why: String| failed(why).with("url", &shown);
        let ask = ProviderRequest {
            method: http::Method::GET,
            url,
            headers: headers.clone(),
            body: bytes::Bytes::new(),
        };
        let answer = http.send(ask, MAX_METADATA_BYTES).await?;
        match answer.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => continue,
            status => return Err(failed(format!("the response has status {status}"))),
        }
        let metadata: IssuerMetadata = serde_json::from_slice(&answer.body)
            .map_err(|error| failed("the document is not valid metadata".to_owned()).source(error))?;
        // Compared byte for byte, so that one issuer cannot impersonate another (RFC 8414 section 3.3).
        if metadata.issuer != issuer {
            return Err(failed(format!(
                "the document is for another issuer, `{}`",
                metadata.issuer.printable()
            )));
        }
        return Ok(metadata);
    }
    Err(failed("no metadata document was found".to_owned()).with("issuer", redact_url_text(issuer)))
}

fn discovery_urls(issuer: &str) -> Option<[Url; 2]> {
    let base = issuer.strip_suffix('/').unwrap_or(issuer);
    let oidc = Url::parse(&format!("{base}/.well-known/openid-configuration")).ok()?;
    let mut oauth = Url::parse(base).ok()?;
    let path = oauth.path().trim_end_matches('/').to_owned();
    oauth.set_path(&format!("/.well-known/oauth-authorization-server{path}"));
    Some([oidc, oauth])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_is_looked_for_where_both_standards_say() {
        let places = |issuer| discovery_urls(issuer).expect("a URL").map(String::from);
        let openid = "https://id.example/.well-known/openid-configuration";
        let oauth = "https://id.example/.well-known/oauth-authorization-server";
        assert_eq!(places("https://id.example"), [openid, oauth]);
        assert_eq!(places("https://id.example/"), [openid, oauth]);
        let realm = places("https://id.example/realms/x");
        assert_eq!(realm[0], "https://id.example/realms/x/.well-known/openid-configuration");
        assert_eq!(realm[1], "https://id.example/.well-known/oauth-authorization-server/realms/x");
    }
}
