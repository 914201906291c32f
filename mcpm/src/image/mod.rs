//! Container images: references, pulling, registry credentials and signatures.
//!
//! [`ImageReference`] parses names, [`pull::ensure`] pulls an image if necessary, [`verify`] verifies signatures, and
//! [`credentials::CredentialStore`] finds the logins of `docker login` and `podman login`.

mod credential_helper;
pub mod credentials;
mod distribution;
mod grammar;
mod login;
pub mod pull;
mod reference;
pub mod verify;

pub use reference::ImageReference;
