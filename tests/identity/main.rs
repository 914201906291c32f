//! Incoming authentication, against a real identity provider and with a real client.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails here fails its test")]

mod audit;
mod authority;
mod exchange;
mod explained;
mod issuer;
mod keycloak;
mod login;
mod outages;
mod policies;
mod provider;
mod reach;
mod served;
mod sessions;
#[expect(dead_code, unused_imports, reason = "shared with the tests of the command line")]
#[path = "../cli/support/mod.rs"]
mod support;
mod tokens;
