//! Properties that the parsers of manifests, indexes and image configurations must have, for fuzzing and tests.
//!
//! cargo-fuzz needs a nightly compiler, so random tests stand in for it (`mcpm/src/fuzzing.rs`).

use super::{
    config::ConfigFile,
    limits::{MAX_IMAGE_BYTES, MAX_LAYERS},
    manifest::Document,
    platform::MachinePlatform,
};
use crate::{Error, Result};

/// A manifest or an index, which is within the limits, and whose errors can be printed.
pub(crate) fn manifest(data: &[u8]) {
    let Some(document) = accepted(Document::parse(data)) else { return };
    let sizes = match document {
        Document::Index(index) => {
            let machine = MachinePlatform::current();
            let Some(selected) = accepted(index.select(&machine)) else { return };
            assert!(selected.may_run_on(&machine), "{selected:?}");
            accepted(selected.blob(MAX_IMAGE_BYTES)).into_iter().map(|blob| blob.size).collect()
        }
        Document::Manifest(manifest) => manifest.layers.iter().map(|layer| layer.size).collect::<Vec<_>>(),
    };
    assert!(sizes.len() <= MAX_LAYERS && sizes.iter().all(|size| *size <= MAX_IMAGE_BYTES), "{sizes:?}");
}

/// A configuration, which is the same after it was stored.
pub(crate) fn config(data: &[u8]) {
    let Some(file) = accepted(ConfigFile::parse(data)) else { return };
    let config = file.image_config();
    assert!(config.exposed_ports.is_sorted_by(|one, next| one < next), "{config:?}");
    let Some(layers) = accepted(file.diff_ids()) else { return };
    assert!((1..=MAX_LAYERS).contains(&layers.len()));
    let stored = ConfigFile::new(&config, &layers, String::new());
    let again = serde_json::to_vec(&stored).map(|text| ConfigFile::parse(&text));
    let again = again.ok().and_then(Result::ok).map(|file| (file.image_config(), file.diff_ids().ok()));
    assert_eq!(again, Some((config, Some(layers))));
}

/// Returns what was accepted. The message of an error shows no control characters of the document.
fn accepted<T>(outcome: Result<T>) -> Option<T> {
    let message = outcome.as_ref().err().map(Error::to_string).unwrap_or_default();
    assert!(!message.contains(char::is_control), "{message:?}");
    outcome.ok()
}
