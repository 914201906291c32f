//! Tests signed images in a real registry: which signatures are valid, and the outcome for an image without a valid
//! one.
//!
//! The registry is `docker-registry`, which has no referrers API; a small proxy in front of it simulates a registry
//! with a referrers API. The signer is a small program of the testbed, which writes signatures in the format of cosign.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod fixture;
mod identity;
mod invalid_options;
mod key;
