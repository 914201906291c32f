//! Reads from the registry of an image what the engine does not: which digest a tag has, and what belongs to it.
//!
//! It speaks the pull half of the OCI distribution API with the logins that the engine would get, over `https`, and
//! over `http` with a registry on this machine that knows no other. What is asked for by its digest is checked against
//! it, so nothing here depends on whom the answer came from. Mirrors that the engine was told of are not known here.

use std::{fmt, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use ring::digest::{SHA256, digest};
use tokio::sync::Mutex;
use url::Url;

use super::{
    ImageReference,
    credentials::{CredentialStore, Credentials},
};
use crate::{
    Error, ErrorKind, Result,
    transport::{
        body::Body,
        http::{Client, Received, asking, is_this_machine},
        tls::{self, TrustStore},
    },
};

mod challenge;

use challenge::Challenge;

/// How long one answer may take.
const LIMIT: Duration = Duration::from_secs(30);
/// The largest manifest, which registries take no larger either.
const LARGEST_MANIFEST: usize = 4 << 20;
/// The largest blob that is read here: signatures, and what they say.
const LARGEST_BLOB: usize = 4 << 20;
/// How often a blob may be elsewhere.
const REDIRECTS: usize = 3;
/// The host that serves the images of `docker.io`.
const DOCKER_HUB: &str = "registry-1.docker.io";
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json";

/// A SHA-256 digest, written `sha256:…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Digest(String);

impl Digest {
    /// Reads `sha256:` and 64 lower-case hex digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:")?;
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (hex.len() == 64 && hex.bytes().all(is_hex)).then(|| Self(text.to_owned()))
    }

    /// The digest of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut text = "sha256:".to_owned();
        for byte in digest(&SHA256, bytes).as_ref() {
            text.push_str(&format!("{byte:02x}"));
        }
        Self(text)
    }

    /// The hex digits alone.
    pub(crate) fn hex(&self) -> &str {
        self.0.trim_start_matches("sha256:")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A repository of a registry.
#[derive(Debug)]
pub(crate) struct Repository {
    base: Url,
    name: String,
    registry: String,
    login: Option<Credentials>,
    /// Why no login was found, when that is not for lack of one.
    login_problem: Option<Error>,
    /// What the registry wants to see with each request, once it said so.
    authorization: Mutex<Option<HeaderValue>>,
    trust: TrustStore,
}

/// An answer that is not an error.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Repository {
    /// Finds the registry of an image and the login for it.
    ///
    /// # Errors
    /// `ImageUnavailable` when its name is none.
    pub(crate) async fn of(
        image: &ImageReference,
        logins: &CredentialStore,
        trust: &TrustStore,
    ) -> Result<Self> {
        let registry = image.registry();
        let host = if registry == "docker.io" { DOCKER_HUB } else { registry };
        let address = |scheme: &str| {
            Url::parse(&format!("{scheme}://{host}/")).map_err(|error| {
                let message = format!("`{registry}` is no registry");
                Error::new(ErrorKind::ImageUnavailable, message).source(error)
            })
        };
        let repository = |base| Self {
            base,
            name: image.repository().to_owned(),
            registry: registry.to_owned(),
            login: None,
            login_problem: None,
            authorization: Mutex::default(),
            trust: trust.clone(),
        };
        let mut found = repository(address("https")?);
        if is_this_machine(&found.base) && !found.speaks_tls().await {
            found = repository(address("http")?);
        }
        // A login that cannot be read is no reason not to ask: most images need none.
        match logins.lookup(registry).await {
            Ok(login) => found.login = login,
            Err(problem) => found.login_problem = Some(problem),
        }
        Ok(found)
    }

    /// Returns the digest and the bytes of a manifest; `None` when there is none.
    ///
    /// # Errors
    /// `ImageUnavailable` when the registry refuses, cannot be reached, or sends something else.
    pub(crate) async fn manifest(&self, reference: &str) -> Result<Option<(Digest, Bytes)>> {
        let answer = self.get(&format!("manifests/{reference}"), MANIFESTS, LARGEST_MANIFEST).await?;
        match answer.status {
            StatusCode::OK => {
                let digest = Digest::of(&answer.body);
                match Digest::parse(reference) {
                    Some(asked) if asked != digest => {
                        Err(self.failed(format!("what it sent for `{asked}` has another digest")))
                    }
                    _ => Ok(Some((digest, answer.body))),
                }
            }
            StatusCode::NOT_FOUND => Ok(None),
            status => Err(self.failed(format!("it answered {status}"))),
        }
    }

    /// Returns a blob.
    ///
    /// # Errors
    /// As for [`manifest`](Self::manifest).
    pub(crate) async fn blob(&self, digest: &Digest) -> Result<Bytes> {
        let answer = self.get(&format!("blobs/{digest}"), "*/*", LARGEST_BLOB).await?;
        if answer.status != StatusCode::OK {
            return Err(self.failed(format!("it answered {}", answer.status)));
        }
        if Digest::of(&answer.body) != *digest {
            return Err(self.failed(format!("what it sent for `{digest}` has another digest")));
        }
        Ok(answer.body)
    }

    /// Returns the index of what refers to a manifest; `None` when the registry does not know that question.
    ///
    /// # Errors
    /// As for [`manifest`](Self::manifest).
    pub(crate) async fn referrers(&self, digest: &Digest) -> Result<Option<Bytes>> {
        let accept = "application/vnd.oci.image.index.v1+json";
        let answer = self.get(&format!("referrers/{digest}"), accept, LARGEST_MANIFEST).await?;
        match answer.status {
            StatusCode::OK => Ok(Some(answer.body)),
            status if status.is_client_error() => Ok(None),
            status => Err(self.failed(format!("it answered {status}"))),
        }
    }

    async fn speaks_tls(&self) -> bool {
        let asking = self.exchange(&self.base, Method::GET, HeaderMap::new(), Bytes::new());
        match tokio::time::timeout(LIMIT, asking).await {
            Ok(Ok(_)) => true,
            // A certificate that is not trusted is no reason to go without one.
            Ok(Err(error)) => tls::is_distrust(&error),
            Err(_) => false,
        }
    }

    /// Tells whether the registry may lead here: nowhere without TLS, unless both are on this machine.
    fn may_ask(&self, url: &Url) -> bool {
        let here = self.base.scheme() == "http" && is_this_machine(url);
        url.scheme() == "https" || here && url.scheme() == "http"
    }

    fn failed(&self, why: impl fmt::Display) -> Error {
        Error::new(ErrorKind::ImageUnavailable, format!("the registry `{}` cannot be read", self.registry))
            .source(why.to_string())
    }

    fn denied(&self, why: impl fmt::Display) -> Error {
        let hint = format!("check the image's name, or log in with `docker login {}`", self.registry);
        let error = self.failed(why).hint(hint);
        match &self.login_problem {
            Some(problem) => error.with("login", problem),
            None => error,
        }
    }

    /// Asks for something of the repository, and says who asks when the registry wants to know.
    async fn get(&self, path: &str, accept: &str, largest: usize) -> Result<Answer> {
        let url = self.base.join(&format!("v2/{}/{path}", self.name)).map_err(|error| self.failed(error))?;
        let reading = async {
            let answer = self.follow(url.clone(), accept, largest).await?;
            if answer.status != StatusCode::UNAUTHORIZED {
                return Ok(answer);
            }
            self.log_in(&answer.headers).await?;
            self.follow(url, accept, largest).await
        };
        let answer = match tokio::time::timeout(LIMIT, reading).await {
            Ok(answer) => answer?,
            Err(_) => return Err(self.failed(format!("no answer within {} s", LIMIT.as_secs()))),
        };
        match answer.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(self.denied(format!("it answered {}", answer.status)))
            }
            _ => Ok(answer),
        }
    }

    async fn follow(&self, mut url: Url, accept: &str, largest: usize) -> Result<Answer> {
        for _ in 0..=REDIRECTS {
            let response = self.ask(&url, accept).await?;
            let (parts, body) = response.into_parts();
            if parts.status.is_redirection() {
                let place = parts.headers.get(header::LOCATION).and_then(|place| place.to_str().ok());
                let next = place.and_then(|place| url.join(place).ok());
                let next = next.ok_or_else(|| self.failed("a redirect leads nowhere"))?;
                if !self.may_ask(&next) {
                    return Err(self.failed("a redirect leads away from `https`"));
                }
                url = next;
                continue;
            }
            let body = Limited::new(body, largest).collect().await;
            let body =
                body.map_err(|error| self.failed(format!("its answer broke off: {error}")))?.to_bytes();
            return Ok(Answer { status: parts.status, headers: parts.headers, body });
        }
        Err(self.failed(format!("more than {REDIRECTS} redirects")))
    }

    async fn ask(&self, url: &Url, accept: &str) -> Result<http::Response<Received>> {
        let mut headers = HeaderMap::new();
        if let Ok(accept) = HeaderValue::from_str(accept)
            && !accept.is_empty()
        {
            headers.insert(header::ACCEPT, accept);
        }
        // Whoever the registry leads to is not told who asks.
        if url.origin() == self.base.origin()
            && let Some(authorization) = self.authorization.lock().await.clone()
        {
            headers.insert(header::AUTHORIZATION, authorization);
        }
        self.send(url, Method::GET, headers, Bytes::new()).await
    }

    /// Does what the registry wants before it answers.
    async fn log_in(&self, headers: &HeaderMap) -> Result<()> {
        let wanted = headers.get_all(header::WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let challenge = wanted.filter_map(Challenge::parse).next();
        let value = match (challenge, &self.login) {
            (Some(Challenge::Bearer { realm, service }), _) => {
                format!("Bearer {}", self.token(&realm, service.as_deref()).await?)
            }
            (Some(Challenge::Basic), Some(login)) => {
                basic(login).ok_or_else(|| self.failed("it wants a password"))?
            }
            _ => return Err(self.denied("it wants a login")),
        };
        let mut value = HeaderValue::from_str(&value).map_err(|error| self.failed(error))?;
        value.set_sensitive(true);
        *self.authorization.lock().await = Some(value);
        Ok(())
    }

    /// Gets a token that lets read this repository.
    async fn token(&self, realm: &str, service: Option<&str>) -> Result<String> {
        let mut url = Url::parse(realm).map_err(|error| self.failed(error))?;
        if !self.may_ask(&url) {
            return Err(self.failed("it wants the login to be sent without TLS"));
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
            let hint = format!("log in again with `docker login {}`", self.registry);
            return Err(self.failed(format!("its login answered {}", parts.status)).hint(hint));
        }
        let body =
            Limited::new(body, LARGEST_MANIFEST).collect().await.map_err(|error| self.failed(error))?;
        challenge::token(&body.to_bytes()).ok_or_else(|| self.failed("its login gave no token"))
    }

    async fn send(
        &self,
        url: &Url,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<http::Response<Received>> {
        self.exchange(url, method, headers, body).await.map_err(|error| match tls::is_distrust(&error) {
            true => self.failed(error).hint(tls::DISTRUST_HINT),
            false => self.failed(error),
        })
    }

    async fn exchange(
        &self,
        url: &Url,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<http::Response<Received>> {
        let (address, request) = asking(method, url, headers, Body::from(body))?;
        Client::trusting(address, self.trust.clone()).send(request).await
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
    fn a_digest_is_written_in_one_way() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(Digest::parse(empty), Some(Digest::of(b"")));
        for bad in ["", "sha256:", &empty[..70], &empty.to_uppercase(), "sha512:00", &format!("{empty}0")] {
            assert_eq!(Digest::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_this_machine_is_spoken_to_without_tls() {
        let is_here = |host: &str| is_this_machine(&Url::parse(&format!("https://{host}/")).unwrap());
        for here in ["localhost:5000", "127.0.0.1", "127.1.2.3:80", "[::1]:5000"] {
            assert!(is_here(here), "{here}");
        }
        for away in ["localhost.example", "10.0.0.1:5000", "registry.example", "[fe80::1]"] {
            assert!(!is_here(away), "{away}");
        }
    }
}
