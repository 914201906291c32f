//! Verifies image signatures as the options and the registry entry require.
//!
//! A given key or identity takes precedence over the provenance in the registry entry. An image that is built for a
//! package has no signature.

use std::fmt;

use serde::Serialize;

use super::{request::WorkloadRequest, source::ServerSource};
use crate::{
    Environment, Error, ErrorKind, Result,
    image::{
        ImageReference,
        credentials::CredentialStore,
        verify::{self, ExpectedSigner, Identity, VerifiedImage},
    },
    options::{ImageVerification, OptionSet as _, WorkloadOptions},
    transport::tls::TrustStore,
    workload::{WorkloadEvent, events::WorkloadEvents},
};

/// The options that name the signer.
const SIGNER_OPTIONS: &[&str] =
    &["image_verification_key", "certificate_identity", "certificate_oidc_issuer", "sigstore_trusted_root"];

/// How the signature of an image is verified.
#[derive(Debug)]
pub(in crate::workload) struct Verification {
    mode: ImageVerification,
    expected: Option<ExpectedSigner>,
    built: bool,
    /// Whether the mode was given.
    explicit: bool,
    /// The authorities that are trusted for requests to the image registry.
    trust: TrustStore,
}

/// The verification in a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedVerification {
    /// What happens if the signature is missing or invalid.
    pub mode: ImageVerification,
    /// The expected signer; `None` when it is not known, and nothing is verified.
    pub signer: Option<String>,
}

impl fmt::Display for PlannedVerification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.mode, &self.signer) {
            (ImageVerification::Disabled, _) => f.write_str("none"),
            (_, None) => f.write_str("none: no key or identity of a signer is specified"),
            (ImageVerification::Warn, Some(signer)) => {
                write!(f, "signed by {signer}; otherwise it runs after a warning")
            }
            (ImageVerification::Enabled, Some(signer)) => {
                write!(f, "signed by {signer}; otherwise it is rejected")
            }
        }
    }
}

impl Verification {
    /// Resolves the verification for a request.
    ///
    /// # Errors
    /// `InvalidOption` for options that contradict each other and for invalid files; `ImageUnverified` when a
    /// signature is required and the signer is not known; `NotFound`, `Io`, `Registry`.
    pub(in crate::workload) fn from_request(request: &WorkloadRequest) -> Result<Self> {
        let options = request.effective_options();
        let mode = options.image_verification.unwrap_or(ImageVerification::Warn);
        let built = matches!(request.source, ServerSource::Package(_));
        let chosen = request.options.is_given("image_verification");
        check(&options, mode, built)?;
        let trust = request.files.trust_store()?.clone();
        if mode == ImageVerification::Disabled {
            return Ok(Self { mode, expected: None, built, explicit: chosen, trust });
        }
        let provenance = request
            .registry_values
            .as_ref()
            .and_then(|registry_values| registry_values.run_method.provenance.as_ref());
        let expected = if built { None } else { expected(request, provenance)? };
        if expected.is_none() && options.sigstore_trusted_root.is_some() {
            let message = "`sigstore_trusted_root` needs a key or an identity of the image's signer";
            return Err(Error::new(ErrorKind::InvalidOption, message)
                .hint("set `certificate_identity` and `certificate_oidc_issuer` as well"));
        }
        if mode == ImageVerification::Enabled && expected.is_none() {
            return Err(unknown_signer(&request.source, built));
        }
        Ok(Self { mode, expected, built, explicit: chosen, trust })
    }

    /// Returns the verification for a plan; `None` for an image that is built.
    pub(in crate::workload) fn planned(&self) -> Option<PlannedVerification> {
        let signer = self.expected.as_ref().map(ToString::to_string);
        (!self.built).then_some(PlannedVerification { mode: self.mode, signer })
    }

    /// Verifies the image; `None` when it runs unverified.
    ///
    /// # Errors
    /// `ImageUnverified` and `ImageUnavailable`, when a signature is required.
    pub(in crate::workload) async fn verify(
        &self,
        image: &ImageReference,
        offline: bool,
        environment: &Environment,
        events: &WorkloadEvents,
    ) -> Result<Option<VerifiedImage>> {
        let Some(expected) = &self.expected else {
            if self.mode == ImageVerification::Warn && !self.built {
                let message = format!(
                    "image `{image}` runs unverified, because no key or identity of its signer is specified; specify \
                     one with `image_verification_key` or `certificate_identity`, or set `image_verification` to \
                     `disabled`"
                );
                // There is no warning by default: nearly every image would cause one at each start, and nobody would
                // read it.
                if self.explicit {
                    events.emit(WorkloadEvent::Warning { message });
                } else {
                    tracing::info!("{message}");
                }
            }
            return Ok(None);
        };
        let outcome = if offline {
            let message =
                format!("image `{image}` cannot be verified offline: the signature is in its registry");
            Err(Error::new(ErrorKind::ImageUnverified, message).hint("run it without `offline`"))
        } else {
            let logins = CredentialStore::new(&environment.engine);
            Box::pin(verify::verify(image, expected, &logins, &self.trust)).await
        };
        match outcome {
            Ok(verified) => {
                tracing::info!(%image, digest = verified.digest, signer = %verified.signer, "verified");
                Ok(Some(verified))
            }
            Err(error) if self.mode == ImageVerification::Warn => {
                let message = format!("image `{image}` runs unverified: {error}");
                events.emit(WorkloadEvent::Warning { message });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the image pinned to the verified digest.
///
/// # Errors
/// `Internal` when the reference cannot be written.
pub(in crate::workload) fn pinned(
    image: &ImageReference,
    verified: &VerifiedImage,
) -> Result<ImageReference> {
    ImageReference::parse(&format!("{}@{}", image.familiar_name(), verified.digest)).map_err(|error| {
        Error::new(ErrorKind::Internal, "a verified image cannot be named").source(error.to_string())
    })
}

fn check(options: &WorkloadOptions, mode: ImageVerification, built: bool) -> Result<()> {
    if let Some(name) = SIGNER_OPTIONS.iter().find(|name| options.is_given(name)) {
        let why = if built {
            "is for published images, not for one that is built from a package"
        } else if mode == ImageVerification::Disabled {
            "has no effect with `image_verification` set to `disabled`"
        } else {
            ""
        };
        if !why.is_empty() {
            return Err(Error::new(ErrorKind::InvalidOption, format!("`{name}` {why}")));
        }
    }
    match (&options.certificate_identity, &options.certificate_oidc_issuer) {
        (Some(_), None) => Err(Error::new(
            ErrorKind::InvalidOption,
            "`certificate_identity` needs `certificate_oidc_issuer`: an identity is only meaningful with its issuer",
        )),
        (None, Some(_)) => Err(Error::new(
            ErrorKind::InvalidOption,
            "`certificate_oidc_issuer` needs `certificate_identity`: an issuer attests many identities",
        )),
        _ => Ok(()),
    }
}

fn expected(
    request: &WorkloadRequest,
    provenance: Option<&serde_json::Value>,
) -> Result<Option<ExpectedSigner>> {
    if let Some(key) = request.files.verification_key()? {
        return Ok(Some(ExpectedSigner::Key(key.clone())));
    }
    let (options, root) = (&request.options, request.files.trusted_root()?.cloned());
    let identity = match (&options.certificate_identity, &options.certificate_oidc_issuer, provenance) {
        (Some(name), Some(issuer), _) => Some(Identity::new(name.clone(), issuer.clone(), root)?),
        (_, _, Some(provenance)) => Identity::from_provenance(provenance, root)?,
        _ => None,
    };
    Ok(identity.map(|identity| ExpectedSigner::Identity(Box::new(identity))))
}

/// Returns the error when a signature is required and the signer is not known.
fn unknown_signer(source: &ServerSource, built: bool) -> Error {
    if built {
        return Error::new(
            ErrorKind::ImageUnverified,
            "the image of a package is built on this machine, so it has no signature",
        )
        .hint("run it with `image_verification` set to `warn`, or run an image that its publisher signs");
    }
    let image = match source {
        ServerSource::Image(image) => image.to_string(),
        _ => "the image".to_owned(),
    };
    let message = format!("cannot verify `{image}`: no key or identity of its signer is specified");
    Error::new(ErrorKind::ImageUnverified, message)
        .hint("set `image_verification_key`, or set `certificate_identity` and `certificate_oidc_issuer`")
}
