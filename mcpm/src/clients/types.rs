//! Defines the types that describe clients and their entries.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Serialize;

use crate::options::{ProxyMode, Secret};

/// A workload, with what an entry says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientTarget {
    /// Its name, which becomes the name of the entry.
    pub name: String,
    /// Its URL.
    pub url: String,
    /// The transport of its proxy. Entries of workloads with SSE are commands.
    pub transport: ProxyMode,
    /// Whether callers need a token.
    pub requires_login: bool,
}

/// Which entry to write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryOptions {
    /// The folder of the project whose configuration is written; that of the user by default.
    pub project: Option<PathBuf>,
    /// The environment variable from which the client reads a bearer token. The entry contains its name only.
    pub token_variable: Option<String>,
}

/// A client and the workloads in its configuration.
#[derive(Debug, Clone, Serialize)]
pub struct ClientStatus {
    /// Its name on the command line.
    pub client: &'static str,
    /// The name of the product.
    pub name: &'static str,
    /// Whether its folder or its program was found.
    pub installed: bool,
    /// The user's configuration file, which need not exist.
    pub file: Option<PathBuf>,
    /// The workloads that mcpm has entered, for the user or for a project.
    pub workloads: Vec<String>,
    /// Why the file cannot be edited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// An entry that mcpm has written.
#[derive(Debug, Clone, Serialize)]
pub struct ClientEntry {
    /// The name of the workload and of the entry.
    pub workload: String,
    /// The client's name on the command line.
    pub client: &'static str,
    /// The file that contains it.
    pub file: PathBuf,
    /// The folder of the project, for an entry that is not the user's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Its URL; `None` for a command.
    pub url: Option<String>,
    /// Whether the file still contains it.
    pub state: EntryState,
}

/// Whether a file contains an entry as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryState {
    /// The file contains it.
    Present,
    /// Its URL or its command was changed by somebody else.
    Changed,
    /// Somebody else has removed it.
    Missing,
    /// The file cannot be read.
    Unreadable,
}

impl EntryState {
    /// Returns the name, as printed in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Changed => "changed",
            Self::Missing => "missing",
            Self::Unreadable => "unreadable",
        }
    }
}

/// The result of writing an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WrittenEntry {
    /// The name of the workload and of the entry.
    pub workload: String,
    /// The client's name on the command line.
    pub client: &'static str,
    /// The name of the product.
    pub name: &'static str,
    /// The file.
    pub file: PathBuf,
    /// The copy of the file that was made before its first change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<PathBuf>,
    /// Notes on what the user has to know or do.
    pub notes: Vec<String>,
}

/// An entry of a client that mcpm has not written.
#[derive(Debug, Clone)]
pub struct ImportCandidate {
    /// The name of the entry.
    pub entry: String,
    /// The workload that can replace it, or why none can.
    pub server: Result<ImportedServer, String>,
}

/// A workload that can replace an entry.
#[derive(Debug, Clone)]
pub struct ImportedServer {
    /// The name of the workload.
    pub name: String,
    /// Options of `mcpm run` and their values, with references to the secrets.
    pub options: Vec<(&'static str, String)>,
    /// Values to store, by the names of the secrets.
    pub secrets: BTreeMap<String, Secret>,
    /// The entry as it was read, in JSON. An entry that differs from it is not replaced.
    pub original: Secret,
}

/// An entry that was replaced by that of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportedEntry {
    /// The name of the workload.
    pub workload: String,
    /// The name of the entry.
    pub entry: String,
    /// The names of the secrets that were stored.
    pub secrets: Vec<String>,
}
