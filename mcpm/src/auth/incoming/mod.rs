//! Incoming authentication: who calls the proxy, as their token says.
//!
//! [`spec`] is what the options say, [`oidc`] decides which way a token is checked: with the issuer's keys ([`jwt`]
//! and [`jwks`], found by [`metadata`], fetched by [`source`]) or by asking ([`introspection`]). [`checked`] remembers whose signature was checked. What comes of it is
//! a [`Principal`], or a [`Refusal`]. What HTTP makes of these is for the layers of the proxy.

mod checked;
mod claims;
mod introspection;
mod jwks;
mod jwt;
mod kept;
mod metadata;
mod oidc;
mod principal;
mod refusal;
mod source;
mod spec;

pub(crate) use oidc::Incoming;
pub use principal::Principal;
pub(crate) use refusal::Refusal;
pub use spec::IncomingSpec;
pub(crate) use spec::{FURTHER, SOURCES, is_scope};

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
