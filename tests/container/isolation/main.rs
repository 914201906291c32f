//! Isolated servers, with a real engine.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod afar;
mod guards;
mod left_behind;
mod place;
mod reach;
mod server;
