//! Stub for builds without the Cargo feature `clients`: configuration files of clients are neither read nor changed.

mod types;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

pub use types::{
    ClientEntry, ClientStatus, ClientTarget, EntryOptions, EntryState, ImportCandidate, ImportedEntry,
    ImportedServer, WrittenEntry,
};

use crate::{Environment, Feature, Result, options::Secret};

/// The MCP clients of this machine.
#[derive(Debug, Clone)]
pub struct Clients;

impl Clients {
    /// Does nothing in this build.
    pub fn new(_environment: Environment) -> Self {
        Self
    }

    /// Returns none in this build.
    pub fn names() -> Vec<&'static str> {
        Vec::new()
    }

    /// Does nothing in this build.
    #[must_use]
    pub fn program(self, _path: impl Into<PathBuf>) -> Self {
        self
    }

    /// Fails in this build.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn status(&self) -> Result<Vec<ClientStatus>> {
        Err(missing())
    }

    /// Fails in this build.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn entries(&self) -> Result<Vec<ClientEntry>> {
        Err(missing())
    }

    /// Fails in this build.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn check(&self, _client: &str, _workload: Option<&str>, _options: &EntryOptions) -> Result<()> {
        Err(missing())
    }

    /// Fails in this build.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn add(
        &self,
        _client: &str,
        _target: &ClientTarget,
        _options: &EntryOptions,
    ) -> Result<WrittenEntry> {
        Err(missing())
    }

    /// Fails in this build.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn remove(&self, _client: &str, _workload: &str, _project: Option<&Path>) -> Result<PathBuf> {
        Err(missing())
    }

    /// Fails in this build.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn import_candidates(&self, _client: &str, _project: Option<&Path>) -> Result<Vec<ImportCandidate>> {
        Err(missing())
    }

    /// Fails in this build.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn take_over(
        &self,
        _client: &str,
        _entry: &str,
        _server: &ImportedServer,
        _target: &ClientTarget,
        _project: Option<&Path>,
    ) -> Result<WrittenEntry> {
        Err(missing())
    }

    /// Fails in this build.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn imported(&self, _client: &str, _project: Option<&Path>) -> Result<Vec<ImportedEntry>> {
        Err(missing())
    }

    /// Fails in this build.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn put_back(
        &self,
        _client: &str,
        _workload: &str,
        _secrets: &BTreeMap<String, Secret>,
        _project: Option<&Path>,
    ) -> Result<PathBuf> {
        Err(missing())
    }

    /// Does nothing in this build.
    pub(crate) fn remove_workload(&self, _workload: &str) {}

    /// Does nothing in this build.
    pub(crate) fn update_url(&self, _workload: &str, _url: &str) {}
}

fn missing() -> crate::Error {
    Feature::Clients.missing("the configuration of clients")
}
