//! Runs MCP servers as container workloads, and puts an HTTP proxy in front of each server.
//!
//! A **workload** is an MCP server in a container, or a remote MCP server, together with a proxy that authenticates and
//! authorizes callers, and records and measures their requests. The proxy is also available without a workload.
//!
//! # First steps
//!
//! [`Workload::builder`] takes the name of a server in the registry, an image, a package (`uvx://`, `npx://`, `go://`
//! or `mcpb://`), a local path, or a URL. Each option of `mcpm run` that configures the workload is a method of the
//! builder; [`WorkloadBuilder::set`] sets an option by name.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! # async fn run() -> mcpm::Result<()> {
//! let workload = mcpm::Workload::builder("ghcr.io/example/server:1").name("example").build()?;
//! let mut events = workload.events();
//! let running = workload.start().await?;
//! println!("{} serves {}", running.url(), running.name());
//! while let Some(event) = events.next().await {
//!     println!("{event:?}");
//! }
//! running.stop(Duration::from_secs(10)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Proxy::builder`] puts the proxy in front of an HTTP server that somebody else runs, and
//! [`StdioProxy`](proxy::StdioProxy) in front of any stdio server, for example a local process:
//!
//! ```no_run
//! # async fn run() -> mcpm::Result<()> {
//! let proxy = mcpm::Proxy::builder("example", "https://mcp.example.com/mcp").port(8080_u16).build()?;
//! let running = proxy.start().await?;
//! running.wait().await;
//! # Ok(())
//! # }
//! ```
//!
//! A program that is the only client needs no port. [`RunningWorkload::connect`] and [`RunningProxy::connect`] return a
//! byte stream with one JSON-RPC message per line, which MCP clients for stdio servers accept. Requests on this stream
//! pass all layers of the proxy. With `in_process_only`, the proxy has no port:
//!
//! ```no_run
//! # async fn run() -> mcpm::Result<()> {
//! let workload = mcpm::Workload::builder("ghcr.io/example/server:1").in_process_only().build()?;
//! let running = workload.start().await?;
//! let (input, output) = tokio::io::split(running.connect()?);
//! # Ok(())
//! # }
//! ```
//!
//! [`StdioBridge`] serves an HTTP server on standard input and output, for clients that support only stdio servers.
//!
//! [`Workload::plan`] returns what a start would do, without starting anything. [`Workloads`](workload::Workloads)
//! lists, stops and removes workloads, including workloads that the command line has started. [`explain()`] explains a
//! denial by its id.
//!
//! # Runtime and threads
//!
//! Async functions need a tokio runtime with I/O and time enabled, current-thread or multi-thread. Proxies and their
//! background tasks are spawned on the runtime that `start` is called on, and end when that runtime is dropped;
//! [`RunningProxy::status`] then returns `Stopped`. Blocking work runs on tokio's blocking threads; dedicated threads
//! write audit logs and recent denials, and export telemetry. The library installs no signal handlers.
//!
//! # Dropping handles
//!
//! - A start that is cancelled or fails is rolled back.
//! - Dropping a [`RunningWorkload`] kills its containers, and blocks until the engine has done so; prefer
//!   [`RunningWorkload::stop`], which gives the server time to exit. The record and the stopped container remain until
//!   [`Workloads::remove`](workload::Workloads::remove) is called. [`RunningWorkload::detach`] lets the workload run
//!   without its handle; its proxy then runs until the process ends.
//! - Dropping a [`RunningProxy`] stops it.
//!
//! # Environment, secrets
//!
//! By default, a workload gets the environment of [`Environment::from_process`], which reads environment variables. To
//! set folders, the engine, secret stores and prompts yourself, fill in an [`Environment`]. A [`Proxy`] has no
//! environment by default. No other code of the library reads environment variables, but some dependencies do: the HTTP
//! client for registries, identity providers and telemetry collectors uses `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`,
//! TLS on Linux uses `SSL_CERT_FILE` and `SSL_CERT_DIR`, and the OpenTelemetry SDK reads limits, such as
//! `OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT`.
//!
//! Options contain references to secrets ([`SecretRef`](options::SecretRef)). At each start, the values of the secrets
//! are read from a [`SecretStore`](secrets::SecretStore): an encrypted file, the desktop's keyring, a program,
//! environment variables, or a store of your own. `Debug` does not print values ([`Secret`](options::Secret)), values
//! are not serialized, and known values are redacted in denials and audit logs.
//!
//! # Cargo features
//!
//! All features are on by default, except `clients`, `keyring` and `mcp-client`. Without any feature, the library runs
//! proxies, with the tool filter, authentication and the audit log, and workloads of remote servers that need neither a
//! login nor a bearer token. Both `builtin` and `docker` also include image builds for packages, and ignore files. An
//! option whose feature is off is rejected with [`ErrorKind::Unsupported`].
//!
//! - `builtin`: containers and images without an engine, on Linux
//! - `clients`: entries of workloads in the configuration files of MCP clients
//! - `mcp-client`: a client of MCP servers, in the module `mcp_client`
//! - `docker`: containers with Docker or Podman
//! - `login`: logins to remote servers, and bearer tokens for them
//! - `policy`: authorization by Cedar policies
//! - `secrets`: the encrypted file as a store of secrets
//! - `keyring`: the desktop's keyring as a store of secrets
//! - `telemetry`: traces and metrics
//! - `verify`: verification of image signatures
//!
//! # Errors, events, logs
//!
//! All functions that can fail return [`Error`], whose [`ErrorKind`] is stable; the message names the input, and
//! [`Error::next_step`] returns what to do next, if that is known. [`WorkloadEvent`](workload::WorkloadEvent)s report
//! progress, warnings, restarts and the end of a workload, among other things; a subscriber that is more than 256
//! events behind loses the oldest. The library logs with `tracing` and installs no subscriber. The target of a log
//! event is the path of its module; audit events for the sink `log` have the target `mcpm::audit`.

#![forbid(unsafe_code)]

extern crate alloc;

#[cfg(test)]
mod architecture_tests;
pub mod audit;
pub mod auth;
mod blocking;
#[cfg_attr(not(feature = "clients"), path = "clients/off.rs")]
pub mod clients;
mod config_file;
mod docker_config;
pub mod environment;
pub mod error;
pub mod explain;
mod features;
mod fnv1a;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;
mod http_client;
pub mod image;
pub mod isolation;
#[cfg(test)]
mod limits_tests;
mod line_writer;
mod mcp;
#[cfg(feature = "mcp-client")]
pub mod mcp_client;
mod memory;
mod name;
pub mod options;
pub mod package;
pub mod permission;
mod platform;
pub mod policy;
mod printable;
pub mod proxy;
mod random;
mod rate_limit;
mod redact;
pub mod registry;
pub mod runtime;
pub mod secrets;
mod similar;
pub mod state;
pub mod stdio;
pub mod stdio_bridge;
#[cfg_attr(not(feature = "telemetry"), path = "telemetry/off.rs")]
pub mod telemetry;
#[cfg(test)]
mod testing;
mod timers;
pub mod transport;
pub mod tunnel;
pub mod user_prompt;
#[cfg(test)]
mod wording_tests;
pub mod workload;

pub use environment::Environment;
pub use error::{Error, ErrorKind, Result};
pub use explain::{Explanation, explain};
pub use features::Feature;
pub use proxy::{Proxy, ProxyBuilder, RunningProxy};
pub use stdio_bridge::{ConnectOptions, Connection, StdioBridge};
pub use workload::{RunningWorkload, Workload, WorkloadBuilder};

/// Compiles the Rust example of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
