//! Fetches what an issuer says, and decides who is shown the token of `--jwks-auth-token-file`.
//!
//! It goes to the issuer and to the places that the options name. A place that the issuer's metadata names may be on
//! another host, which has no claim to it.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::Arc,
};

use http::{HeaderMap, HeaderValue, header};
use url::Url;

use super::{
    IncomingSpec,
    jwks::{self, JwkSet},
    metadata::{self, IssuerMetadata},
};
use crate::{Error, ErrorKind, Result, auth::guarded_client::GuardedClient};

/// Largest token in bytes.
const MAX_TOKEN_FILE_BYTES: u64 = 64 << 10;

/// Where documents come from.
#[derive(Debug, Clone)]
pub(super) struct ProviderClient {
    pub(super) spec: Arc<IncomingSpec>,
    pub(super) http: Arc<GuardedClient>,
}

impl ProviderClient {
    /// Fetches the keys.
    pub(super) async fn fetch_keys(self, place: Url) -> Result<JwkSet> {
        JwkSet::read(&self.http.get(place.clone(), self.headers(&place).await?, jwks::MAX_JWKS_BYTES).await?)
    }

    /// Fetches what the issuer says of itself.
    pub(super) async fn fetch_metadata(self, issuer: String) -> Result<IssuerMetadata> {
        let url = self.http.guard().parse_url(&issuer)?;
        metadata::discover(&self.http, &issuer, &self.headers(&url).await?).await
    }

    /// The headers of a request to a place.
    ///
    /// # Errors
    /// `InvalidOption` when the token cannot be read.
    pub(super) async fn headers(&self, place: &Url) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if self.is_configured_origin(place)
            && let Some(token) = self.read_token_file().await?
        {
            headers.insert(header::AUTHORIZATION, token);
        }
        Ok(headers)
    }

    /// Whether a place is where the issuer is, or a URL that the options name.
    fn is_configured_origin(&self, place: &Url) -> bool {
        let named = [&self.spec.issuer, &self.spec.jwks_url, &self.spec.introspection_url];
        let mut named = named.into_iter().flatten().filter_map(|url| Url::parse(url).ok());
        named.any(|url| url.origin() == place.origin())
    }

    /// What authorises requests to the issuer. The file is read each time, since such tokens are renewed, and on
    /// another thread, since a disk may be slow.
    async fn read_token_file(&self) -> Result<Option<HeaderValue>> {
        let Some(path) = self.spec.token_file.clone() else { return Ok(None) };
        let read = tokio::task::spawn_blocking(move || read_token_file(&path)).await;
        read.map_err(|error| Error::new(ErrorKind::Internal, "a file was not read").source(error))?.map(Some)
    }
}

/// Reads the token of a file.
///
/// # Errors
/// `InvalidOption` when it cannot be read.
pub(super) fn read_token_file(path: &Path) -> Result<HeaderValue> {
    let refused = || {
        let message = format!("no token can be read from `{}`", path.display());
        Error::new(ErrorKind::InvalidOption, message).with("option", "jwks_auth_token_file")
    };
    let text = text(path).map_err(|error| refused().source(error))?;
    let token = text.trim();
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| refused())?;
    if token.is_empty() {
        return Err(refused());
    }
    value.set_sensitive(true);
    Ok(value)
}

fn text(path: &Path) -> io::Result<String> {
    // A pipe to which nobody writes must not be waited for.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    if found.len() > MAX_TOKEN_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too large"));
    }
    let mut text = String::new();
    file.take(MAX_TOKEN_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_from_a_file_and_nothing_else() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).expect("a pipe");
        assert!(read_token_file(&path).is_err(), "nobody waits for a writer");
        assert!(read_token_file(home.path()).is_err());
        let path = home.path().join("token");
        std::fs::write(&path, "\n").expect("a file");
        assert!(read_token_file(&path).is_err());
        std::fs::write(&path, vec![b'a'; 1 << 20]).expect("a file");
        assert!(read_token_file(&path).is_err());
        std::fs::write(&path, "hush\n").expect("a file");
        assert_eq!(read_token_file(&path).expect("a token"), "Bearer hush");
    }

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
