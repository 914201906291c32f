//! Incoming authentication: who calls the proxy, as their token says.

mod principal;

pub use principal::Principal;
