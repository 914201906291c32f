//! The Docker runtime against a real engine.
//!
//! `MCPM_TEST_ENGINE` names another engine than the one at Docker's usual socket, such as Podman's.
#![expect(clippy::unwrap_used, reason = "what fails here fails its test")]

mod build;
mod confinement;
mod images;
mod lifecycle;
mod severable_socket;
mod streams;
mod support;
