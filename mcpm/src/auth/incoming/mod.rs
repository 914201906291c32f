//! Verifies the tokens of callers (incoming authentication).
//!
//! [`spec`] is the configuration. [`token_verifier`] verifies a token with the issuer's keys ([`jwt`] and [`jwks`],
//! located by [`metadata`], fetched by [`provider_client`]) or by [`introspection`]. [`verified_tokens`] caches the
//! tokens that were verified with keys; [`introspection`] has its own cache. The result is a [`Principal`] or a
//! [`TokenError`]; the proxy's layers map the error to an HTTP response.

mod claims;
mod introspection;
mod jwks;
mod jwt;
mod metadata;
mod principal;
mod principal_cache;
mod provider_client;
mod refreshing;
mod spec;
mod token_error;
mod token_file;
mod token_verifier;
mod verified_tokens;

pub use principal::Principal;
pub(crate) use principal_cache::PrincipalCache;
pub use spec::IncomingSpec;
pub(crate) use spec::{DEPENDENT_OPTIONS, ENABLING_OPTIONS, is_scope};
pub(crate) use token_error::TokenError;
pub(crate) use token_verifier::TokenVerifier;

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
