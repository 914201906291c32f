//! Parses the provenance in a registry entry, in ToolHive's format, and compares it with a certificate.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;
use sigstore_verify::crypto::CertificateInfo;

use super::statement::Predicate;
use crate::{Error, ErrorKind, Result, printable::Printable as _};

/// The Sigstore instance.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SigstoreInstance {
    /// The public instance.
    Public,
    /// The instance of GitHub.
    GitHub,
    /// Another instance.
    Other(String),
}

/// The builds whose signatures are valid.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Provenance {
    #[serde(default)]
    sigstore_url: String,
    /// The repository with the source.
    #[serde(default)]
    repository_uri: String,
    /// The branch or tag that was built.
    #[serde(default)]
    repository_ref: String,
    /// The workflow, by its path in the repository, or the whole name in the certificate.
    #[serde(default)]
    signer_identity: String,
    #[serde(default)]
    runner_environment: String,
    #[serde(default)]
    cert_issuer: String,
    #[serde(default)]
    attestation: Option<Attestation>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Attestation {
    #[serde(default)]
    predicate_type: String,
    #[serde(default)]
    predicate: Option<Value>,
}

impl Provenance {
    pub(super) fn read(value: &Value) -> Result<Self> {
        serde_json::from_value(value.clone()).map_err(|error| {
            let message = "the provenance in the registry entry cannot be parsed";
            Error::new(ErrorKind::Registry, message).source(error)
        })
    }

    /// Returns the issuer; `None` if the provenance is incomplete.
    pub(super) fn issuer(&self) -> Option<String> {
        let named = !self.repository_uri.is_empty() || !self.signer_identity.is_empty();
        (named && !self.cert_issuer.is_empty()).then(|| self.cert_issuer.clone())
    }

    pub(super) fn instance(&self) -> Result<SigstoreInstance> {
        let url = self.sigstore_url.trim_start_matches("https://").trim_end_matches('/');
        Ok(match url {
            "" | "tuf-repo-cdn.sigstore.dev" => SigstoreInstance::Public,
            "tuf-repo.github.com" => SigstoreInstance::GitHub,
            other => SigstoreInstance::Other(other.printable()),
        })
    }

    pub(super) fn predicate(&self) -> Predicate {
        let Some(attestation) = &self.attestation else { return Predicate::default() };
        Predicate {
            kind: Some(attestation.predicate_type.clone()).filter(|kind| !kind.is_empty()),
            content: attestation.predicate.clone().filter(|content| !content.is_null()),
        }
    }

    /// Compares the provenance with a verified certificate.
    pub(super) fn check(&self, certificate: Option<&CertificateInfo>) -> std::result::Result<(), String> {
        let certificate = certificate.ok_or("a signature has no certificate")?;
        let claims = &certificate.ci_claims;
        let repository = claims.source_repository_uri.as_deref();
        for (what, expected, actual) in [
            ("repository", &self.repository_uri, repository),
            ("branch or tag", &self.repository_ref, claims.source_repository_ref.as_deref()),
            ("kind of runner", &self.runner_environment, claims.runner_environment.as_deref()),
        ] {
            if !expected.is_empty() && actual != Some(expected) {
                let actual = actual.unwrap_or("nothing").printable();
                return Err(format!("the certificate's {what} is `{actual}`, not `{expected}`"));
            }
        }
        if self.signer_identity.is_empty() {
            return Ok(());
        }
        let name = certificate.identity.as_ref().map(|name| name.as_str()).unwrap_or_default();
        if self.signer_identity == name || self.is_workflow(claims.build_signer_uri.as_deref(), repository) {
            return Ok(());
        }
        Err(format!("the certificate is for `{}`, not `{}`", name.printable(), self.signer_identity))
    }

    /// Tells whether a build ran the workflow at this path of its own repository.
    fn is_workflow(&self, build: Option<&str>, repository: Option<&str>) -> bool {
        let (Some(build), Some(repository)) = (build, repository) else { return false };
        let path = build.strip_prefix(repository).filter(|path| path.starts_with('/'));
        path.and_then(|path| path.split_once('@')).is_some_and(|(path, _)| path == self.signer_identity)
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a build of `{}` by `{}`", self.repository_uri, self.signer_identity)
    }
}
