//! What an issuer says of itself (OpenID Connect Discovery 1.0; RFC 8414).

use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use url::Url;

use crate::{
    Error, ErrorKind, Result,
    auth::guarded_client::{GuardedClient, ProviderRequest},
};

/// Largest document in bytes.
const MAX_METADATA_BYTES: usize = 256 << 10;

/// What an issuer says of itself, as far as it matters to whom its tokens are shown.
#[derive(Debug, Deserialize)]
pub(super) struct IssuerMetadata {
    issuer: String,
    pub(super) jwks_uri: Option<String>,
    pub(super) introspection_endpoint: Option<String>,
}

/// Fetches it: from where OpenID Connect has it, else from where OAuth has it.
///
/// # Errors
/// `Upstream` when there is none, or it is another issuer's.
pub(super) async fn discover(
    http: &GuardedClient,
    issuer: &str,
    headers: &HeaderMap,
) -> Result<IssuerMetadata> {
    let refused =
        |why: String| Error::new(ErrorKind::Upstream, format!("the issuer cannot be found out about: {why}"));
    for place in discovery_urls(issuer).ok_or_else(|| refused("it is no URL".to_owned()))? {
        let ask = ProviderRequest {
            method: http::Method::GET,
            url: place,
            headers: headers.clone(),
            body: bytes::Bytes::new(),
        };
        let answer = http.send(ask, MAX_METADATA_BYTES).await?;
        match answer.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => continue,
            status => return Err(refused(format!("the answer is {status}"))),
        }
        let found: IssuerMetadata = serde_json::from_slice(&answer.body)
            .map_err(|error| refused("its metadata cannot be read".to_owned()).source(error))?;
        // Byte for byte: else one issuer could speak for another (RFC 8414 section 3.3).
        if found.issuer != issuer {
            return Err(refused(format!("it calls itself `{}`", found.issuer.escape_debug())));
        }
        return Ok(found);
    }
    Err(refused("it has no metadata".to_owned()))
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
