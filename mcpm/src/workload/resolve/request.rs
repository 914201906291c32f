//! Defines the request to run a workload: the given options, the options of the exported file, and the content of the
//! files that the options name.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    files::OptionFiles,
    registry_values::RegistryValues,
    source::{self, ServerSource},
};
use crate::{
    Environment, Error, ErrorKind, Result,
    options::{EnvVar, OptionSet as _, PermissionProfile, Secret, SecretRef, VolumeSpec, WorkloadOptions},
    package::bundle::Bundle,
    redact::url::redact_url_text,
    workload::{ValueOrigin, WorkloadName, export, spec::SecretFormat},
};

/// A request for a workload.
#[derive(Debug, Clone)]
pub(in crate::workload) struct WorkloadRequest {
    /// The given options, including those of the exported file.
    pub(in crate::workload) options: WorkloadOptions,
    /// The content of the files that they name.
    pub(in crate::workload) files: Arc<OptionFiles>,
    pub(in crate::workload) source: ServerSource,
    name: WorkloadName,
    /// Whether the name was generated, and may get a suffix.
    pub(in crate::workload) name_is_generated: bool,
    from_file: bool,
    /// The options that were given in addition to the exported file.
    given_beside_file: Vec<&'static str>,
    /// The values of the registry entry, after the lookup.
    pub(in crate::workload) registry_values: Option<Box<RegistryValues>>,
    /// The open bundle, once its values are resolved, so that the image is built from the same file.
    pub(in crate::workload) bundle: Option<Arc<Bundle>>,
    /// Whether the server is a plain name that is taken for an image because the registry lacks it.
    pub(in crate::workload) is_in_no_registry: bool,
    /// Variables that the user was prompted for, except secrets.
    pub(in crate::workload) prompted_env: Vec<EnvVar>,
    /// Notices about the exported file.
    pub(in crate::workload) notices: Vec<String>,
}

impl WorkloadRequest {
    /// Checks the options, and reads the exported file and the files that the options name.
    pub(in crate::workload) fn load(options: WorkloadOptions, environment: &Environment) -> Result<Self> {
        options.check()?;
        let from_file = options.from_config.is_some();
        let (mut notices, mut beside_file) = (Vec::new(), Vec::new());
        let mut options = match &options.from_config {
            Some(path) => {
                let imported = export::read(path)?;
                notices = imported.notices;
                let exported = imported.options;
                exported.check().map_err(|error| error.with("file", path.display()))?;
                beside_file = options.given().collect();
                WorkloadOptions { from_config: None, ..options }.or(exported)
            }
            None => options,
        };
        let Some(server) = options.server.as_deref() else {
            return Err(Error::new(ErrorKind::InvalidOption, "no server is specified"));
        };
        let source = source::classify_given(server, &environment.working_dir)?;
        if options.registry.is_some() && !matches!(source, ServerSource::Named { .. }) {
            let message =
                format!("`registry` is for server names, but `{}` is not one", redact_url_text(server));
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        if let ServerSource::Package(package) = &source {
            // With an absolute path, the project is the same in every working folder.
            options.server = Some(package.to_string());
        }
        let (name, name_is_generated) = match &options.name {
            Some(name) => (name.parse()?, false),
            None => (source.workload_name(), true),
        };
        let files = Arc::new(OptionFiles::load(&options, environment));
        Ok(Self {
            options,
            files,
            source,
            name,
            name_is_generated,
            from_file,
            given_beside_file: beside_file,
            registry_values: None,
            bundle: None,
            is_in_no_registry: false,
            prompted_env: Vec::new(),
            notices,
        })
    }

    /// Returns the name; a generated one gets a suffix if it is taken.
    pub(in crate::workload) fn available_name(&self, taken: impl Fn(&WorkloadName) -> bool) -> WorkloadName {
        if !self.name_is_generated || !taken(&self.name) {
            return self.name.clone();
        }
        let mut names = (2..).map(|number| self.name.with_suffix(number));
        names.find(|name| !taken(name)).unwrap_or_else(|| self.name.clone())
    }

    /// Sets the generated name, unless a name was given.
    pub(in crate::workload) fn set_generated_name(&mut self, name: WorkloadName) {
        if self.name_is_generated {
            self.name = name;
        }
    }

    /// Returns the given options, then those of the registry entry, then the declared defaults.
    pub(in crate::workload) fn effective_options(&self) -> WorkloadOptions {
        self.without_defaults().or(WorkloadOptions::defaults())
    }

    /// Returns the secrets that the user typed, with the references of the workload of that name.
    pub(in crate::workload) fn prompted_secrets(&self, name: &WorkloadName) -> BTreeMap<SecretRef, &Secret> {
        let prompted = self.registry_values.iter().flat_map(|registry_values| &registry_values.secrets);
        let reference = |target: &str| match self.source {
            ServerSource::Remote(_) => SecretRef::in_header(format!("{name}/{target}"), target),
            _ => (format!("{name}/{target}"), target).into(),
        };
        prompted.map(|(target, value)| (reference(target), value)).collect()
    }

    /// Returns how variables contain their secrets, by the variable.
    pub(in crate::workload) fn secret_formats(&self) -> BTreeMap<String, SecretFormat> {
        self.registry_values.as_ref().map(|values| values.secret_formats.clone()).unwrap_or_default()
    }

    pub(in crate::workload) fn without_defaults(&self) -> WorkloadOptions {
        let registry_values =
            self.registry_values.as_ref().map(|registry_values| registry_values.options.clone());
        self.options.clone().or(registry_values.unwrap_or_default())
    }

    pub(in crate::workload) fn name_origin(&self) -> ValueOrigin {
        if self.name_is_generated { ValueOrigin::Derived } else { self.origin("name") }
    }

    /// Returns the origin of values that neither options nor defaults have set.
    pub(in crate::workload) fn entry_origin(&self) -> ValueOrigin {
        if self.source.bundle().is_some() { ValueOrigin::Bundle } else { ValueOrigin::Registry }
    }

    pub(in crate::workload) fn origin(&self, name: &str) -> ValueOrigin {
        match (self.options.is_given(name), self.from_file && !self.given_beside_file.contains(&name)) {
            (true, false) => ValueOrigin::Given,
            (true, true) => ValueOrigin::ExportedFile,
            (false, _)
                if self
                    .registry_values
                    .as_ref()
                    .is_some_and(|registry_values| registry_values.options.is_given(name)) =>
            {
                self.entry_origin()
            }
            (false, _) => ValueOrigin::Default,
        }
    }
}

/// Returns the options for an export: with absolute paths, and without options of this run.
pub(in crate::workload) fn options_for_export(
    request: &WorkloadRequest,
    working_dir: &Path,
) -> WorkloadOptions {
    let options = &request.options;
    let absolute = |path: &PathBuf| working_dir.join(path);
    let volume =
        |volume: &VolumeSpec| VolumeSpec { host_path: absolute(&volume.host_path), ..volume.clone() };
    WorkloadOptions {
        from_config: None,
        foreground: None,
        debug: None,
        // Options of this run only.
        rebuild: None,
        offline: None,
        env_file: options.env_file.as_ref().map(absolute),
        learn: options.learn.as_ref().map(absolute),
        tools_override: options.tools_override.as_ref().map(absolute),
        authz_config: options.authz_config.as_ref().map(absolute),
        audit_config: options.audit_config.as_ref().map(absolute),
        permission_profile: match &options.permission_profile {
            Some(PermissionProfile::File(path)) => Some(PermissionProfile::File(absolute(path))),
            named => named.clone(),
        },
        ca_cert: options.ca_cert.as_ref().map(absolute),
        mcpm_ca_bundle: options.mcpm_ca_bundle.as_ref().map(absolute),
        jwks_auth_token_file: options.jwks_auth_token_file.as_ref().map(absolute),
        token_exchange_client_secret_file: options.token_exchange_client_secret_file.as_ref().map(absolute),
        remote_auth_client_secret_file: options.remote_auth_client_secret_file.as_ref().map(absolute),
        remote_auth_bearer_token_file: options.remote_auth_bearer_token_file.as_ref().map(absolute),
        image_verification_key: options.image_verification_key.as_ref().map(absolute),
        sigstore_trusted_root: options.sigstore_trusted_root.as_ref().map(absolute),
        env_file_dir: options.env_file_dir.as_ref().map(absolute),
        volume: options.volume.iter().map(volume).collect(),
        env: options.env.iter().chain(&request.prompted_env).cloned().collect(),
        registry: options.registry.as_ref().map(|registry| absolute_registry(registry, working_dir)),
        ..options.clone()
    }
}

fn absolute_registry(registry: &str, working_dir: &Path) -> String {
    match registry {
        "embedded" => registry.to_owned(),
        url if url.contains("://") => url.to_owned(),
        path => working_dir.join(path).to_string_lossy().into_owned(),
    }
}
