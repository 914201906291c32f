//! Checks signed statements, which name an image by its digest.

use serde::Deserialize;
use serde_json::Value;

use crate::{image::Digest, printable::Printable as _};

/// The predicate type of a statement by cosign that is only a signature.
const COSIGN_SIGNATURE_PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";
/// The predicate type of a statement by a builder about the build.
const SLSA_PROVENANCE_PREDICATE: &str = "https://slsa.dev/provenance/";
/// The media type of a statement in an envelope.
pub(super) const IN_TOTO: &str = "application/vnd.in-toto+json";

/// The required predicate of a statement.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Predicate {
    /// Its type; by default that of a signature or of a build.
    pub(super) kind: Option<String>,
    /// Its whole content.
    pub(super) content: Option<Value>,
}

#[derive(Deserialize)]
struct SimpleSigningPayload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    #[serde(rename = "type")]
    kind: String,
    image: Image,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    subject: Vec<Subject>,
    predicate_type: String,
    #[serde(default)]
    predicate: Value,
}

#[derive(Deserialize)]
struct Subject {
    #[serde(default)]
    digest: std::collections::BTreeMap<String, String>,
}

/// Checks that a simple signing payload names this image.
pub(super) fn check_simple(payload: &[u8], image: &Digest) -> Result<(), String> {
    let unclear = |_| "the signed payload cannot be parsed".to_owned();
    let document: SimpleSigningPayload = serde_json::from_slice(payload).map_err(unclear)?;
    if document.critical.kind != "cosign container image signature" {
        return Err("the signed payload is not a container image signature".to_owned());
    }
    if document.critical.image.digest != image.to_string() {
        return Err("the signed payload names another image".to_owned());
    }
    Ok(())
}

/// Checks that a statement names this image and has the required predicate.
///
/// A statement of another type, such as a vulnerability report, does not vouch for the image.
pub(super) fn check_statement(payload: &[u8], image: &Digest, expected: &Predicate) -> Result<(), String> {
    let unclear = |_| "the signed statement cannot be parsed".to_owned();
    let statement: Statement = serde_json::from_slice(payload).map_err(unclear)?;
    let names = |subject: &Subject| subject.digest.get("sha256").is_some_and(|hex| hex == image.hex());
    if !statement.subject.iter().any(names) {
        return Err("the signed statement names another image".to_owned());
    }
    let kind = statement.predicate_type.as_str();
    let fits = match &expected.kind {
        Some(expected) => kind == expected,
        None => kind == COSIGN_SIGNATURE_PREDICATE || kind.starts_with(SLSA_PROVENANCE_PREDICATE),
    };
    if !fits {
        return Err(format!(
            "a statement with the predicate type `{}` is not an image signature",
            kind.printable()
        ));
    }
    match &expected.content {
        Some(content) if *content != statement.predicate => {
            Err("the predicate of the statement differs from the one in the registry entry".to_owned())
        }
        _ => Ok(()),
    }
}
