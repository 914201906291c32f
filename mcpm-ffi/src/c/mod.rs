//! The C face: opaque builders and handles, one setter per option, status codes. `bindings/c/include/mcpm.h` is made from it and
//! holds the conventions.
#![expect(unsafe_code, reason = "C calls through raw pointers and by exported names")]
#![expect(clippy::missing_safety_doc, reason = "the conventions in the header hold for every function")]

mod builder;
mod error;
mod explanation;
mod handle;
mod phase;
mod proxy;
// Made by a test, which lays it out.
#[rustfmt::skip]
mod setters;
mod shutdown;
mod workload;

pub use error::*;
pub use explanation::*;
pub use phase::*;
pub use proxy::*;
pub use setters::*;
pub use shutdown::*;
pub use workload::*;

#[cfg(test)]
mod c_tests;
