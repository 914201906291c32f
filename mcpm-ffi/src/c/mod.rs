//! Implements the C bindings: opaque builders and handles, one setter per option, and status codes.
//!
//! The header `bindings/c/include/mcpm.h` is generated from these sources, and documents their conventions.
#![expect(unsafe_code, reason = "C calls through raw pointers and by exported names")]
#![expect(clippy::missing_safety_doc, reason = "the conventions in the header hold for every function")]

mod builder;
mod callback;
mod connection;
mod error;
mod event;
mod explanation;
mod handle;
mod operation;
mod phase;
mod prompt;
mod proxy;
mod record;
// Generated and formatted by a test.
#[rustfmt::skip]
mod setters;
mod shutdown;
mod workload;
mod workloads;

pub use callback::CFreeUserData;
pub use connection::*;
pub use error::*;
pub use event::{CEventKind, COnEvent};
pub use explanation::*;
pub use operation::{COnEnd, COperation, mcpm_operation_cancel, mcpm_operation_free};
pub use phase::*;
pub use prompt::*;
pub use proxy::*;
pub use record::*;
pub use setters::*;
pub use shutdown::*;
pub use workload::*;
pub use workloads::*;

#[cfg(test)]
mod c_tests;
