//! Defines the options of workloads and proxies.
//!
//! `table` declares the options: name, type, default and help. The macros in `macros` generate the option structs, the
//! builders' setters and a list of [`OptionSpec`], from which the command line, the C, Python and Swift bindings and
//! the reference pages are generated. This module only parses and checks the user's input, without I/O; the workload
//! and proxy modules resolve the options.

#[macro_use]
mod macros;
mod header;
mod json;
mod pair;
mod publish;
mod secret;
mod set;
mod spec;
mod table;
mod types;
mod value;
mod volume;

pub use header::{Header, HeaderSecret};
pub use pair::{Attributes, EnvVar, KeyValue};
pub use publish::PublishSpec;
pub use secret::{Secret, SecretRef, SecretTarget};
pub use set::OptionSet;
pub use spec::{ArgumentPosition, Arity, OptionSpec, Required};
pub(crate) use table::SharedOptions;
pub use table::{ProxyOptions, WorkloadOptions};
pub use types::{
    ImageVerification, OtlpProtocol, PermissionProfile, Protocol, ProxyMode, Relabel, RestartMode,
    RuntimeChoice, SubjectTokenType, Transport,
};
pub use value::{ErasedSlot, List, OptionValue, Slot, ValueKind, Word};
pub use volume::VolumeSpec;

#[cfg(test)]
mod options_tests;
#[cfg(test)]
mod values_tests;
