//! Who is asking.
//!
//! [`incoming`] finds out who calls the proxy.

pub mod incoming;
