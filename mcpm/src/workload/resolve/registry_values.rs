//! Defines the values that a registry entry or a bundle supplies to a workload.

use std::collections::BTreeMap;

use crate::{
    options::{Secret, WorkloadOptions},
    registry::RunMethod,
    workload::spec::{SecretFormat, ValueOrigin},
};

/// The values of an entry.
#[derive(Debug, Clone, Default)]
pub(in crate::workload) struct RegistryValues {
    /// The selected run method.
    pub(in crate::workload) run_method: RunMethod,
    /// The options that the entry sets and that were not given.
    pub(in crate::workload) options: WorkloadOptions,
    /// Variables by name.
    pub(in crate::workload) env: BTreeMap<String, (String, ValueOrigin)>,
    /// Headers of each request to a remote server, by name.
    pub(in crate::workload) headers: BTreeMap<String, (String, ValueOrigin)>,
    /// Variables or headers that the user typed as secrets.
    pub(in crate::workload) secrets: BTreeMap<String, Secret>,
    /// How variables contain their secrets, by the variable.
    pub(in crate::workload) secret_formats: BTreeMap<String, SecretFormat>,
    /// The values that the user would be prompted for; only set in a plan.
    pub(in crate::workload) prompts: Vec<String>,
    /// Whether the user has confirmed the access to this machine that the entry requests.
    pub(super) confirmed: bool,
}

impl RegistryValues {
    /// Returns the permissions of the entry, and whether the user has confirmed the access that they request.
    pub(in crate::workload) fn permissions_and_consent(&self) -> Option<(&serde_json::Value, bool)> {
        self.run_method.permissions.as_ref().map(|permissions| (permissions, self.confirmed))
    }
}
