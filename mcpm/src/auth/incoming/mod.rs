//! Incoming authentication: who calls the proxy, as their token says.
//!
//! [`spec`] is what the options say, [`oidc`] decides which way a token is checked: with the issuer's keys ([`jwt`]
//! and [`jwks`], found by [`metadata`], fetched by [`source`]) or by asking ([`introspection`]). [`checked`] remembers whose signature was checked. What comes of it is
//! a [`Principal`], or a [`Refusal`]. What HTTP makes of these is for the layers of the proxy.

mod claims;
mod introspection;
mod jwks;
mod jwt;
mod metadata;
mod principal;
mod provider_client;
mod refreshing;
mod spec;
mod token_error;
mod token_verifier;
mod verified_tokens;

pub use principal::Principal;
pub use spec::IncomingSpec;
pub(crate) use spec::{DEPENDENT_OPTIONS, ENABLING_OPTIONS, is_scope};
pub(crate) use token_error::TokenError;
pub(crate) use token_verifier::TokenVerifier;

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
