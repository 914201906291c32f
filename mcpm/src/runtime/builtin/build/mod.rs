//! Builds the images of packages: runs the Dockerfiles that mcpm writes, without an engine.
//!
//! Each `FROM` begins a stage with a layer of its own. The programs of a stage run in a [sandbox](super::sandbox) on
//! this layer and the layers below. Unlike programs in the builds of engines, they have no capabilities, and connect to
//! hosts through mcpm, as isolated containers do.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use super::Builtin;
use crate::{
    Error, ErrorKind, Result,
    blocking::run_blocking,
    image::{
        Digest, ImageReference,
        store::{Draft, ImageConfig, StoredImage},
    },
    runtime::{BuildProgress, BuildRequest, build_log::BuildLog},
    state::file::{create_folders, file_error},
};

mod copy;
mod dockerfile;
mod proxies;
mod run;

use copy::BuildContext;
use dockerfile::{Instruction, expand, parse};

/// The base of a stage without files.
const SCRATCH: &str = "scratch";

/// Builds an image and returns its id.
///
/// # Errors
/// `ImageUnavailable` for a base image that is missing and for a step that fails; `Unsupported` for a Dockerfile that
/// mcpm did not write.
pub(super) async fn run(
    runtime: &Builtin,
    request: BuildRequest,
    progress: &(dyn Fn(BuildProgress) + Send + Sync),
) -> Result<String> {
    let context = BuildContext::new(request.context.clone());
    let text = context.dockerfile()?;
    let steps = parse(&text)?;
    let folder = Arc::new(BuildFolder(runtime.blocking(|runtime| runtime.images.draft()).await?));
    let build = Build {
        runtime,
        request: &request,
        context,
        folder: Arc::clone(&folder),
        stages: Vec::new(),
        log: BuildLog::new(request.args.values()),
    };
    let outcome = build.run(&steps, progress).await;
    // The build may have many files, so they are removed on a blocking thread, even when this future is dropped.
    run_blocking(move || {
        drop(folder);
        Ok(())
    })
    .await?;
    outcome
}

/// A build in progress.
struct Build<'a> {
    runtime: &'a Builtin,
    request: &'a BuildRequest,
    context: BuildContext,
    folder: Arc<BuildFolder>,
    stages: Vec<Stage>,
    log: BuildLog,
}

/// A stage: an image, and the layers above it.
#[derive(Debug, Clone)]
struct Stage {
    name: Option<String>,
    base: Option<StoredImage>,
    /// The layers of this stage and of the stages that it is based on, lowest first. The last layer is the stage's own.
    layers: Vec<PathBuf>,
    config: ImageConfig,
    /// The declared arguments of the build.
    args: BTreeMap<String, String>,
}

/// The layers of a stage.
struct StageLayers {
    own: PathBuf,
    /// The layers below the stage's own, lowest first.
    lower: Vec<PathBuf>,
}

impl Stage {
    /// Returns the folder that the stage writes to, and the layers below it.
    fn split_layers(&self) -> Result<StageLayers> {
        let (own, lower) = self.layers.split_last().ok_or_else(|| invalid("a stage has no layer"))?;
        let of_base = self.base.iter().flat_map(|image| &image.layers);
        Ok(StageLayers { own: own.clone(), lower: of_base.chain(lower).cloned().collect() })
    }

    /// Returns the variables of the image.
    fn variables(&self) -> BTreeMap<String, String> {
        let pairs = self.config.env.iter().filter_map(|variable| variable.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

impl Build<'_> {
    /// Runs the steps and adds the image; returns its id.
    async fn run(
        mut self,
        steps: &[(Instruction, &str)],
        progress: &(dyn Fn(BuildProgress) + Send + Sync),
    ) -> Result<String> {
        let total = steps.len();
        for (number, (instruction, line)) in steps.iter().enumerate() {
            self.log.push(&format!("Step {}/{total} : {line}\n", number + 1), progress);
            self.step(instruction, progress).await?;
        }
        let last = self.stages.pop().ok_or_else(|| invalid("it has no stage"))?;
        let mut config = last.config;
        config.labels.extend(self.request.labels.clone());
        let reference = self.request.tag.as_deref().map(ImageReference::parse).transpose()?;
        let add = move |runtime: &Builtin| {
            runtime.images.commit(last.base.as_ref(), last.layers, &config, reference)
        };
        self.runtime.blocking(add).await.map(|image| image.id.to_string())
    }

    async fn step(
        &mut self,
        instruction: &Instruction,
        progress: &(dyn Fn(BuildProgress) + Send + Sync),
    ) -> Result<()> {
        if let Instruction::From { base, name } = instruction {
            let stage = self.begin_stage(base, name.clone()).await?;
            self.stages.push(stage);
            return Ok(());
        }
        let Some((stage, earlier)) = self.stages.split_last_mut() else {
            return Err(invalid("it does not begin with `FROM`"));
        };
        match instruction {
            Instruction::From { .. } | Instruction::Healthcheck => {}
            Instruction::Copy { stage: None, sources, target } => {
                let (context, layers) = (self.context.clone(), stage.split_layers()?);
                let (sources, target) = (sources.clone(), target.clone());
                run_blocking(move || context.copy(&sources, &layers, &target)).await?;
            }
            Instruction::Copy { stage: Some(from), sources, target } => {
                let from = earlier.iter().find(|stage| stage.name.as_ref() == Some(from));
                let from = from.ok_or_else(|| invalid("`COPY` names an unknown stage"))?;
                let (from, layers) = (from.split_layers()?.own, stage.split_layers()?);
                let (sources, target) = (sources.clone(), target.clone());
                let draft = self.folder.0.path().to_owned();
                run_blocking(move || copy::from_layer(&from, &sources, &layers, &target, &draft)).await?;
            }
            Instruction::Run(command) => {
                run::run(
                    &self.runtime.images,
                    self.request,
                    &self.folder,
                    stage,
                    command,
                    &mut self.log,
                    progress,
                )
                .await?;
            }
            Instruction::Env(pairs) => {
                for (name, value) in pairs {
                    let mut variables = stage.variables();
                    let value = expand(value, &variables);
                    variables.insert(name.clone(), value);
                    stage.config.env =
                        variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
                }
            }
            Instruction::Arg(name) => {
                let value = self.request.args.get(name).cloned().unwrap_or_default();
                stage.args.insert(name.clone(), value);
            }
            Instruction::Label(name, value) => {
                stage.config.labels.insert(name.clone(), expand(value, &stage.args));
            }
            Instruction::User(user) => stage.config.user.clone_from(user),
            Instruction::WorkingDir(folder) => stage.config.working_dir.clone_from(folder),
            Instruction::Entrypoint(command) => {
                stage.config.entrypoint.clone_from(command);
                stage.config.command.clear();
            }
            Instruction::Command(args) => stage.config.command.clone_from(args),
        }
        Ok(())
    }

    async fn begin_stage(&self, base: &str, name: Option<String>) -> Result<Stage> {
        let layer = self.folder.new_layer(self.stages.len())?;
        if let Some(stage) = self.stages.iter().find(|stage| stage.name.as_deref() == Some(base)) {
            let mut stage = Stage { name, args: BTreeMap::new(), ..stage.clone() };
            stage.layers.push(layer);
            return Ok(stage);
        }
        if base == SCRATCH {
            let config =
                ImageConfig { architecture: std::env::consts::ARCH.to_owned(), ..ImageConfig::default() };
            return Ok(Stage { name, base: None, layers: vec![layer], config, args: BTreeMap::new() });
        }
        let name_or_id = base.to_owned();
        let image = self.runtime.blocking(move |runtime| find_base(runtime, &name_or_id)).await?;
        let missing =
            || Error::new(ErrorKind::ImageUnavailable, format!("image `{base}` is not on this machine"));
        let image = image.ok_or_else(missing)?;
        let config = image.config.clone();
        Ok(Stage { name, base: Some(image), layers: vec![layer], config, args: BTreeMap::new() })
    }
}

/// Finds the base of a stage by its name or its id: the second step of a build is based on an image without a name.
fn find_base(runtime: &Builtin, base: &str) -> Result<Option<StoredImage>> {
    if let Ok(reference) = ImageReference::parse(base)
        && let Some(image) = runtime.find_image(&reference)?
    {
        return Ok(Some(image));
    }
    Digest::parse(base).map_or(Ok(None), |id| runtime.images.get(&id))
}

/// The folder of a build, removed with it.
struct BuildFolder(Draft);

impl BuildFolder {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn new_layer(&self, number: usize) -> Result<PathBuf> {
        let path = self.path(&format!("layer-{number}"));
        create_folders(&path)
            .and_then(|()| crate::platform::set_mode(&path, 0o755))
            .map_err(|error| file_error("create", &path, error))?;
        Ok(path)
    }

    fn subfolder(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        create_folders(&path).map_err(|error| file_error("create", &path, error))?;
        Ok(path)
    }
}

fn invalid(why: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the built-in runtime cannot build this Dockerfile: {why}"))
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
