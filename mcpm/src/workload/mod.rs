//! Workloads: MCP servers that mcpm runs in containers, each behind a proxy of its own.
//!
//! [`Workload::builder`] says what is asked, [`Workload::plan`] shows what would be done, [`Workload::start`] does
//! it. What was asked ([`WorkloadOptions`]) becomes what will be done ([`WorkloadSpec`]) in `resolve`; `launch`
//! starts it and keeps it alive; [`Workloads`] finds those that are recorded.

use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::{
    Environment, Error, ErrorKind, Result,
    options::{OptionSet as _, RuntimeChoice, WorkloadOptions},
    runtime::{
        EngineName, Runtime,
        discover::{discover, reach},
    },
    secrets::{self, SecretValues},
    state::{Groups, Store},
};

mod asked;
mod carrying;
mod container;
mod delivery;
mod entry;
mod env_file;
mod events;
mod export;
mod export_schema;
mod headers;
mod http_server;
mod ignore;
mod launch;
mod listening;
mod manage;
mod mismatch;
mod origins;
mod plan;
mod reach;
mod record;
mod refusals;
mod remote;
mod remote_server;
mod resolve;
mod running;
mod source;
mod spec;
mod target;
mod toolhive;
mod trust;
mod verification;
mod wanted;

/// What is fuzzed of what nobody else sees.
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzzing {
    use std::{collections::BTreeMap, path::Path};

    use crate::Result;

    pub(crate) fn env_file(text: &str) -> Result<BTreeMap<String, String>, (usize, &'static str)> {
        super::env_file::parse(text)
    }

    pub(crate) fn ignores(patterns: &str, folder: &Path, path: &Path) -> Result<bool> {
        super::ignore::ignores(patterns, folder, path)
    }
}

pub use crate::name::WorkloadName;
pub use events::{EventStream, WorkloadEvent};
pub use export_schema::export_schema;
pub use launch::Launch;
pub use manage::{Logs, WorkloadInfo, Workloads};
pub use plan::{Plan, PlannedBuild};
pub use running::RunningWorkload;
pub use spec::{Origin, PackageSpec, Place, RemoteSpec, TargetSpec, Via, WorkloadSpec};
pub use verification::PlannedVerification;

use asked::Asked;
use entry::Asking;
use events::Events;
use resolve::Surroundings;
use source::Source;
use verification::Verification;
use wanted::Wanted;

/// Collects the options of a [`Workload`].
#[derive(Debug, Clone, Default)]
pub struct WorkloadBuilder {
    pub(crate) options: WorkloadOptions,
    environment: Option<Environment>,
}

impl WorkloadBuilder {
    /// Sets an option by name, spelled as on a command line.
    ///
    /// # Errors
    /// `InvalidOption` for an unknown name or a bad value.
    pub fn set(mut self, name: &str, text: &str) -> Result<Self> {
        self.options.set(name, text)?;
        Ok(self)
    }

    /// Says where state is kept and how an engine is found; [`Environment::from_process`] otherwise.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Checks the options and reads the exported configuration, if one is named.
    ///
    /// Of what is written there it checks the options as well, so the file is read here and not at the start.
    /// Nothing is changed.
    ///
    /// # Errors
    /// `InvalidOption` for bad, missing or contradicting options, `Unsupported` for features not built yet, `Io`
    /// for an exported configuration that cannot be read.
    pub fn build(self) -> Result<Workload> {
        let environment = self.environment.unwrap_or_else(Environment::from_process);
        let asked = Box::new(Asked::read(self.options, &environment.working_dir)?);
        Ok(Workload { asked, environment, events: Events::new(), settled: OnceCell::new() })
    }
}

impl From<WorkloadOptions> for WorkloadBuilder {
    fn from(options: WorkloadOptions) -> Self {
        Self { options, environment: None }
    }
}

/// A workload that can be started.
#[derive(Debug)]
pub struct Workload {
    /// Boxed, since it would be most of what a start keeps.
    asked: Box<Asked>,
    environment: Environment,
    events: Events,
    /// What was asked, looked up in the registry and filled in by the user, once it was.
    settled: OnceCell<Box<Asked>>,
}

impl Workload {
    /// Starts from a server name, image, package or URL.
    pub fn builder(server: impl Into<String>) -> WorkloadBuilder {
        WorkloadBuilder::default().server(server)
    }

    /// Returns what was asked for, with every default filled in.
    pub fn options(&self) -> WorkloadOptions {
        self.asked.options.clone().or(WorkloadOptions::defaults())
    }

    /// Listens to what happens from now on, the pull or the build of the image included.
    pub fn events(&self) -> EventStream {
        self.events.listen()
    }

    /// Returns what would be started. The registry is asked about a name, the engine about the image; nothing is
    /// pulled or made, and the user is asked nothing.
    ///
    /// # Errors
    /// `EngineUnavailable`; `InvalidOption` for options that contradict the image or this machine; `Registry`.
    pub async fn plan(&self) -> Result<Plan> {
        let noted = Asking::Note(std::sync::Mutex::default());
        let asked =
            entry::confirm(Box::pin(self.located()).await?, &self.environment.working_dir, &noted).await?;
        resolve::check(&asked, &self.environment)?;
        let asked = &Box::pin(entry::supply(&asked, &self.environment, &noted)).await?;
        let name = self.name(asked)?;
        let creates_group = self.creates_group()?;
        let questions =
            asked.supplied.as_ref().map(|supplied| supplied.questions.clone()).unwrap_or_default();
        let wanted = match &asked.source {
            Source::Remote(url) => {
                let spec = remote::resolve(asked, url, name, &self.environment)?;
                return Ok(Plan {
                    spec,
                    engine: None,
                    image: None,
                    command: None,
                    build: None,
                    verification: None,
                    questions,
                    creates_group,
                });
            }
            Source::Image(_) | Source::Package(_) => self.wanted(asked)?,
            Source::Named { .. } => return Err(not_located()),
        };
        let verification = Verification::of(asked, &self.environment)?.planned();
        let runtime = self.runtime().await?;
        let engine = runtime.engine().await?;
        let target_address = target::target_address(&asked.without_defaults()).await?;
        let found = wanted.here(runtime.as_ref()).await?;
        let (image, package) = match found {
            Some(found) => (Some(found.info), found.package),
            None => (None, wanted.package()),
        };
        let around = Surroundings {
            environment: &self.environment,
            engine: &engine,
            reference: wanted.reference(),
            image: image.as_ref(),
            verified: None,
            package,
            target_address,
        };
        let spec = resolve::resolve(asked, name, around)?;
        let build = wanted.recipe().map(PlannedBuild::of);
        let command = plan::command(&spec, image.as_ref());
        let engine = Some(engine);
        Ok(Plan { spec, engine, image, command, build, verification, questions, creates_group })
    }

    /// Pulls or builds the image if it is needed, asks the user for what a registry's entry wants, and works out what
    /// will be started. The registry and the user are asked once.
    ///
    /// # Errors
    /// As for [`plan`](Self::plan), and `NameTaken`, `ImageUnavailable`, `ImageUnverified`.
    pub async fn resolve(&self) -> Result<WorkloadSpec> {
        // Before anything else is asked, as far as it is known.
        self.name(&self.asked)?;
        self.creates_group()?;
        let asked = self.settled.get_or_try_init(|| Box::pin(self.settle())).await?;
        let name = self.name(asked)?;
        let wanted = match &asked.source {
            Source::Remote(url) => return remote::resolve(asked, url, name, &self.environment),
            Source::Image(_) | Source::Package(_) => self.wanted(asked)?,
            Source::Named { .. } => return Err(not_located()),
        };
        let verification = Verification::of(asked, &self.environment)?;
        let runtime = self.runtime().await?;
        let engine = runtime.engine().await?;
        self.check_network(runtime.as_ref()).await?;
        let target_address = target::target_address(&asked.without_defaults()).await?;
        let offline = self.asked.options.offline.unwrap_or(false);
        let verified =
            verification.carry_out(wanted.reference(), offline, &self.environment, &self.events).await?;
        let wanted = wanted.pinned(verified.as_ref())?;
        let found = wanted.fetch(runtime.as_ref(), &self.asked.options, &self.events).await?;
        let around = Surroundings {
            environment: &self.environment,
            engine: &engine,
            reference: wanted.reference(),
            image: Some(&found.info),
            verified,
            package: found.package,
            target_address,
        };
        resolve::resolve(asked, name, around)
    }

    async fn settle(&self) -> Result<Box<Asked>> {
        let user = Asking::User(self.environment.interaction.as_deref());
        let located = entry::confirm(self.located().await?, &self.environment.working_dir, &user).await?;
        resolve::check(&located, &self.environment)?;
        entry::supply(&located, &self.environment, &user).await.map(Box::new)
    }

    async fn located(&self) -> Result<Asked> {
        let events = self.events.clone();
        let on_notice = move |message| events.tell(WorkloadEvent::Warning { message });
        self.asked.notices.iter().cloned().for_each(&on_notice);
        entry::locate(&self.asked, &self.environment, &on_notice).await
    }

    /// Reads the values of the secrets that were asked for, once the options are known to be right. Without
    /// secrets, nothing is opened.
    ///
    /// # Errors
    /// `NotFound` names every secret that is missing; `SecretsUnavailable`; `InvalidOption`.
    pub async fn secrets(&self) -> Result<SecretValues> {
        resolve::check(&self.asked, &self.environment)?;
        let names: Vec<String> = self.asked.options.secret.iter().map(|secret| secret.name.clone()).collect();
        secrets::read(&names, &self.environment).await
    }

    /// Adds to the values of [`secrets`](Self::secrets) those that the user typed while `spec` was
    /// [resolved](Self::resolve). They are kept nowhere.
    #[must_use]
    pub fn with_typed(&self, spec: &WorkloadSpec, mut secrets: SecretValues) -> SecretValues {
        let typed = self.settled.get().into_iter().flat_map(|asked| asked.typed_secrets(&spec.name));
        secrets.extend(typed.map(|(secret, value)| (secret.name, value.clone())).collect());
        secrets
    }

    /// Tells whether the name was worked out, was taken by somebody else since, and another one is free: then
    /// [`resolve`](Self::resolve) gives that.
    ///
    /// # Errors
    /// `Io` when the records cannot be read.
    pub fn would_rename(&self, spec: &WorkloadSpec) -> Result<bool> {
        let asked = self.settled.get().map_or(&self.asked, |settled| settled);
        Ok(asked.name_is_generated && self.name(asked)? != spec.name)
    }

    /// Starts the workload and returns once clients can connect.
    ///
    /// The proxy lives on the runtime of the caller. Dropping the handle ends the workload, unless it was
    /// [detached](RunningWorkload::detach).
    ///
    /// # Errors
    /// Those of [`secrets`](Self::secrets) and [`resolve`](Self::resolve), and `PortTaken`, `StartFailed`. Nothing is left behind then.
    pub async fn start(self) -> Result<RunningWorkload> {
        let secrets = self.secrets().await?;
        loop {
            // Boxed, since it happens once and is large.
            let spec = Box::pin(self.resolve()).await?;
            let values = self.with_typed(&spec, secrets.clone());
            let mut launch = Launch::new(spec.clone(), self.environment.clone()).secrets(values);
            launch.events = self.events.clone();
            match Box::pin(launch.start()).await {
                Err(error) if error.kind() == ErrorKind::NameTaken && self.would_rename(&spec)? => {}
                outcome => return outcome,
            }
        }
    }

    /// The name, free if it was worked out.
    ///
    /// # Errors
    /// `NameTaken` when a given one is not.
    fn name(&self, asked: &Asked) -> Result<WorkloadName> {
        let taken = Store::new(&self.environment.state_dir).names()?;
        let name = asked.free_name(|name| taken.contains(name));
        if taken.contains(&name) {
            let message = format!("a workload named `{name}` exists already");
            return Err(Error::new(ErrorKind::NameTaken, message)
                .hint(format!("remove it with `mcpm rm {name}`, or set `name` to another")));
        }
        Ok(name)
    }

    /// Tells whether the start would create the group.
    ///
    /// # Errors
    /// `InvalidOption` if no group can be named so; `CorruptState` if its file is damaged.
    fn creates_group(&self) -> Result<bool> {
        match &self.asked.options.group {
            Some(group) => Ok(!Groups::new(&self.environment.state_dir).exists(group)?),
            None => Ok(false),
        }
    }

    /// Checks that the network is there before an image is pulled for nothing.
    async fn check_network(&self, runtime: &dyn Runtime) -> Result<()> {
        let options = &self.asked.options;
        let known =
            |mode: &str| matches!(mode, "" | "bridge" | "default" | "host" | "none") || mode.contains(':');
        if let Some(network) = options.network.as_deref().filter(|mode| !known(mode))
            && !runtime.network_exists(network).await?
        {
            return Err(Error::new(
                ErrorKind::InvalidOption,
                format!("the engine has no network `{network}`"),
            ));
        }
        Ok(())
    }

    fn wanted(&self, asked: &Asked) -> Result<Wanted> {
        let none = || Error::new(ErrorKind::Internal, "a remote server has no image");
        Wanted::of(asked, &self.environment)?.ok_or_else(none)
    }

    async fn runtime(&self) -> Result<Arc<dyn Runtime>> {
        runtime(&self.environment, self.asked.options.runtime).await
    }
}

fn not_located() -> Error {
    Error::new(ErrorKind::Internal, "a name was not looked up")
}

/// What kind of failure it is that a file or folder the user named cannot be used.
fn file_error_kind(error: &std::io::Error) -> ErrorKind {
    match error.kind() {
        std::io::ErrorKind::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Io,
    }
}

/// The engine to use: the injected one, or one that is found.
async fn runtime(environment: &Environment, choice: Option<RuntimeChoice>) -> Result<Arc<dyn Runtime>> {
    if let Some(runtime) = &environment.runtime {
        return Ok(Arc::clone(runtime));
    }
    let wanted = match choice.unwrap_or(RuntimeChoice::Auto) {
        RuntimeChoice::Auto => None,
        RuntimeChoice::Docker => Some(EngineName::Docker),
        RuntimeChoice::Podman => Some(EngineName::Podman),
    };
    discover(&environment.engine, wanted).await
}

/// The engine that has a workload's container: the injected one, or the one on record.
async fn runtime_of(environment: &Environment, spec: &WorkloadSpec) -> Result<Arc<dyn Runtime>> {
    match &spec.engine {
        Some(engine) if environment.runtime.is_none() => reach(&environment.engine, engine).await,
        _ => runtime(environment, spec.asked.runtime).await,
    }
}
