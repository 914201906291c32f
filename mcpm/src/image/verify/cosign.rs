//! Converts cosign's annotations of a keyless signature to a Sigstore bundle, so that `identity.rs` verifies both forms
//! with the same code.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::{Value, json};
use sigstore_verify::types::{Bundle, DerCertificate};

use super::{key::SIGNATURE_ANNOTATION, reason::reason};

const CERTIFICATE_ANNOTATION: &str = "dev.sigstore.cosign/certificate";
const CHAIN_ANNOTATION: &str = "dev.sigstore.cosign/chain";
const REKOR_BUNDLE_ANNOTATION: &str = "dev.sigstore.cosign/bundle";
const TIMESTAMP_ANNOTATION: &str = "dev.sigstore.cosign/rfc3161timestamp";
const PEM_END: &str = "-----END CERTIFICATE-----";

/// The promise of inclusion in the transparency log.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RekorBundle {
    signed_entry_timestamp: String,
    payload: RekorPayload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RekorPayload {
    body: String,
    integrated_time: i64,
    log_index: u64,
    #[serde(rename = "logID")]
    log_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RekorEntryBody {
    kind: String,
    api_version: String,
}

#[derive(Deserialize)]
struct Timestamp {
    #[serde(rename = "SignedRFC3161Timestamp")]
    signed: String,
}

/// Returns a bundle of version 0.1, which has an inclusion promise instead of a proof.
pub(super) fn to_bundle(payload: &[u8], annotations: &BTreeMap<String, String>) -> Result<Bundle, String> {
    let given = |name: &str| annotations.get(name).map(String::as_str).filter(|text| !text.trim().is_empty());
    let signature = given(SIGNATURE_ANNOTATION).ok_or("a signature is missing")?;
    let certificate = given(CERTIFICATE_ANNOTATION)
        .ok_or("a signature was made with a key pair, so it has no certificate")?;
    let mut certificates = Vec::new();
    for pem in split_pem(certificate).chain(given(CHAIN_ANNOTATION).into_iter().flat_map(split_pem)) {
        let der = DerCertificate::from_pem(&pem).map_err(|error| reason(&error))?;
        certificates.push(json!({"rawBytes": STANDARD.encode(der.as_bytes())}));
    }
    let entries = given(REKOR_BUNDLE_ANNOTATION).map(log_entry).transpose()?;
    let timestamps = given(TIMESTAMP_ANNOTATION).map(timestamp).transpose()?;
    let bundle = json!({
        "mediaType": "application/vnd.dev.sigstore.bundle+json;version=0.1",
        "verificationMaterial": {
            "x509CertificateChain": {"certificates": certificates},
            "tlogEntries": entries.into_iter().collect::<Vec<_>>(),
            "timestampVerificationData": {"rfc3161Timestamps": timestamps.into_iter().collect::<Vec<_>>()},
        },
        "messageSignature": {
            "messageDigest": {"algorithm": "SHA2_256", "digest": STANDARD.encode(digest(&SHA256, payload))},
            "signature": signature,
        },
    });
    Bundle::from_json(&bundle.to_string()).map_err(|error| reason(&error))
}

/// Returns the certificates in a text.
fn split_pem(text: &str) -> impl Iterator<Item = String> {
    text.split_inclusive(PEM_END).map(|pem| pem.trim().to_owned()).filter(|pem| !pem.is_empty())
}

fn log_entry(text: &str) -> Result<Value, String> {
    let unclear = |_| "the inclusion promise of the transparency log cannot be parsed".to_owned();
    let logged: RekorBundle = serde_json::from_str(text).map_err(unclear)?;
    let body = STANDARD.decode(&logged.payload.body).unwrap_or_default();
    let body: RekorEntryBody = serde_json::from_slice(&body).map_err(unclear)?;
    let id: Option<Vec<u8>> = (0..logged.payload.log_id.len())
        .step_by(2)
        .map(|at| logged.payload.log_id.get(at..at + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok()))
        .collect();
    let id = id.ok_or("the inclusion promise of the transparency log cannot be parsed")?;
    Ok(json!({
        "logIndex": logged.payload.log_index.to_string(),
        "logId": {"keyId": STANDARD.encode(id)},
        "kindVersion": {"kind": body.kind, "version": body.api_version},
        "integratedTime": logged.payload.integrated_time.to_string(),
        "inclusionPromise": {"signedEntryTimestamp": logged.signed_entry_timestamp},
        "canonicalizedBody": logged.payload.body,
    }))
}

fn timestamp(text: &str) -> Result<Value, String> {
    let timestamp: Timestamp =
        serde_json::from_str(text).map_err(|_| "the timestamp of a signature cannot be parsed".to_owned())?;
    Ok(json!({"signedTimestamp": timestamp.signed}))
}
