//! Authentication of callers, and token exchange.
//!
//! [`incoming`] verifies the tokens of callers, [`exchange`] obtains the tokens that are sent to the server,
//! [`guarded_client`] is the HTTP client for identity providers, and [`token_cache`] caches their responses.

pub mod exchange;
pub(crate) mod guarded_client;
pub mod incoming;
mod token_cache;
