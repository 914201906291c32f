//! The layers of the proxy, one file each; [`stack`](super::stack) defines their order.

mod annotations;
pub(crate) mod authenticate;
pub(crate) mod authorize;
mod authorizer_cache;
pub(crate) mod body_limit;
pub(crate) mod cors;
pub(crate) mod endpoint_guard;
pub(crate) mod health;
pub(crate) mod methods;
pub(crate) mod metrics;
pub(crate) mod origin;
pub(crate) mod parse;
#[cfg(test)]
mod policy_tests;
pub(crate) mod session_owner;
pub(crate) mod token_exchange;
pub(crate) mod tools;
pub(crate) mod well_known;
