//! Authentication to a remote server: a bearer token, or a login at its authorization server (OAuth 2.1; MCP
//! 2026-07-28, authorization).
//!
//! [`OutgoingSpec`] is the configuration. [`OutgoingAuth`](session::OutgoingAuth) has the current token of one server
//! and renews it; `login` runs one login, `kept_login` keeps it in the secret store.

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
mod oauth_client;
#[cfg(feature = "login")]
mod probe;
#[cfg(feature = "login")]
mod registration;
#[cfg(feature = "login")]
mod renewal;
#[cfg(feature = "login")]
mod revocation;
#[cfg_attr(not(feature = "login"), path = "session_off.rs")]
mod session;
#[cfg(feature = "login")]
mod session_login;
#[cfg(feature = "login")]
mod session_store;
mod spec;
mod unavailable;

pub(crate) use session::OutgoingAuth;
pub(crate) use spec::LOGIN_OPTIONS;
pub use spec::{OutgoingSecrets, OutgoingSpec};
pub(crate) use unavailable::TokenUnavailable;
