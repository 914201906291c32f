//! Signed images in a real registry: what counts as a signature, and what comes of an image without one.
//!
//! The registry is `docker-registry`, which has no referrers API; a small proxy in front of it stands for one that has.
//! The signer is a small program of the testbed, which writes what cosign writes.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod fixture;
mod identity;
mod invalid_options;
mod key;
