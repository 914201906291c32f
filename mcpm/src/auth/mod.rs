//! Who is asking.
//!
//! [`incoming`] finds out who calls the proxy, [`exchange`] gets the token that the server behind takes in place of
//! theirs. [`http`] is the client that identity providers are asked with, [`answers`] keeps what they say of tokens.

pub mod exchange;
pub(crate) mod guarded_client;
pub mod incoming;
mod token_cache;
