//! The layers of the proxy, one file each; [`stack`](super::stack) knows their order.

pub(crate) mod body_limit;
pub(crate) mod health;
pub(crate) mod origin;
pub(crate) mod recover;
