//! Serves an HTTP server on standard input and output, for clients that only start commands.
//!
//! This is the opposite of [`StdioProxy`](crate::proxy::StdioProxy), which serves a stdio server over HTTP. Each
//! message of the input is sent unchanged in a POST of its own. Each message of the server is written on one line; line
//! breaks in it are replaced by spaces.
//!
//! [`dispatch`] reads the input. [`streamable`] implements the streamable HTTP transport in both eras, and [`sse`] the
//! deprecated transport. [`session`] stores the session of the older era, which may have to be reopened.
//! [`connection`] uses the same code to connect a program to a proxy in its own process.

mod builder;
mod client;
mod connection;
mod dispatch;
mod event_stream;
mod failure;
mod in_flight;
mod output;
mod session;
mod session_stream;
mod sse;
mod stateless_headers;
mod streamable;
mod tools;

pub use builder::{StdioBridge, StdioBridgeBuilder};
pub use connection::{ConnectOptions, Connection};
