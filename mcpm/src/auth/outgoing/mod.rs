//! Authenticates mcpm to a remote server, with a bearer token or a login at its authorization server (OAuth 2.1; MCP
//! 2026-07-28, authorization).
//!
//! [`OutgoingSpec`] is the configuration. [`OutgoingAuth`] holds the current token for one server and renews it;
//! `login` performs one login, and `kept_login` stores it in the secret store.

#[cfg(feature = "login")]
mod callback;
#[cfg(feature = "login")]
mod challenge;
#[cfg(feature = "login")]
mod device;
#[cfg(feature = "login")]
mod discovery;
#[cfg(feature = "login")]
mod kept_login;
#[cfg(feature = "login")]
mod login;
#[cfg(feature = "login")]
mod login_and_logout;
#[cfg(feature = "login")]
mod login_persistence;
#[cfg(feature = "login")]
mod oauth_client;
#[cfg(feature = "login")]
mod probe;
#[cfg(feature = "login")]
mod registration;
#[cfg(feature = "login")]
mod revocation;
mod spec;
#[cfg_attr(not(feature = "login"), path = "off.rs")]
mod token_renewal;
#[cfg(feature = "login")]
mod token_state;
mod unavailable;

pub(crate) use spec::LOGIN_OPTIONS;
pub use spec::{OutgoingSecrets, OutgoingSpec};
pub(crate) use token_renewal::OutgoingAuth;
pub(crate) use unavailable::TokenUnavailable;
