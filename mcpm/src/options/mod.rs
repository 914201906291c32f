//! The options of a workload and of a proxy.
//!
//! `table` declares each option once: name, type, default and help. The macro in `macros` turns the table
//! into the option structs, the builders' setters and a list of [`OptionSpec`], from which the command line,
//! the C, Python and Swift surfaces and the reference pages are made. Options say what was asked and do no
//! I/O; what will be done is decided by the workload and proxy modules.

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
    ImageVerification, OtlpProtocol, PermissionProfile, Protocol, ProxyMode, Relabel, RuntimeChoice,
    SubjectTokenType, Transport,
};
pub use value::{ErasedSlot, List, OptionValue, Slot, ValueKind, Word};
pub use volume::VolumeSpec;

#[cfg(test)]
mod options_tests;
#[cfg(test)]
mod values_tests;
