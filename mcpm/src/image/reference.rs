//! Image references: `[DOMAIN/]PATH[:TAG][@DIGEST]`.
//!
//! Two references are equal when they name the same image: `alpine`, `alpine:latest` and `docker.io/library/alpine`
//! do. A reference is displayed as it was typed.

use std::{
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use super::grammar::{check_path, is_digest, is_domain, is_tag, one_line, split_domain};
use crate::{Error, ErrorKind, Result, redact::url::split_scheme};

/// The registry of a reference without a domain.
const DEFAULT_REGISTRY: &str = "docker.io";
/// The namespace of Docker Hub's official images, which is usually omitted.
const DEFAULT_NAMESPACE: &str = "library/";
/// The longest name (domain and path) that registries accept.
const MAX_NAME_LENGTH: usize = 255;
/// The longest workload name.
const MAX_WORKLOAD_NAME_LENGTH: usize = 63;

/// An image reference, as typed and as parsed.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageReference {
    as_written: String,
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// Returns the part of a text that an error may quote: a URL whose scheme is missing may contain a password or a key.
fn without_secrets(text: &str) -> String {
    // A password may contain `@`, `?` or `#`.
    let (before, rest) = match text.rsplit_once('@') {
        Some((userinfo, rest))
            if userinfo.contains(':') && (!rest.starts_with("sha") || rest.contains('/')) =>
        {
            ("…@", rest)
        }
        _ => ("", text),
    };
    format!("{before}{}", rest.split(['?', '#']).next().unwrap_or_default())
}

impl ImageReference {
    /// Reads a reference.
    ///
    /// # Errors
    /// `InvalidOption` names the invalid part.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = |why: &str| {
            Error::new(
                ErrorKind::InvalidOption,
                format!("`{}` is not an image reference: {why}", one_line(&without_secrets(text))),
            )
        };
        if text.is_empty() {
            return Err(Error::new(ErrorKind::InvalidOption, "the image reference is empty"));
        }
        if split_scheme(text).is_some() {
            return Err(
                invalid("an image reference has no URL scheme").hint("leave out everything up to `://`")
            );
        }
        if text.contains(['?', '#']) {
            let error = invalid("an image reference has neither a query nor a fragment");
            return Err(error.hint("begin a URL with `https://`"));
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return Err(invalid(
                "the part after `@` must be a digest such as `sha256:` and 64 lower-case hex digits",
            ));
        }
        // A colon after the last slash starts the tag; one before it belongs to the registry's port.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(invalid(
                "a tag has 1 to 128 ASCII letters, digits, `_`, `.` and `-`, and starts with neither `.` nor `-`",
            ));
        }
        if name.len() > MAX_NAME_LENGTH {
            return Err(invalid("its name is longer than 255 characters"));
        }
        let (domain, path) = split_domain(name);
        if domain.is_some_and(|domain| !is_domain(domain)) {
            return Err(invalid(
                "the registry before the first `/` must be a host name or an address, with an optional port",
            ));
        }
        check_path(path).map_err(|why| invalid(&why))?;
        if domain.is_none() && path.len() == 64 && path.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(invalid("64 hex digits are an image id, not a name").hint("use the image's name"));
        }
        let registry = match domain {
            None | Some("index.docker.io") => DEFAULT_REGISTRY,
            Some(domain) => domain,
        };
        let repository = if registry == DEFAULT_REGISTRY && !path.contains('/') {
            format!("{DEFAULT_NAMESPACE}{path}")
        } else {
            path.to_owned()
        };
        Ok(Self {
            as_written: text.to_owned(),
            registry: registry.to_owned(),
            repository,
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }

    /// Returns the registry's domain and port, `docker.io` when none was typed.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Returns the path in the registry, with the `library/` that Docker Hub adds.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns the tag that was typed.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest that was typed, such as `sha256:…`.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// Tells whether the reference can move to a newer image: no digest, and no tag or `latest`.
    pub fn is_latest(&self) -> bool {
        self.digest.is_none() && self.tag.as_deref().is_none_or(|tag| tag == "latest")
    }

    /// Returns the shortest name of this repository, without tag and digest: `alpine`, `grafana/mcp-grafana`,
    /// `ghcr.io/org/server`.
    pub fn familiar_name(&self) -> String {
        let short = self.familiar_path();
        // The shortened path may look like a name on another registry.
        let is_same = || Self::parse(short).is_ok_and(|again| again.same_repository(self));
        if self.registry == DEFAULT_REGISTRY && is_same() {
            short.to_owned()
        } else {
            format!("{}/{}", self.registry, self.repository)
        }
    }

    /// Tells whether both name the same repository, regardless of tag and digest.
    pub fn same_repository(&self, other: &Self) -> bool {
        self.registry == other.registry && self.repository == other.repository
    }

    /// Returns the workload name for this image: its last namespace part and its repository name.
    pub fn workload_name(&self) -> String {
        let mut parts = self.familiar_path().rsplit('/');
        let repository = parts.next().unwrap_or_default();
        let mut name = match parts.next() {
            Some(namespace) => format!("{namespace}-{repository}"),
            None => repository.to_owned(),
        };
        // Every character of a path is valid in a workload name; only the length may be too large.
        name.truncate(MAX_WORKLOAD_NAME_LENGTH);
        name
    }

    fn familiar_path(&self) -> &str {
        match self.repository.strip_prefix(DEFAULT_NAMESPACE) {
            Some(path) if self.registry == DEFAULT_REGISTRY && !path.contains('/') => path,
            _ => &self.repository,
        }
    }

    fn identity(&self) -> (&str, &str, Option<&str>, Option<&str>) {
        let tag = match (&self.tag, &self.digest) {
            (Some(tag), _) => Some(tag.as_str()),
            (None, None) => Some("latest"),
            (None, Some(_)) => None,
        };
        (&self.registry, &self.repository, tag, self.digest.as_deref())
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_written)
    }
}

impl fmt::Debug for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ImageReference({})", self.as_written)
    }
}

impl PartialEq for ImageReference {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for ImageReference {}

impl Hash for ImageReference {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl FromStr for ImageReference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl TryFrom<String> for ImageReference {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

impl From<ImageReference> for String {
    fn from(reference: ImageReference) -> Self {
        reference.as_written
    }
}

#[cfg(test)]
#[path = "reference_tests.rs"]
mod tests;
