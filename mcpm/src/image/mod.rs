//! Container images: what they are called, when they are pulled and who the registry thinks we are.
//!
//! [`ImageReference`] reads what the user typed, [`pull::ensure`] decides whether the engine pulls, [`verify`] whether it was signed, and
//! [`credentials::CredentialStore`] finds the login that `docker login` or `podman login` left behind.

mod credential_helper;
pub mod credentials;
mod distribution;
mod grammar;
mod login;
pub mod pull;
mod reference;
pub mod verify;

pub use reference::ImageReference;
