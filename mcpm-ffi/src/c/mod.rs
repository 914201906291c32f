//! The C bindings: opaque builders and handles, one setter per option, status codes. `bindings/c/include/mcpm.h`
//! is generated from them and documents the conventions.
#![expect(unsafe_code, reason = "C calls through raw pointers and by exported names")]
#![expect(clippy::missing_safety_doc, reason = "the conventions in the header hold for every function")]

mod builder;
mod error;
mod explanation;
mod handle;
mod phase;
mod prompt;
mod proxy;
// Generated and formatted by a test.
#[rustfmt::skip]
mod setters;
mod shutdown;
mod workload;

pub use error::*;
pub use explanation::*;
pub use phase::*;
pub use prompt::*;
pub use proxy::*;
pub use setters::*;
pub use shutdown::*;
pub use workload::*;

#[cfg(test)]
mod c_tests;
