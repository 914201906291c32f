//! The values that a registry entry supplies to a workload.

use std::collections::BTreeMap;

use crate::{
    options::{Secret, WorkloadOptions},
    registry::RunMethod,
    workload::spec::ValueOrigin,
};

/// What an entry supplies to a workload.
#[derive(Debug, Clone, Default)]
pub(in crate::workload) struct RegistryValues {
    /// The way that was chosen.
    pub(in crate::workload) run_method: RunMethod,
    /// The options that the entry sets, as far as they were not given.
    pub(in crate::workload) options: WorkloadOptions,
    /// Variables by name.
    pub(in crate::workload) env: BTreeMap<String, (String, ValueOrigin)>,
    /// Headers of each request to a remote server, by name.
    pub(in crate::workload) headers: BTreeMap<String, (String, ValueOrigin)>,
    /// Variables or headers that the user typed as secrets.
    pub(in crate::workload) secrets: BTreeMap<String, Secret>,
    /// What would be asked for, in a plan.
    pub(in crate::workload) prompts: Vec<String>,
    /// Whether the user has confirmed what the permissions of the entry open of this machine.
    pub(super) confirmed: bool,
}

impl RegistryValues {
    /// The permissions of the entry, and whether the user has confirmed what they open of this machine.
    pub(in crate::workload) fn permissions_and_consent(&self) -> Option<(&serde_json::Value, bool)> {
        self.run_method.permissions.as_ref().map(|permissions| (permissions, self.confirmed))
    }
}
