//! Makes sure that the image of a package is here: found, or built.
//!
//! An image that is here is used as it is, whatever newer version of the package there is: it was resolved once,
//! and is resolved again when somebody asks for it. It is built in two steps. The first installs the package and
//! says which version that is and which commands it has; the second says what is started and labels the image.
//! Only the second gives it its name, so an image of that name is a whole one.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{dockerfile, recipe::Recipe, report::Report};
use crate::{
    Error, ErrorKind, Result,
    image::ImageReference,
    runtime::{BuildProgress, BuildRequest, ImageInfo, PullProgress, Runtime, UntaggedImage, labels},
};

/// The label that says which version of it was found.
const VERSION: &str = "mcpm-package-version";
/// The label that says which base images it was built from.
const BASES: &str = "mcpm-package-bases";
/// Images that a build has left are kept no longer, whatever they were left for.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What may be done to get an image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// Nothing is fetched: the image must be here.
    pub(crate) offline: bool,
    /// The image is built even if it is here.
    pub(crate) rebuild: bool,
}

/// What happens meanwhile.
#[derive(Debug)]
pub(crate) enum Progress {
    /// A base image is pulled.
    Pulling(ImageReference, PullProgress),
    /// The image is built.
    Building(BuildProgress),
}

/// The image of a package.
#[derive(Debug, Clone)]
pub(crate) struct Built {
    pub(crate) info: ImageInfo,
    /// The version of the package in it.
    pub(crate) version: String,
}

/// Finds the image of a package, if it was built from what is here now.
pub(crate) async fn find(runtime: &dyn Runtime, recipe: &Recipe) -> Result<Option<Built>> {
    let Some(info) = runtime.image(&recipe.image).await? else { return Ok(None) };
    let Some(version) = info.labels.get(VERSION).cloned() else { return Ok(None) };
    // A base that is gone was not replaced.
    let built_from = info.labels.get(BASES).map(String::as_str).unwrap_or_default();
    for base in &recipe.bases {
        if let Some(base) = runtime.image(base).await?
            && !built_from.split(' ').any(|id| id == base.id)
        {
            return Ok(None);
        }
    }
    Ok(Some(Built { info, version }))
}

/// Makes sure that the image of a package is here.
///
/// # Errors
/// `ImageUnavailable` when a base image cannot be pulled, a step of the build fails, or what is not here may not be
/// fetched; `InvalidOption` when the package has no command, or several.
pub(crate) async fn ensure(
    runtime: &dyn Runtime,
    recipe: &Recipe,
    allowed: Allowed,
    progress: &(dyn Fn(Progress) + Send + Sync),
) -> Result<Built> {
    if !allowed.rebuild
        && let Some(built) = find(runtime, recipe).await?
    {
        return Ok(built);
    }
    let package = &recipe.package;
    if allowed.offline {
        let message = format!("`{package}` was not built on this machine yet");
        return Err(Error::new(ErrorKind::ImageUnavailable, message).hint("run it once without `--offline`"));
    }
    let mut bases = Vec::new();
    for base in &recipe.bases {
        let here = if allowed.rebuild { None } else { runtime.image(base).await? };
        let found = match here {
            Some(here) => here,
            None => pulled(runtime, base, allowed, progress).await?,
        };
        bases.push(found.id);
    }
    // Steps of a local project are found again by the next build of it; a package is installed once.
    let build = match package.project() {
        Some(_) => package.to_string(),
        None => random_word()?,
    };
    let replaced = runtime.image(&recipe.image).await?.and_then(|mut info| info.labels.remove(labels::BUILD));
    let outcome = finished(runtime, recipe, &build, &bases, allowed, progress).await;
    // A failure to remove what the steps left is none of the build.
    if let Err(error) = remove_leftovers(runtime, recipe, &build, replaced.as_deref()).await {
        tracing::warn!(%error, "images of a build were left behind");
    }
    outcome
}

/// Does both steps of the build.
async fn finished(
    runtime: &dyn Runtime,
    recipe: &Recipe,
    build: &str,
    bases: &[String],
    allowed: Allowed,
    progress: &(dyn Fn(Progress) + Send + Sync),
) -> Result<Built> {
    let package = &recipe.package;
    let of_package = |error: Error| error.with("package", package);
    let (id, report) = installed(runtime, recipe, build, allowed, progress).await.map_err(of_package)?;
    let command = report.choose(package, recipe.command.as_deref())?;
    let labels = BTreeMap::from([
        (labels::PACKAGE.to_owned(), package.to_string()),
        (VERSION.to_owned(), report.version.clone()),
        (BASES.to_owned(), bases.join(" ")),
        (labels::BUILD.to_owned(), build.to_owned()),
    ]);
    let request = BuildRequest {
        context: Recipe::finishing(&id, &command.path)?,
        tag: Some(recipe.image.to_string()),
        labels,
        ..BuildRequest::default()
    };
    runtime.build(request, &|_| {}).await.map_err(of_package)?;
    let info = runtime.image(&recipe.image).await?;
    let gone = || Error::new(ErrorKind::Engine, format!("`{}` was built and is not here", recipe.image));
    Ok(Built { info: info.ok_or_else(gone)?, version: report.version })
}

/// Removes images without a name that builds have left: the stage that installs, the image that a rebuilt one replaced,
/// and those of builds that were interrupted.
async fn remove_leftovers(
    runtime: &dyn Runtime,
    recipe: &Recipe,
    build: &str,
    replaced: Option<&str>,
) -> Result<()> {
    let mut found = runtime.untagged_images(labels::BUILD).await?;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let oldest = i64::try_from(since_1970.saturating_sub(MAX_AGE.as_secs())).unwrap_or_default();
    found.sort_by_key(|image| std::cmp::Reverse(image.created));
    let own = |image: &&UntaggedImage| image.value == build;
    // The next build of a local project finds the modules there that it has already fetched.
    let kept = recipe.package.project().and_then(|_| found.iter().find(own)).map(|image| image.id.clone());
    for image in &found {
        let is_leftover = own(&image) || replaced == Some(&image.value) || image.created < oldest;
        if is_leftover && kept.as_ref() != Some(&image.id) {
            runtime.remove_image(&image.id).await?;
        }
    }
    Ok(())
}

/// Gets a base image. One that cannot be fetched anew is used as it is here.
async fn pulled(
    runtime: &dyn Runtime,
    base: &ImageReference,
    allowed: Allowed,
    progress: &(dyn Fn(Progress) + Send + Sync),
) -> Result<ImageInfo> {
    let pulled = runtime.pull(base, &|step| progress(Progress::Pulling(base.clone(), step))).await;
    match pulled {
        Err(error) if allowed.rebuild && error.kind() == ErrorKind::ImageUnavailable => {
            runtime.image(base).await?.ok_or(error)
        }
        Err(error) => Err(error.with("base image", base)),
        Ok(info) => Ok(info),
    }
}

/// Installs the package in an image without a name.
async fn installed(
    runtime: &dyn Runtime,
    recipe: &Recipe,
    build: &str,
    allowed: Allowed,
    progress: &(dyn Fn(Progress) + Send + Sync),
) -> Result<(String, Report)> {
    // A word that nothing which is installed can know.
    let word = random_word()?;
    let mut args = recipe.args.clone();
    args.insert(dockerfile::REPORT.to_owned(), word.clone());
    args.insert(dockerfile::BUILD.to_owned(), build.to_owned());
    let request = BuildRequest {
        context: recipe.context.clone(),
        args,
        // The last stage may be based on nothing that has it.
        labels: BTreeMap::from([(labels::BUILD.to_owned(), build.to_owned())]),
        afresh: allowed.rebuild,
        ..BuildRequest::default()
    };
    let said = Mutex::new(None);
    let heard = |step: BuildProgress| {
        if let BuildProgress::Line(line) = &step
            && line.starts_with(&word)
        {
            // No code panics while it holds the lock.
            *said.lock().unwrap_or_else(PoisonError::into_inner) = Report::read(line, &word);
            return;
        }
        progress(Progress::Building(step));
    };
    let id = runtime.build(request, &heard).await?;
    let said = said.into_inner().unwrap_or_else(PoisonError::into_inner);
    let report = said
        .ok_or_else(|| Error::new(ErrorKind::ImageUnavailable, "the build did not say what it installed"))?;
    Ok((id, report))
}

fn random_word() -> Result<String> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random)
        .map_err(|error| Error::new(ErrorKind::Internal, "no random numbers").source(error.to_string()))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
