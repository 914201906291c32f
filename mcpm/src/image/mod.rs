//! Container images: references, pulling, registry credentials and signatures.
//!
//! [`ImageReference`] parses names, [`pull::ensure`] pulls an image if necessary, [`verify`] verifies signatures, and
//! [`credentials::CredentialStore`] finds the logins of `docker login` and `podman login`.

mod credential_helper;
pub mod credentials;
#[cfg(feature = "verify")]
mod distribution;
mod grammar;
mod login;
pub mod pull;
mod reference;
#[cfg_attr(not(feature = "verify"), path = "verify/off.rs")]
pub mod verify;

pub use reference::ImageReference;
