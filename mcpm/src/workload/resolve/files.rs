//! Reads the files that the options of a workload name.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use super::env_file;
use crate::{
    Environment, Error, Result,
    audit::AuditOwner,
    image::verify::{PublicKey, TrustedRoot},
    options::{SharedOptions, WorkloadOptions},
    package::certificates::Certificates,
    permission::Profile,
    proxy::ProxySpec,
    transport::tls::TrustStore,
};

/// The content of the files that the options name, as it was when the workload was built.
///
/// Each file is read once, so a file that changes later cannot change what was checked. If a file cannot be read or
/// used, the step that needs it fails: not every kind of server needs every file, and the kind may only be known after
/// the lookup in the registry.
pub(in crate::workload) struct OptionFiles {
    proxy: Result<ProxySpec>,
    trust_store: Result<TrustStore>,
    profile: Result<Option<Profile>>,
    variables: Result<BTreeMap<String, String>>,
    ca_cert: Result<Option<Certificates>>,
    verification_key: Result<Option<PublicKey>>,
    trusted_root: Result<Option<TrustedRoot>>,
}

impl OptionFiles {
    /// Reads each file.
    pub(super) fn load(options: &WorkloadOptions, environment: &Environment) -> Self {
        let working_dir = &environment.working_dir;
        let absolute = |path: &Option<PathBuf>| path.as_ref().map(|path| working_dir.join(path));
        let trust_store = TrustStore::with_bundle(absolute(&options.mcpm_ca_bundle).as_deref());
        let profile = options.permission_profile.as_ref();
        Self {
            proxy: load_proxy(options, &trust_store, environment),
            trust_store,
            profile: profile.map(|profile| Profile::load(profile, working_dir)).transpose(),
            variables: load_variables(absolute(&options.env_file), absolute(&options.env_file_dir)),
            ca_cert: absolute(&options.ca_cert).as_deref().map(Certificates::read).transpose(),
            verification_key: absolute(&options.image_verification_key)
                .as_deref()
                .map(PublicKey::read)
                .transpose(),
            trusted_root: absolute(&options.sigstore_trusted_root)
                .as_deref()
                .map(TrustedRoot::read)
                .transpose(),
        }
    }

    /// Returns the proxy with the content of its files, checked, before it has a name and a port.
    pub(super) fn proxy(&self) -> Result<&ProxySpec> {
        loaded(&self.proxy)
    }

    /// Returns the authorities that mcpm's own requests trust.
    pub(super) fn trust_store(&self) -> Result<&TrustStore> {
        loaded(&self.trust_store)
    }

    /// Returns the permission profile, if one was given.
    pub(super) fn profile(&self) -> Result<Option<&Profile>> {
        loaded(&self.profile).map(Option::as_ref)
    }

    /// Returns the variables of the environment files.
    pub(super) fn variables(&self) -> Result<&BTreeMap<String, String>> {
        loaded(&self.variables)
    }

    /// Returns the certificate authorities that the server trusts, if any were given.
    pub(super) fn ca_cert(&self) -> Result<Option<&Certificates>> {
        loaded(&self.ca_cert).map(Option::as_ref)
    }

    /// Returns the key that image signatures are verified with, if one was given.
    pub(super) fn verification_key(&self) -> Result<Option<&PublicKey>> {
        loaded(&self.verification_key).map(Option::as_ref)
    }

    /// Returns the Sigstore trusted root, if one was given.
    pub(super) fn trusted_root(&self) -> Result<Option<&TrustedRoot>> {
        loaded(&self.trusted_root).map(Option::as_ref)
    }
}

impl fmt::Debug for OptionFiles {
    /// Shows no content, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OptionFiles").finish_non_exhaustive()
    }
}

fn loaded<T>(file: &Result<T>) -> Result<&T> {
    file.as_ref().map_err(Error::clone)
}

fn load_proxy(
    options: &WorkloadOptions,
    trust_store: &Result<TrustStore>,
    environment: &Environment,
) -> Result<ProxySpec> {
    let (options, working_dir) = (SharedOptions::from(options), &environment.working_dir);
    // The name of the workload is not known yet, and nothing that is read here depends on it.
    let (spec, secrets) =
        ProxySpec::read(&options, "", working_dir, AuditOwner::Workload, Some(environment))?;
    loaded(trust_store)?;
    spec.check(&secrets)?;
    Ok(spec)
}

/// Reads the variables of a file and of a folder of files; the folder takes precedence.
fn load_variables(file: Option<PathBuf>, folder: Option<PathBuf>) -> Result<BTreeMap<String, String>> {
    let mut variables = match file {
        Some(path) => env_file::read(&path)?,
        None => BTreeMap::new(),
    };
    if let Some(path) = folder {
        variables.extend(env_file::read_folder(&path)?);
    }
    Ok(variables)
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
