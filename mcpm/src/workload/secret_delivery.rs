//! Passes the values of secrets into containers.
//!
//! A spec contains only references to secrets. The values are added to the request that creates a container: as
//! environment variables, or as mounted files in a private folder in memory. The engine stores these variables and
//! shows them to everybody who may query it, so isolated servers get their variables from the shim instead.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use super::{WorkloadName, WorkloadSpec, spec::SecretFormat};
use crate::{
    Environment, Error, ErrorKind, Result,
    fnv1a::fnv1a,
    isolation::MOUNT_POINT,
    options::{Secret, SecretRef, SecretTarget, WorkloadOptions},
    platform::with_mode,
    random::random_token,
    runtime::{ContainerSpec, Mount},
    secrets::{self, SecretValues, Secrets},
    state::file::{create_folders, file_error},
};

/// How a plan describes a variable.
pub(super) const VIA_ENGINE: &str =
    "delivered through the engine's environment (visible to everyone who may inspect the container)";
/// How a plan describes a variable of an isolated server.
pub(super) const VIA_SHIM: &str = "handed to the server by the shim (not visible in the engine)";
/// How a plan describes a file.
pub(super) const VIA_FILE: &str = "delivered as a file that is in memory while the workload runs";
/// How a plan describes a header.
pub(super) const VIA_HEADER: &str = "sent to the remote server with each request";

/// Rejects references that contradict each other or other options.
pub(super) fn check(options: &WorkloadOptions) -> Result<()> {
    let refused = |message: String| Err(Error::new(ErrorKind::InvalidOption, message));
    for (index, reference) in options.secret.iter().enumerate() {
        let target = &reference.target;
        if options.secret.iter().take(index).any(|other| other.target == *target) {
            return refused(format!("two secrets have the target `{target}`"));
        }
        match reference.destination() {
            SecretTarget::Variable(name) if options.env.iter().any(|variable| variable.name == name) => {
                return refused(format!("`{name}` is given with `env` and with `secret`"));
            }
            SecretTarget::File(path) if options.volume.iter().any(|volume| volume.container_path == path) => {
                return refused(format!("a volume and a secret are both mounted at `{path}`"));
            }
            SecretTarget::Header(_) => {
                return refused(format!("`{target}` is for remote servers: a container gets no headers"));
            }
            SecretTarget::File(path) if Path::new(path).starts_with(MOUNT_POINT) => {
                return refused(format!("`{path}` is reserved for mcpm in containers"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Reads the values of the secrets that a recorded workload refers to, and prompts for values that the user typed and
/// that were not stored.
///
/// # Errors
/// `NotFound` when a value is missing; `SecretsUnavailable`; `Interrupted`.
pub(super) async fn read_values(spec: &WorkloadSpec, environment: &Environment) -> Result<SecretValues> {
    let (mut stored, prompted) = (spec.secret_names(), spec.prompted_secret_names());
    if prompted.is_empty() {
        return secrets::read(&stored, environment).await;
    }
    stored.retain(|name| !prompted.contains(name));
    // Opened once, since that may prompt for a password.
    let secrets = Secrets::open(environment)?;
    let mut values = if stored.is_empty() { SecretValues::default() } else { secrets.read(&stored).await? };
    let (found, unavailable) = match secrets.find(&prompted).await {
        Ok(found) => (found, None),
        // A store that cannot be opened may not have the value, so the user is prompted.
        Err(error) if error.kind() == ErrorKind::SecretsUnavailable => (BTreeMap::new(), Some(error)),
        Err(error) => return Err(error),
    };
    values.extend(SecretValues::new(found));
    for name in prompted.iter().filter(|name| values.get(name).is_none()).collect::<Vec<_>>() {
        let answer = match &environment.user_prompt {
            Some(prompt) => prompt.ask_secret(&prompt_for(&spec.secrets, &spec.secret_formats, name)).await?,
            None => None,
        };
        let Some(answer) = answer else {
            return Err(unavailable.unwrap_or_else(|| not_stored(&spec.name, name)));
        };
        if answer.expose().is_empty() {
            let message = format!("the server needs a value for `{name}`");
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        values.extend([(name.clone(), answer)].into_iter().collect());
    }
    Ok(values)
}

/// Returns the prompt for a value that the user has to type again. For a header, and for some variables, this is the
/// whole value, since its parts are not on record.
fn prompt_for(secrets: &[SecretRef], formats: &BTreeMap<String, SecretFormat>, name: &str) -> String {
    let secret = secrets.iter().find(|secret| secret.name == name);
    match secret.map(SecretRef::destination) {
        Some(SecretTarget::Header(_)) => format!("{name} - the whole value of the header"),
        Some(SecretTarget::Variable(variable)) if formats.get(variable) == Some(&SecretFormat::Whole) => {
            format!("{name} - the whole value of the variable")
        }
        _ => name.to_owned(),
    }
}

fn not_stored(workload: &WorkloadName, secret: &str) -> Error {
    let message =
        format!("the secret `{secret}` was entered at the first start of `{workload}`, and was not stored");
    Error::new(ErrorKind::NotFound, message)
        .hint(format!("store it with `mcpm secret set {secret}`, or start `{workload}` in a terminal"))
}

/// The secrets of one launch.
#[derive(Debug, Default)]
pub(super) struct SecretDelivery {
    variables: BTreeMap<String, Secret>,
    mounts: Vec<Mount>,
    /// Identifies the containers of one launch, since the next one may have other values; empty without secrets. The id
    /// is not a hash of the values, since that would help to guess them.
    launch_id: String,
    _files: Option<SecretFiles>,
}

impl SecretDelivery {
    /// Selects the values that the workload `name` refers to, and writes those that are delivered as files.
    ///
    /// # Errors
    /// `NotFound` when a value is missing; `Io` when files cannot be written.
    pub(super) fn new(
        name: &WorkloadName,
        references: &[SecretRef],
        formats: &BTreeMap<String, SecretFormat>,
        values: &SecretValues,
        environment: &Environment,
    ) -> Result<Self> {
        if references.is_empty() {
            return Ok(Self::default());
        }
        let mut delivery = Self { launch_id: random_token()?, ..Self::default() };
        let mut files = Vec::new();
        for reference in references {
            let value = values.get(&reference.name).ok_or_else(|| {
                Error::new(
                    ErrorKind::NotFound,
                    format!("the value of secret `{}` is missing", reference.name),
                )
            })?;
            match reference.destination() {
                SecretTarget::Variable(name) => {
                    let value = formats.get(name).map_or_else(|| value.clone(), |format| format.apply(value));
                    delivery.variables.insert(name.to_owned(), value);
                }
                SecretTarget::File(path) => files.push((path, value)),
                // Only remote servers have headers.
                SecretTarget::Header(_) => {}
            }
        }
        if !files.is_empty() {
            let folder = SecretFiles::create(name, environment)?;
            for (number, (target, value)) in files.into_iter().enumerate() {
                let source = folder.write(number, value)?;
                delivery.mounts.push(Mount {
                    source,
                    target: target.to_owned(),
                    read_only: true,
                    relabel: None,
                });
            }
            delivery._files = Some(folder);
        }
        Ok(delivery)
    }

    /// Returns the id of this launch; empty without secrets.
    pub(super) fn launch_id(&self) -> &str {
        &self.launch_id
    }

    /// Adds the values to the variables that the shim passes. The result is never stored or shown.
    pub(super) fn with_variables(&self, env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let exposed = |(name, value): (&String, &Secret)| (name.clone(), value.expose().to_owned());
        env.clone().into_iter().chain(self.variables.iter().map(exposed)).collect()
    }

    /// Adds the values to the spec of a container. The result is never stored or shown.
    pub(super) fn apply_to(&self, mut spec: ContainerSpec) -> ContainerSpec {
        // The shim passes them itself, so that the engine never sees them.
        if spec.entry.is_none() {
            spec.env = self.with_variables(&spec.env);
        }
        spec.mounts.extend(self.mounts.iter().cloned());
        spec
    }
}

/// Describes a reference in a plan.
pub(super) fn describe(reference: &SecretRef, isolated: bool) -> String {
    match reference.destination() {
        SecretTarget::Variable(name) if isolated => format!("{name} from `{}`, {VIA_SHIM}", reference.name),
        SecretTarget::Variable(name) => format!("{name} from `{}`, {VIA_ENGINE}", reference.name),
        SecretTarget::File(path) => format!("{path} from `{}`, {VIA_FILE}", reference.name),
        SecretTarget::Header(header) => format!("{header} from `{}`, {VIA_HEADER}", reference.name),
    }
}

/// Removes the files of a launch whose process could not remove them itself.
pub(super) fn remove_leftover_files(name: &WorkloadName, environment: &Environment) {
    if let Some(folder) = folder(name, environment) {
        remove(&folder);
    }
}

/// The files of one launch, removed with it.
#[derive(Debug)]
struct SecretFiles(PathBuf);

impl SecretFiles {
    fn create(name: &WorkloadName, environment: &Environment) -> Result<Self> {
        let Some(folder) = folder(name, environment) else {
            let message = "secrets cannot be delivered as files: `XDG_RUNTIME_DIR` is not set";
            return Err(Error::new(ErrorKind::Io, message)
                .hint("set it to a private folder in memory, or deliver the secrets as variables"));
        };
        // The folder may contain files of a launch that was killed.
        remove(&folder);
        create_folders(&folder).map_err(|error| file_error("create", &folder, error))?;
        Ok(Self(folder))
    }

    /// Writes one file. Every user of the container may read it, since the server's user is not known; on this
    /// machine, the folder is private.
    fn write(&self, number: usize, value: &Secret) -> Result<PathBuf> {
        let path = self.0.join(number.to_string());
        with_mode(OpenOptions::new().write(true).create_new(true), 0o444)
            .open(&path)
            .and_then(|mut file| file.write_all(value.expose().as_bytes()))
            .map_err(|error| file_error("write", &path, error))?;
        Ok(path)
    }
}

impl Drop for SecretFiles {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Returns the folder of a workload's files; two state folders may have workloads of the same name.
fn folder(name: &WorkloadName, environment: &Environment) -> Option<PathBuf> {
    let runtime_dir = environment.engine.runtime_dir.as_ref()?;
    let state = fnv1a(environment.state_dir.as_os_str().as_encoded_bytes());
    Some(runtime_dir.join("mcpm/secrets").join(format!("{state:016x}-{name}")))
}

fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(folder = %folder.display(), %error, "files with secrets could not be removed");
    }
}

#[cfg(test)]
#[path = "secret_delivery_tests.rs"]
mod tests;
