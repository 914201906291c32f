//! The layers of the proxy, except those in [`observe`](super::observe). [`stack`](super::stack) defines their order.

#[cfg(feature = "policy")]
mod annotations;
pub(crate) mod authenticate;
#[cfg_attr(not(feature = "policy"), path = "authorize_off.rs")]
pub(crate) mod authorize;
pub(crate) mod body_limit;
pub(crate) mod cors;
pub(crate) mod endpoint_guard;
pub(crate) mod health;
pub(crate) mod methods;
pub(crate) mod metrics_endpoint;
pub(crate) mod origin;
pub(crate) mod parse;
#[cfg(test)]
#[cfg(feature = "policy")]
mod policy_tests;
pub(crate) mod session_owner;
pub(crate) mod token_exchange;
pub(crate) mod tools;
pub(crate) mod well_known;
