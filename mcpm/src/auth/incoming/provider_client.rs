//! Fetches the keys and the metadata of the issuer.
//!
//! Requests to the origin of the issuer, or of a URL in options, contain the token in the file that option
//! `jwks_auth_token_file` names. Requests to other origins, which the issuer's metadata may name, do not contain it.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};
use url::Url;

use super::{
    IncomingSpec,
    jwks::{self, JwkSet},
    metadata::{self, IssuerMetadata},
    token_file::read_token_file,
};
use crate::{Error, ErrorKind, Result, auth::guarded_client::GuardedClient, redact::url::redact_url};

/// Fetches documents of the identity provider.
#[derive(Debug, Clone)]
pub(super) struct ProviderClient {
    pub(super) spec: Arc<IncomingSpec>,
    pub(super) http: Arc<GuardedClient>,
}

impl ProviderClient {
    /// Fetches the key set.
    pub(super) async fn fetch_keys(self, url: Url) -> Result<JwkSet> {
        let document = self.http.get(url.clone(), self.headers(&url).await?, jwks::MAX_JWKS_BYTES).await?;
        JwkSet::read(&document).map_err(|error| error.with("url", redact_url(&url)))
    }

    /// Fetches the metadata of the issuer.
    pub(super) async fn fetch_metadata(self, issuer: String) -> Result<IssuerMetadata> {
        let url = self.http.guard().parse_url(&issuer)?;
        metadata::discover(&self.http, &issuer, &self.headers(&url).await?).await
    }

    /// The headers of a request to `url`.
    ///
    /// # Errors
    /// `InvalidOption` if the token file cannot be read.
    pub(super) async fn headers(&self, url: &Url) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if self.is_configured_origin(url)
            && let Some(token) = self.read_token_file().await?
        {
            headers.insert(header::AUTHORIZATION, token);
        }
        Ok(headers)
    }

    /// Whether a URL has the origin of the issuer or of a URL that an option names.
    fn is_configured_origin(&self, url: &Url) -> bool {
        let named = [&self.spec.issuer, &self.spec.jwks_url, &self.spec.introspection_url];
        let mut named = named.into_iter().flatten().filter_map(|url| Url::parse(url).ok());
        named.any(|configured| configured.origin() == url.origin())
    }

    /// Reads the token for requests to the issuer. The file is read each time, because such tokens are renewed,
    /// and on a blocking thread.
    async fn read_token_file(&self) -> Result<Option<HeaderValue>> {
        let Some(path) = self.spec.token_file.clone() else { return Ok(None) };
        let read = tokio::task::spawn_blocking(move || read_token_file(&path)).await;
        read.map_err(|error| Error::new(ErrorKind::Internal, "the token file was not read").source(error))?
            .map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_token_for_the_issuer_goes_where_the_options_say_and_nowhere_else() {
        let home = tempfile::tempdir().expect("a folder");
        let file = home.path().join("token");
        std::fs::write(&file, "hush\n").expect("a file");
        let spec = IncomingSpec {
            issuer: Some("https://id.example/realm".to_owned()),
            jwks_url: Some("https://keys.example:8443/jwks".to_owned()),
            token_file: Some(file),
            ..IncomingSpec::default()
        };
        let http = GuardedClient::new(spec.guard()).expect("a client");
        let source = ProviderClient { spec: Arc::new(spec), http: Arc::new(http) };
        for (place, shown) in [
            ("https://id.example/realm/.well-known/openid-configuration", true),
            ("https://id.example:443/elsewhere", true),
            ("https://keys.example:8443/jwks", true),
            ("https://keys.example/jwks", false),
            ("http://id.example/realm", false),
            ("https://evil.example/jwks", false),
            ("https://id.example.evil.example/jwks", false),
        ] {
            let headers = source.headers(&Url::parse(place).expect("a URL")).await.expect("headers");
            assert_eq!(headers.contains_key(header::AUTHORIZATION), shown, "{place}");
        }
    }
}
