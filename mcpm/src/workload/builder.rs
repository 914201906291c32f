//! Collects the options of a workload, and plans, resolves and starts it.

use std::sync::Arc;

use tokio::sync::OnceCell;

use super::{
    EventStream, Plan, PlannedBuild, RunningWorkload, WorkloadEvent, WorkloadName, WorkloadSpec,
    engine::runtime,
    events::WorkloadEvents,
    launch::Launch,
    plan,
    resolve::{
        self, ResolveContext, image_source::ImageSource, input_values::InputMode, registry_inputs, remote,
        request::WorkloadRequest, source::ServerSource, target, verification::Verification,
    },
};
use crate::{
    Environment, Error, ErrorKind, Result,
    options::{OptionSet as _, RuntimeChoice, WorkloadOptions},
    proxy::service::Reachability,
    runtime::{EngineName, Runtime},
    secrets::{self, SecretValues},
    state::{Groups, Store},
};

/// Collects the options of a [`Workload`].
#[derive(Debug, Clone, Default)]
pub struct WorkloadBuilder {
    pub(crate) options: WorkloadOptions,
    environment: Option<Environment>,
    reachability: Reachability,
}

impl WorkloadBuilder {
    /// Sets an option by name, spelled as on a command line.
    ///
    /// # Errors
    /// `InvalidOption` for an unknown name or an invalid value.
    pub fn set(mut self, name: &str, text: &str) -> Result<Self> {
        self.options.set(name, text)?;
        Ok(self)
    }

    /// Sets the environment, which says where state is kept and how the engine is found; [`Environment::from_process`]
    /// by default.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Opens no port: only this process can use the server, with [`connect`](RunningWorkload::connect).
    /// The host and the port are not used then.
    #[must_use]
    pub fn in_process_only(mut self) -> Self {
        self.reachability = Reachability::InProcess;
        self
    }

    /// Checks the options, and reads the files that they name.
    ///
    /// Each file is read once, here, so a file that changes later does not change what is started. If the exported
    /// configuration cannot be used, this function fails; if another file cannot be used, [`Workload::plan`],
    /// [`Workload::secrets`] or [`Workload::resolve`] fails. Nothing is changed.
    ///
    /// # Errors
    /// `InvalidOption` for invalid, missing or contradicting options, `Unsupported` for options that this build does
    /// not support, `Io` for an exported configuration that cannot be read.
    pub fn build(self) -> Result<Workload> {
        let environment = self.environment.unwrap_or_else(Environment::from_process);
        let request = Box::new(WorkloadRequest::load(self.options, &environment)?);
        Ok(Workload {
            request,
            environment,
            reachability: self.reachability,
            events: WorkloadEvents::new(),
            resolved_request: OnceCell::new(),
        })
    }
}

impl From<WorkloadOptions> for WorkloadBuilder {
    fn from(options: WorkloadOptions) -> Self {
        Self { options, ..Self::default() }
    }
}

/// A workload that can be started.
#[derive(Debug)]
pub struct Workload {
    /// Boxed, since it would be most of the size of a start's future.
    request: Box<WorkloadRequest>,
    environment: Environment,
    reachability: Reachability,
    events: WorkloadEvents,
    /// The request with the results of the registry lookup and the user's input, once it was resolved.
    resolved_request: OnceCell<Box<WorkloadRequest>>,
}

impl Workload {
    /// Creates a builder for a server name, an image, a package or a URL.
    pub fn builder(server: impl Into<String>) -> WorkloadBuilder {
        WorkloadBuilder::default().server(server)
    }

    /// Returns the options with every default filled in.
    pub fn options(&self) -> WorkloadOptions {
        self.request.options.clone().or(WorkloadOptions::defaults())
    }

    /// Subscribes to events from now on, including those of the image pull or build.
    pub fn events(&self) -> EventStream {
        self.events.subscribe()
    }

    /// Returns what would be started. Queries the registry for a name and the engine for the image; pulls and creates
    /// nothing, and does not prompt the user.
    ///
    /// # Errors
    /// `EngineUnavailable`; `InvalidOption` for options that contradict the image or this machine; `Registry`.
    pub async fn plan(&self) -> Result<Plan> {
        let dry_run = InputMode::DryRun(std::sync::Mutex::default());
        let request = registry_inputs::confirm_permissions(
            Box::pin(self.locate_request()).await?,
            &self.environment.working_dir,
            &dry_run,
        )
        .await?;
        resolve::check(&request, &self.environment.working_dir)?;
        let request =
            &Box::pin(registry_inputs::resolve_inputs(&request, &self.environment, &dry_run)).await?;
        let name = self.name(request)?;
        let creates_group = self.creates_group()?;
        let questions = request
            .registry_values
            .as_ref()
            .map(|registry_values| registry_values.prompts.clone())
            .unwrap_or_default();
        let image_source = match &request.source {
            ServerSource::Remote(url) => {
                let spec = remote::resolve(request, url, name, &self.environment)?;
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
            ServerSource::Image(_) | ServerSource::Package(_) => self.image_source(request).await?,
            ServerSource::Named { .. } => return Err(not_located()),
        };
        let verification = Verification::from_request(request)?.planned();
        let runtime = self.runtime().await?;
        let engine = runtime.engine().await?;
        let target_address = target::target_address(&request.without_defaults()).await?;
        let (image_source, base_warning) =
            image_source.with_available_base(runtime.as_ref(), request, &self.environment, None).await?;
        let found = image_source.find_local(runtime.as_ref()).await?;
        let (image, package) = match found {
            Some(found) => (Some(found.info), found.package),
            None => (None, image_source.package()),
        };
        let context = ResolveContext {
            environment: &self.environment,
            engine: &engine,
            reference: image_source.reference(),
            image: image.as_ref(),
            verified: None,
            package,
            target_address,
        };
        let mut spec = resolve::resolve(request, name, context)?;
        spec.warnings.extend(base_warning);
        let build = image_source.recipe().map(PlannedBuild::from_recipe);
        let command = plan::command(&spec, image.as_ref());
        let engine = Some(engine);
        Ok(Plan { spec, engine, image, command, build, verification, questions, creates_group })
    }

    /// Pulls or builds the image if necessary, prompts for missing inputs of the registry entry, and resolves what
    /// will be started. The registry is queried and the user prompted once.
    ///
    /// # Errors
    /// As for [`plan`](Self::plan), and `NameTaken`, `ImageUnavailable`, `ImageUnverified`.
    pub async fn resolve(&self) -> Result<WorkloadSpec> {
        // If the name is already known, a name that is taken is reported before the registry is queried.
        self.name(&self.request)?;
        self.creates_group()?;
        let request = self.resolved_request.get_or_try_init(|| Box::pin(self.resolve_request())).await?;
        let name = self.name(request)?;
        let image_source = match &request.source {
            ServerSource::Remote(url) => return remote::resolve(request, url, name, &self.environment),
            ServerSource::Image(_) | ServerSource::Package(_) => self.image_source(request).await?,
            ServerSource::Named { .. } => return Err(not_located()),
        };
        let verification = Verification::from_request(request)?;
        let runtime = self.runtime().await?;
        let engine = runtime.engine().await?;
        let is_selected = self.request.options.runtime.is_none_or(|choice| choice == RuntimeChoice::Auto);
        if is_selected && engine.name == EngineName::Builtin {
            let message = "no container engine responds, so the built-in runtime is used".to_owned();
            self.events.emit(WorkloadEvent::Warning { message });
        }
        self.check_network(runtime.as_ref()).await?;
        let target_address = target::target_address(&request.without_defaults()).await?;
        let offline = self.request.options.offline.unwrap_or(false);
        let verified =
            verification.verify(image_source.reference(), offline, &self.environment, &self.events).await?;
        let image_source = image_source.pinned(verified.as_ref())?;
        let (image_source, base_warning) = image_source
            .with_available_base(runtime.as_ref(), request, &self.environment, Some(&self.events))
            .await?;
        let found = match image_source.fetch(runtime.as_ref(), &self.request.options, &self.events).await {
            Ok(found) => found,
            Err(error) => {
                return Err(registry_inputs::explain_missing_image(request, &self.environment, error).await);
            }
        };
        let context = ResolveContext {
            environment: &self.environment,
            engine: &engine,
            reference: image_source.reference(),
            image: Some(&found.info),
            verified,
            package: found.package,
            target_address,
        };
        let mut spec = resolve::resolve(request, name, context)?;
        spec.warnings.extend(base_warning);
        Ok(spec)
    }

    async fn resolve_request(&self) -> Result<Box<WorkloadRequest>> {
        let user = InputMode::Interactive(self.environment.user_prompt.as_deref());
        let located = registry_inputs::confirm_permissions(
            self.locate_request().await?,
            &self.environment.working_dir,
            &user,
        )
        .await?;
        resolve::check(&located, &self.environment.working_dir)?;
        registry_inputs::resolve_inputs(&located, &self.environment, &user).await.map(Box::new)
    }

    async fn locate_request(&self) -> Result<WorkloadRequest> {
        let events = self.events.clone();
        let on_notice = move |message| events.emit(WorkloadEvent::Warning { message });
        self.request.notices.iter().cloned().for_each(&on_notice);
        registry_inputs::look_up(&self.request, &self.environment, &on_notice).await
    }

    /// Checks the options, then reads the values of the secrets that they name. Without secrets, no store is opened.
    ///
    /// # Errors
    /// `NotFound` names every secret that is missing; `SecretsUnavailable`; `InvalidOption`.
    pub async fn secrets(&self) -> Result<SecretValues> {
        resolve::check(&self.request, &self.environment.working_dir)?;
        let options = &self.request.options;
        let forwarded = options.remote_forward_headers_secret.iter().map(|header| &header.secret);
        let names: Vec<String> =
            options.secret.iter().map(|secret| &secret.name).chain(forwarded).cloned().collect();
        secrets::read(&names, &self.environment).await
    }

    /// Adds to the values of [`secrets`](Self::secrets) those that the user typed while `spec` was
    /// [resolved](Self::resolve). They are not stored.
    #[must_use]
    pub fn with_prompted_secrets(&self, spec: &WorkloadSpec, mut secrets: SecretValues) -> SecretValues {
        let prompted =
            self.resolved_request.get().into_iter().flat_map(|request| request.prompted_secrets(&spec.name));
        secrets.extend(prompted.map(|(secret, value)| (secret.name, value.clone())).collect());
        secrets
    }

    /// Tells whether [`resolve`](Self::resolve) would now use another name: the name was generated, and another
    /// workload has taken it since.
    ///
    /// # Errors
    /// `Io` when the records cannot be read.
    pub fn would_rename(&self, spec: &WorkloadSpec) -> Result<bool> {
        let request = self.resolved_request.get().map_or(&self.request, |resolved| resolved);
        Ok(request.name_is_generated && self.name(request)? != spec.name)
    }

    /// Starts the workload and returns once clients can connect.
    ///
    /// The proxy runs on the caller's async runtime. Dropping the handle stops the workload, unless it was
    /// [detached](RunningWorkload::detach).
    ///
    /// # Errors
    /// The errors of [`secrets`](Self::secrets) and [`resolve`](Self::resolve), and `PortTaken`, `StartFailed`. A
    /// failed start leaves nothing behind.
    pub async fn start(self) -> Result<RunningWorkload> {
        let secrets = self.secrets().await?;
        loop {
            // Boxed, since it happens once and is large.
            let spec = Box::pin(self.resolve()).await?;
            let values = self.with_prompted_secrets(&spec, secrets.clone());
            let mut launch = Launch::new(spec.clone(), self.environment.clone()).secrets(values);
            launch.events = self.events.clone();
            launch.reachability = self.reachability;
            match Box::pin(launch.start()).await {
                Err(error) if error.kind() == ErrorKind::NameTaken && self.would_rename(&spec)? => {}
                outcome => return outcome,
            }
        }
    }

    /// Returns the name. A generated name is always free.
    ///
    /// # Errors
    /// `NameTaken` when a given name is not free.
    fn name(&self, request: &WorkloadRequest) -> Result<WorkloadName> {
        let taken = Store::new(&self.environment.state_dir).names()?;
        let name = request.available_name(|name| taken.contains(name));
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
    /// `InvalidOption` for an invalid group name; `CorruptState` if the file of groups is damaged.
    fn creates_group(&self) -> Result<bool> {
        match &self.request.options.group {
            Some(group) => Ok(!Groups::new(&self.environment.state_dir).exists(group)?),
            None => Ok(false),
        }
    }

    /// Checks that the network exists, before an image is pulled.
    async fn check_network(&self, runtime: &dyn Runtime) -> Result<()> {
        let options = &self.request.options;
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

    async fn image_source(&self, request: &WorkloadRequest) -> Result<ImageSource> {
        let none = || Error::new(ErrorKind::Internal, "a remote server has no image");
        ImageSource::from_request(request, &self.environment).await?.ok_or_else(none)
    }

    async fn runtime(&self) -> Result<Arc<dyn Runtime>> {
        let options = &self.request.options;
        let runtime = runtime(&self.environment, options.runtime).await?;
        let bundle = options.mcpm_ca_bundle.as_ref().map(|path| self.environment.working_dir.join(path));
        Ok(bundle.and_then(|path| runtime.with_ca_bundle(&path)).unwrap_or(runtime))
    }
}

fn not_located() -> Error {
    Error::new(ErrorKind::Internal, "a name was not looked up")
}
