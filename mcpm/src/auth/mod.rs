//! Who is asking.
//!
//! [`incoming`] finds out who calls the proxy; [`http`] is the client that identity providers are asked with.

pub(crate) mod http;
pub mod incoming;
