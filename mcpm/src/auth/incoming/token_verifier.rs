//! Verifies access tokens.
//!
//! JWTs are verified with the issuer's keys. Other tokens, and all tokens of an issuer without keys, are verified by
//! introspection, if a client ID and an endpoint are known. An endpoint from the issuer's metadata is used only with a
//! client secret.

use std::{sync::Arc, time::SystemTime};

use url::Url;

use super::{
    IncomingSpec, Principal,
    claims::{self, ExpectedClaims},
    introspection::{Introspection, IntrospectionRequest},
    jwks::JwkSet,
    jwt::{self, SignedToken},
    metadata::IssuerMetadata,
    provider_client::ProviderClient,
    refreshing::RefreshingDocument,
    token_error::TokenError,
    token_file::read_token_file,
    verified_tokens::VerifiedTokens,
};
use crate::{
    Error, Result,
    auth::{guarded_client::GuardedClient, token_cache::TokenDigest},
    options::Secret,
    rate_limit::LogLimit,
};

/// Verifies the tokens that callers send.
#[derive(Debug)]
pub(crate) struct TokenVerifier {
    provider: ProviderClient,
    client_secret: Option<Secret>,
    metadata: RefreshingDocument<IssuerMetadata>,
    keys: RefreshingDocument<JwkSet>,
    verified: VerifiedTokens,
    introspection: Introspection,
    log: LogLimit,
}

impl TokenVerifier {
    /// Creates a verifier. Sends no request yet.
    ///
    /// # Errors
    /// `InvalidOption` if a file cannot be used.
    pub(crate) fn new(spec: IncomingSpec, client_secret: Option<Secret>) -> Result<Self> {
        let http = GuardedClient::new(spec.guard())?;
        let incoming = Self {
            client_secret: client_secret.filter(|_| spec.uses_secret()),
            provider: ProviderClient { spec: Arc::new(spec), http: Arc::new(http) },
            metadata: RefreshingDocument::default(),
            keys: RefreshingDocument::default(),
            verified: VerifiedTokens::default(),
            introspection: Introspection::default(),
            log: LogLimit::new(),
        };
        if let Some(path) = &incoming.spec().token_file {
            read_token_file(path)?;
        }
        Ok(incoming)
    }

    pub(crate) fn spec(&self) -> &IncomingSpec {
        &self.provider.spec
    }

    /// Fetches the keys and probes the introspection endpoint, if one is configured, with a token that does not
    /// exist, before the first token arrives.
    ///
    /// # Errors
    /// Why the identity provider cannot be used.
    pub(crate) async fn prefetch(&self) -> Result<()> {
        if let Some(url) = self.jwks_url().await? {
            self.keys.get(self.provider.clone().fetch_keys(url)).await?;
        }
        if self.spec().introspection_url.is_some()
            && let Some(question) = self.question().await?
        {
            self.introspection.probe(question).await?;
        }
        Ok(())
    }

    /// Whether no token can be verified because the identity provider has not responded successfully yet.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.metadata.is_missing() || self.keys.is_missing() || self.introspection.is_missing()
    }

    /// The error of the last request to the identity provider; `None` if it succeeded.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.metadata.failure().or_else(|| self.keys.failure()).or_else(|| self.introspection.failure())
    }

    fn log_failure(&self, error: &Error, what: &'static str) {
        if let Some(suppressed) = self.log.admit(what) {
            tracing::warn!(%error, suppressed, "{what}");
        }
    }

    /// Verifies a token for one of `audiences` and returns its principal. Scopes are checked by
    /// [`check_scopes`](Self::check_scopes).
    ///
    /// # Errors
    /// Why the token is rejected.
    pub(crate) async fn verify(
        &self,
        token: &str,
        audiences: &[String],
    ) -> std::result::Result<Arc<Principal>, TokenError> {
        check_audience(self.principal(token).await?, audiences)
    }

    /// The result of [`verify`](Self::verify) for a token whose signature was verified before; `None` for others.
    pub(crate) fn verify_known(
        &self,
        token: &[u8],
        audiences: &[String],
    ) -> Option<std::result::Result<Arc<Principal>, TokenError>> {
        let key = self.verified.known_digest(token)?;
        let principal = self.keys.fresh().and_then(|keys| self.verified.get(&key, &keys))?;
        Some(check_audience(principal, audiences))
    }

    /// Checks that a token has the required scopes.
    ///
    /// # Errors
    /// The scopes that are missing.
    pub(crate) fn check_scopes(&self, principal: &Principal) -> std::result::Result<(), TokenError> {
        let missing = self.spec().required_scopes.iter().filter(|scope| !principal.scopes.contains(scope));
        let missing: Vec<String> = missing.cloned().collect();
        if missing.is_empty() { Ok(()) } else { Err(TokenError::InsufficientScope(missing)) }
    }

    async fn principal(&self, token: &str) -> std::result::Result<Arc<Principal>, TokenError> {
        let key = self.verified.digest(token);
        if let Some(principal) = self.keys.fresh().and_then(|keys| self.verified.get(&key, &keys)) {
            return Ok(principal);
        }
        match jwt::read(token) {
            Some(signed) if self.has_keys() => match self.verify_signed(token, key, signed?).await? {
                Some(principal) => Ok(principal),
                None => self.introspect(token, key).await,
            },
            _ => self.introspect(token, key).await,
        }
    }

    fn has_keys(&self) -> bool {
        self.spec().jwks_url.is_some() || self.spec().issuer.is_some()
    }

    /// Verifies a JWT; `None` if the issuer has no keys.
    async fn verify_signed(
        &self,
        token: &str,
        key: TokenDigest,
        signed: SignedToken<'_>,
    ) -> std::result::Result<Option<Arc<Principal>>, TokenError> {
        let unavailable = |error: Error| {
            self.log_failure(&error, "the keys of the issuer cannot be fetched");
            TokenError::Unavailable
        };
        let Some(url) = self.jwks_url().await.map_err(unavailable)? else { return Ok(None) };
        let mut keys =
            self.keys.get(self.provider.clone().fetch_keys(url.clone())).await.map_err(unavailable)?;
        match keys.verify(&signed) {
            Err(TokenError::UnknownKey) => {
                let newer = self.keys.force_refresh(&keys, self.provider.clone().fetch_keys(url)).await;
                // The fetch failed, so the key may exist: the token must not be rejected as invalid.
                keys = newer.map_err(unavailable)?.ok_or(TokenError::UnknownKey)?;
                keys.verify(&signed)?;
            }
            checked => checked?,
        }
        let expected =
            ExpectedClaims { issuer: self.spec().issuer.as_deref(), id_tokens: self.spec().id_tokens };
        let principal =
            claims::principal_from_claims(signed.claims()?, token, expected, None, SystemTime::now())?;
        let principal = Arc::new(principal);
        self.verified.insert(key, &keys, &principal);
        Ok(Some(principal))
    }

    async fn jwks_url(&self) -> Result<Option<Url>> {
        match &self.spec().jwks_url {
            Some(url) => self.provider.http.guard().parse_url(url).map(Some),
            None => self.metadata_url(|found| found.jwks_uri.as_ref()).await,
        }
    }

    /// Verifies a token by introspection.
    async fn introspect(
        &self,
        token: &str,
        key: TokenDigest,
    ) -> std::result::Result<Arc<Principal>, TokenError> {
        let unavailable = |error: Error| {
            self.log_failure(&error, "cannot find the introspection endpoint");
            TokenError::Unavailable
        };
        match self.question().await.map_err(unavailable)? {
            Some(question) => self.introspection.introspect(token, key, question).await,
            None => Err(TokenError::Malformed),
        }
    }

    /// The parameters of an introspection request; `None` if introspection is not available.
    async fn question(&self) -> Result<Option<IntrospectionRequest<'_>>> {
        let Some(client_id) = &self.spec().client_id else { return Ok(None) };
        let endpoint = match &self.spec().introspection_url {
            Some(url) => Some(self.provider.http.guard().parse_url(url)?),
            // Without a client secret, an endpoint from the metadata would reject the request.
            None if self.client_secret.is_none() => None,
            None => self.metadata_url(|found| found.introspection_endpoint.as_ref()).await?,
        };
        Ok(endpoint.map(|endpoint| IntrospectionRequest {
            provider: &self.provider,
            log: &self.log,
            endpoint,
            client_id,
            client_secret: self.client_secret.as_ref(),
            issuer: self.spec().issuer.as_deref(),
            id_tokens: self.spec().id_tokens,
        }))
    }

    /// An endpoint URL from the issuer's metadata.
    async fn metadata_url(
        &self,
        field: impl FnOnce(&IssuerMetadata) -> Option<&String>,
    ) -> Result<Option<Url>> {
        let Some(issuer) = &self.spec().issuer else { return Ok(None) };
        let metadata = self.metadata.get(self.provider.clone().fetch_metadata(issuer.clone())).await?;
        field(&metadata).map(|url| self.provider.http.guard().parse_url(url)).transpose()
    }
}

fn check_audience(
    principal: Arc<Principal>,
    audiences: &[String],
) -> std::result::Result<Arc<Principal>, TokenError> {
    match principal.audience.iter().any(|audience| audiences.contains(audience)) {
        true => Ok(principal),
        false => Err(TokenError::WrongAudience(principal.audience.clone())),
    }
}
