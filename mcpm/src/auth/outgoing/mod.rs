//! Authentication to a remote server: a bearer token, or a login at its authorization server (OAuth 2.1; MCP
//! 2026-07-28, authorization).
//!
//! [`OutgoingSpec`] is the configuration. [`OutgoingAuth`](session::OutgoingAuth) has the current token of one server
//! and renews it; `login` runs one login, `kept_login` keeps it in the secret store.

mod callback;
mod challenge;
mod device;
mod discovery;
mod kept_login;
mod login;
mod oauth_client;
mod probe;
mod registration;
mod renewal;
mod revocation;
mod session;
mod session_login;
mod session_store;
mod spec;

pub(crate) use renewal::TokenUnavailable;
pub(crate) use session::OutgoingAuth;
pub(crate) use spec::LOGIN_OPTIONS;
pub use spec::{OutgoingSecrets, OutgoingSpec};
