//! Container images: references, pulling, registry credentials and signatures.
//!
//! [`ImageReference`] parses names, [`pull::ensure`] pulls an image if necessary, [`verify`] verifies signatures, and
//! [`credentials::CredentialStore`] finds the logins of `docker login` and `podman login`. [`store`] pulls and stores
//! images without an engine.

mod credential_helper;
pub mod credentials;
mod digest;
#[cfg(any(feature = "verify", all(feature = "builtin", target_os = "linux")))]
mod distribution;
mod grammar;
mod login;
pub mod pull;
mod reference;
#[cfg_attr(not(all(feature = "builtin", target_os = "linux")), path = "store/off.rs")]
pub mod store;
#[cfg_attr(not(feature = "verify"), path = "verify/off.rs")]
pub mod verify;

pub use digest::Digest;
pub use reference::ImageReference;
