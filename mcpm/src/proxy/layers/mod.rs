//! The layers of the proxy, one file each; [`stack`](super::stack) knows their order.

pub(crate) mod authenticate;
pub(crate) mod body_limit;
pub(crate) mod health;
pub(crate) mod origin;
#[cfg_attr(not(test), expect(dead_code, reason = "the layers that look into messages come next"))]
pub(crate) mod parse;
pub(crate) mod recover;
pub(crate) mod session_owner;
pub(crate) mod well_known;
