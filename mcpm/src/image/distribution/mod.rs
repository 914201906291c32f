//! A client of the OCI distribution API. For the verification of images, it resolves tags to digests and fetches
//! signatures; for the built-in runtime, it also pulls images.
//!
//! It sends read requests with the logins of `docker login` and `podman login`, over HTTPS; HTTP is only used for a
//! registry on this machine that has no TLS. Content that is requested by its digest is verified against that digest,
//! so it does not matter who sent it. Registry mirrors of the engine are not used.

use std::{fmt, io, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use tokio::sync::Mutex;
use url::Url;

use super::{
    Digest, ImageReference,
    credentials::{CredentialStore, Credentials},
};
use crate::{
    Error, ErrorKind, Result,
    http_client::{self, HttpClient, is_loopback_url, request_for_url},
    transport::tls::{TrustStore, UNTRUSTED_ISSUER_HINT},
};

mod challenge;
#[cfg(all(feature = "builtin", target_os = "linux"))]
pub(crate) mod download;

use challenge::Challenge;

/// Timeout of one response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest manifest, which is also the limit of registries.
const MAX_MANIFEST_BYTES: usize = 4 << 20;
/// The largest blob that is held in memory: signatures, their payloads, and configurations of images.
const MAX_BLOB_BYTES: usize = 4 << 20;
/// How many redirects of a blob are followed.
const MAX_REDIRECTS: usize = 3;
/// The host that serves the images of `docker.io`.
const DOCKER_HUB: &str = "registry-1.docker.io";
const MANIFEST_MEDIA_TYPES: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json";

/// A repository of a registry.
#[derive(Debug)]
pub(crate) struct ImageRepository {
    base: Url,
    name: String,
    registry: String,
    login: Option<Credentials>,
    /// Why the login could not be read, if it failed.
    login_problem: Option<Error>,
    /// The `Authorization` header, after the first challenge.
    authorization: Mutex<Option<HeaderValue>>,
    client: HttpClient,
}

/// A successful response.
struct RegistryResponse {
    status: StatusCode,
    body: Bytes,
}

impl ImageRepository {
    /// Finds the registry of an image and the login for it.
    ///
    /// # Errors
    /// `ImageUnavailable` for an invalid name.
    pub(crate) async fn for_image(
        image: &ImageReference,
        logins: &CredentialStore,
        trust: &TrustStore,
    ) -> Result<Self> {
        let registry = image.registry();
        let host = if registry == "docker.io" { DOCKER_HUB } else { registry };
        let address = |scheme: &str| {
            Url::parse(&format!("{scheme}://{host}/")).map_err(|error| {
                let message = format!("`{registry}` is not a valid registry");
                Error::new(ErrorKind::ImageUnavailable, message).source(error)
            })
        };
        let client = HttpClient::new(trust.clone());
        let repository = |base| Self {
            base,
            name: image.repository().to_owned(),
            registry: registry.to_owned(),
            login: None,
            login_problem: None,
            authorization: Mutex::default(),
            client: client.clone(),
        };
        let mut found = repository(address("https")?);
        if is_loopback_url(&found.base) && !found.speaks_tls().await {
            found = repository(address("http")?);
        }
        // Most images need no login. If the login cannot be read, the request is made without it.
        match logins.lookup(registry).await {
            Ok(login) => found.login = login,
            Err(problem) => found.login_problem = Some(problem),
        }
        Ok(found)
    }

    /// Returns the digest and the bytes of a manifest; `None` when there is none.
    ///
    /// # Errors
    /// `ImageUnavailable` when the registry denies the request, cannot be reached, or responds with something else.
    pub(crate) async fn manifest(&self, reference: &str) -> Result<Option<(Digest, Bytes)>> {
        let answer =
            self.get(&format!("manifests/{reference}"), MANIFEST_MEDIA_TYPES, MAX_MANIFEST_BYTES).await?;
        match answer.status {
            StatusCode::OK => {
                let digest = Digest::sha256(&answer.body);
                match Digest::parse(reference) {
                    Some(asked) if asked != digest => {
                        Err(self.failed(format!("the content of `{asked}` does not match the digest")))
                    }
                    _ => Ok(Some((digest, answer.body))),
                }
            }
            StatusCode::NOT_FOUND => Ok(None),
            status => Err(self.unexpected(status)),
        }
    }

    /// Returns a blob.
    ///
    /// # Errors
    /// As for [`manifest`](Self::manifest).
    pub(crate) async fn blob(&self, digest: &Digest) -> Result<Bytes> {
        let answer = self.get(&format!("blobs/{digest}"), "*/*", MAX_BLOB_BYTES).await?;
        if answer.status != StatusCode::OK {
            return Err(self.unexpected(answer.status));
        }
        if Digest::sha256(&answer.body) != *digest {
            return Err(self.failed(format!("the content of `{digest}` does not match the digest")));
        }
        Ok(answer.body)
    }

    /// Returns the index of the referrers of a manifest; `None` when the registry does not support referrers.
    ///
    /// # Errors
    /// As for [`manifest`](Self::manifest).
    #[cfg(feature = "verify")]
    pub(crate) async fn referrers(&self, digest: &Digest) -> Result<Option<Bytes>> {
        let accept = "application/vnd.oci.image.index.v1+json";
        let answer = self.get(&format!("referrers/{digest}"), accept, MAX_MANIFEST_BYTES).await?;
        match answer.status {
            StatusCode::OK => Ok(Some(answer.body)),
            status if status.is_client_error() => Ok(None),
            status => Err(self.failed(format!("it responded with {status}"))),
        }
    }

    async fn speaks_tls(&self) -> bool {
        let asking = self.exchange(&self.base, Method::GET, HeaderMap::new(), Bytes::new());
        match tokio::time::timeout(REQUEST_TIMEOUT, asking).await {
            Ok(Ok(_)) => true,
            // No fallback to HTTP for a certificate that is not trusted.
            Ok(Err(error)) => http_client::is_untrusted_issuer(&error),
            Err(_) => false,
        }
    }

    /// Tells whether a redirect is allowed: only to a URL with TLS, unless both hosts are this machine.
    fn may_send_to(&self, url: &Url) -> bool {
        let here = self.base.scheme() == "http" && is_loopback_url(url);
        url.scheme() == "https" || here && url.scheme() == "http"
    }

    fn failed(&self, why: impl fmt::Display) -> Error {
        Error::new(ErrorKind::ImageUnavailable, format!("cannot read from the registry `{}`", self.registry))
            .source(why.to_string())
    }

    /// The error for a registry that cannot be reached or does not respond, in contrast to one that sends invalid
    /// content.
    fn unreachable(&self, why: impl fmt::Display) -> Error {
        self.failed("").source(io::Error::new(io::ErrorKind::HostUnreachable, why.to_string()))
    }

    fn unexpected(&self, status: StatusCode) -> Error {
        let why = format!("it responded with {status}");
        match status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            true => self.unreachable(why),
            false => self.failed(why),
        }
    }

    fn denied(&self, why: impl fmt::Display) -> Error {
        let hint = format!("check the image's name, or log in with `docker login {}`", self.registry);
        let error = self.failed(why).hint(hint);
        match &self.login_problem {
            Some(problem) => error.with("login", problem),
            None => error,
        }
    }

    /// Sends a request for the repository, and reads the whole response.
    async fn get(&self, path: &str, accept: &str, largest: usize) -> Result<RegistryResponse> {
        let reading = async {
            let (parts, body) = self.open(path, accept, None).await?.into_parts();
            let body = Limited::new(body, largest).collect().await;
            let body = body
                .map_err(|error| self.unreachable(format!("its response was interrupted: {error}")))?
                .to_bytes();
            Ok(RegistryResponse { status: parts.status, body })
        };
        match tokio::time::timeout(REQUEST_TIMEOUT, reading).await {
            Ok(answer) => answer,
            Err(_) => Err(self.unreachable(format!("no response within {} s", REQUEST_TIMEOUT.as_secs()))),
        }
    }

    /// Sends a request for the repository, authenticates when the registry demands it, and returns the head of the
    /// response.
    async fn open(
        &self,
        path: &str,
        accept: &str,
        range: Option<&HeaderValue>,
    ) -> Result<http::Response<Incoming>> {
        let url = self.base.join(&format!("v2/{}/{path}", self.name)).map_err(|error| self.failed(error))?;
        let mut response = self.get_following_redirects(url.clone(), accept, range).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            self.authenticate(response.headers()).await?;
            response = self.get_following_redirects(url, accept, range).await?;
        }
        match response.status() {
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                Err(self.denied(format!("it responded with {status}")))
            }
            _ => Ok(response),
        }
    }

    async fn get_following_redirects(
        &self,
        mut url: Url,
        accept: &str,
        range: Option<&HeaderValue>,
    ) -> Result<http::Response<Incoming>> {
        for _ in 0..=MAX_REDIRECTS {
            let response = self.request(&url, accept, range).await?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let place = response.headers().get(header::LOCATION).and_then(|place| place.to_str().ok());
            let next = place.and_then(|place| url.join(place).ok());
            let next = next.ok_or_else(|| self.failed("a redirect has no valid `Location`"))?;
            if !self.may_send_to(&next) {
                return Err(self.failed("a redirect does not use `https`"));
            }
            url = next;
        }
        Err(self.failed(format!("more than {MAX_REDIRECTS} redirects")))
    }

    async fn request(
        &self,
        url: &Url,
        accept: &str,
        range: Option<&HeaderValue>,
    ) -> Result<http::Response<Incoming>> {
        let mut headers = HeaderMap::new();
        if let Ok(accept) = HeaderValue::from_str(accept)
            && !accept.is_empty()
        {
            headers.insert(header::ACCEPT, accept);
        }
        if let Some(range) = range {
            headers.insert(header::RANGE, range.clone());
        }
        // Credentials are not sent to the target of a redirect.
        if url.origin() == self.base.origin()
            && let Some(authorization) = self.authorization.lock().await.clone()
        {
            headers.insert(header::AUTHORIZATION, authorization);
        }
        self.send(url, Method::GET, headers, Bytes::new()).await
    }

    /// Answers a challenge of the registry.
    async fn authenticate(&self, headers: &HeaderMap) -> Result<()> {
        let wanted = headers.get_all(header::WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let challenge = wanted.filter_map(Challenge::parse).next();
        let value = match (challenge, &self.login) {
            (Some(Challenge::Bearer { realm, service }), _) => {
                format!("Bearer {}", self.token(&realm, service.as_deref()).await?)
            }
            (Some(Challenge::Basic), Some(login)) => basic(login)
                .ok_or_else(|| self.failed("it requires a password, but the stored login has none"))?,
            _ => return Err(self.denied("it requires a login")),
        };
        let mut value = HeaderValue::from_str(&value).map_err(|error| self.failed(error))?;
        value.set_sensitive(true);
        *self.authorization.lock().await = Some(value);
        Ok(())
    }

    /// Fetches a token for reading this repository.
    async fn token(&self, realm: &str, service: Option<&str>) -> Result<String> {
        let mut url = Url::parse(realm).map_err(|error| self.failed(error))?;
        if !self.may_send_to(&url) {
            return Err(self.failed("its token endpoint does not use TLS"));
        }
        let scope = format!("repository:{}:pull", self.name);
        let service = service.unwrap_or_default();
        let mut headers = HeaderMap::new();
        let (method, body) = if let Some(Credentials::IdentityToken(token)) = &self.login {
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            form.extend_pairs([("grant_type", "refresh_token"), ("service", service), ("scope", &scope)]);
            form.extend_pairs([("client_id", "mcpm"), ("refresh_token", token)]);
            let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
            headers.insert(header::CONTENT_TYPE, kind);
            (Method::POST, Bytes::from(form.finish()))
        } else {
            url.query_pairs_mut().extend_pairs([("service", service), ("scope", &scope)]);
            if let Some(basic) = self.login.as_ref().and_then(basic) {
                let mut basic = HeaderValue::from_str(&basic).map_err(|error| self.failed(error))?;
                basic.set_sensitive(true);
                headers.insert(header::AUTHORIZATION, basic);
            }
            (Method::GET, Bytes::new())
        };
        let response = self.send(&url, method, headers, body).await?;
        let (parts, body) = response.into_parts();
        if parts.status != StatusCode::OK {
            let why = format!("its token endpoint responded with {}", parts.status);
            return Err(match parts.status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => self.denied(why),
                _ => self.failed(why),
            });
        }
        let body =
            Limited::new(body, MAX_MANIFEST_BYTES).collect().await.map_err(|error| self.failed(error))?;
        challenge::parse_token(&body.to_bytes())
            .ok_or_else(|| self.failed("its token endpoint returned no token"))
    }

    async fn send(
        &self,
        url: &Url,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<http::Response<Incoming>> {
        self.exchange(url, method, headers, body).await.map_err(|error| {
            match (http_client::is_untrusted_issuer(&error), http_client::is_unreachable(&error)) {
                (true, _) => self.failed(error).hint(UNTRUSTED_ISSUER_HINT),
                (false, true) => self.unreachable(error),
                (false, false) => self.failed(error),
            }
        })
    }

    async fn exchange(
        &self,
        url: &Url,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<http::Response<Incoming>> {
        self.client.send(request_for_url(method, url, headers, body)?).await
    }
}

fn basic(login: &Credentials) -> Option<String> {
    let Credentials::Password { username, password } = login else { return None };
    Some(format!("Basic {}", STANDARD.encode(format!("{username}:{password}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_allowed_for_loopback_only() {
        let is_here = |host: &str| is_loopback_url(&Url::parse(&format!("https://{host}/")).unwrap());
        for here in ["localhost:5000", "127.0.0.1", "127.1.2.3:80", "[::1]:5000"] {
            assert!(is_here(here), "{here}");
        }
        for away in ["localhost.example", "10.0.0.1:5000", "registry.example", "[fe80::1]"] {
            assert!(!is_here(away), "{away}");
        }
    }
}
