//! Finds out whom a token stands for.
//!
//! A signed token is checked with the issuer's keys; any other is asked about, if there is somebody to ask. Without
//! keys to check with, all are asked about.

use std::{sync::Arc, time::SystemTime};

use http::{HeaderMap, HeaderValue, header};
use url::Url;

use super::{
    IncomingSpec, Principal, claims,
    introspection::{Introspection, Question},
    jwks::{self, Keys},
    jwt::{self, Signed},
    kept::Kept,
    metadata::{self, Metadata},
    refusal::Refusal,
};
use crate::{Error, ErrorKind, Result, auth::http::Http, options::Secret};

/// Checks the tokens that callers send.
#[derive(Debug)]
pub(crate) struct Incoming {
    spec: IncomingSpec,
    client_secret: Option<Secret>,
    http: Http,
    metadata: Kept<Metadata>,
    keys: Kept<Keys>,
    introspection: Introspection,
}

impl Incoming {
    /// Makes ready what the options say. Nobody is asked anything yet.
    ///
    /// # Errors
    /// `InvalidOption` for files that cannot be used.
    pub(crate) fn new(spec: IncomingSpec, client_secret: Option<Secret>) -> Result<Self> {
        let http = Http::new(spec.guard())?;
        let incoming = Self {
            client_secret: client_secret.filter(|_| spec.takes_secret()),
            spec,
            http,
            metadata: Kept::default(),
            keys: Kept::default(),
            introspection: Introspection::default(),
        };
        incoming.headers()?;
        Ok(incoming)
    }

    pub(crate) fn spec(&self) -> &IncomingSpec {
        &self.spec
    }

    /// Says whom a token stands for that is meant for one of `audiences`.
    ///
    /// # Errors
    /// Why it lets nobody in.
    pub(crate) async fn check(
        &self,
        token: &str,
        audiences: &[String],
    ) -> std::result::Result<Arc<Principal>, Refusal> {
        let principal = self.principal(token).await?;
        if !principal.audience.iter().any(|audience| audiences.contains(audience)) {
            return Err(Refusal::Audience);
        }
        let has = |scope: &String| principal.scopes.contains(scope);
        if !self.spec.required_scopes.iter().all(has) {
            return Err(Refusal::Scope);
        }
        Ok(principal)
    }

    async fn principal(&self, token: &str) -> std::result::Result<Arc<Principal>, Refusal> {
        match jwt::read(token) {
            Some(signed) if self.has_keys() => match self.signed(token, signed?).await? {
                Some(principal) => Ok(principal),
                None => self.ask(token).await,
            },
            _ => self.ask(token).await,
        }
    }

    fn has_keys(&self) -> bool {
        self.spec.jwks_url.is_some() || self.spec.issuer.is_some()
    }

    /// Checks a signed token; `None` when the issuer has no keys.
    async fn signed(
        &self,
        token: &str,
        signed: Signed<'_>,
    ) -> std::result::Result<Option<Arc<Principal>>, Refusal> {
        let unavailable = |error: Error| {
            tracing::warn!(%error, "the keys of the issuer cannot be fetched");
            Refusal::Unavailable
        };
        let Some(place) = self.keys_place().await.map_err(unavailable)? else { return Ok(None) };
        let keys = self.keys.get(self.fetch_keys(place.clone())).await.map_err(unavailable)?;
        match keys.check(&signed) {
            Err(Refusal::UnknownKey) => {
                let newer = self.keys.newer(&keys, self.fetch_keys(place)).await;
                newer.ok_or(Refusal::UnknownKey)?.check(&signed)?;
            }
            checked => checked?,
        }
        let issuer = self.spec.issuer.as_deref();
        let principal = claims::principal(signed.claims()?, token, issuer, None, SystemTime::now())?;
        Ok(Some(Arc::new(principal)))
    }

    async fn keys_place(&self) -> Result<Option<Url>> {
        match &self.spec.jwks_url {
            Some(url) => self.http.guard().check(url).map(Some),
            None => self.found(|found| found.jwks_uri.as_ref()).await,
        }
    }

    async fn fetch_keys(&self, place: Url) -> Result<Keys> {
        Keys::read(&self.http.get(place, self.headers()?, jwks::LARGEST).await?)
    }

    /// Asks the provider about a token.
    async fn ask(&self, token: &str) -> std::result::Result<Arc<Principal>, Refusal> {
        let unavailable = |error: Error| {
            tracing::warn!(%error, "nobody can be asked about a token");
            Refusal::Unavailable
        };
        let Some(client_id) = &self.spec.client_id else { return Err(Refusal::Malformed) };
        let endpoint = match &self.spec.introspection_url {
            Some(url) => self.http.guard().check(url).map(Some),
            // Without a secret, an endpoint that nobody named would not answer.
            None if self.client_secret.is_none() => Ok(None),
            None => self.found(|found| found.introspection_endpoint.as_ref()).await,
        };
        let Some(endpoint) = endpoint.map_err(unavailable)? else { return Err(Refusal::Malformed) };
        let bearer = self.headers().map_err(unavailable)?.remove(header::AUTHORIZATION);
        let question = Question {
            http: &self.http,
            endpoint: &endpoint,
            client_id,
            client_secret: self.client_secret.as_ref(),
            bearer,
            issuer: self.spec.issuer.as_deref(),
        };
        self.introspection.ask(token, question).await
    }

    /// A place that the issuer's metadata names.
    async fn found(&self, place: impl FnOnce(&Metadata) -> Option<&String>) -> Result<Option<Url>> {
        let Some(issuer) = &self.spec.issuer else { return Ok(None) };
        let fetch = async { metadata::discover(&self.http, issuer, &self.headers()?).await };
        let found = self.metadata.get(fetch).await?;
        place(&found).map(|url| self.http.guard().check(url)).transpose()
    }

    /// What authorises requests to the issuer. The file is read each time, since such tokens are renewed.
    fn headers(&self) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let Some(path) = &self.spec.token_file else { return Ok(headers) };
        let refused = || {
            let message = format!("no token can be read from `{}`", path.display());
            Error::new(ErrorKind::InvalidOption, message).with("option", "--jwks-auth-token-file")
        };
        let text = std::fs::read_to_string(path).map_err(|error| refused().source(error))?;
        let token = text.trim();
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| refused())?;
        if token.is_empty() {
            return Err(refused());
        }
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
        Ok(headers)
    }
}
