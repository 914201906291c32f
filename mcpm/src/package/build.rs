//! Finds or builds the image of a package.
//!
//! An existing image is used, even if the package has a newer version, unless its base images have changed; `rebuild`
//! resolves the version again. The image is built in two steps. The first step installs the package and reports its
//! version and its commands; the second step sets the entry point and the labels. Only the second step names the image,
//! so an image with that name is always complete.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{dockerfile, recipe::Recipe, report::InstallReport};
use crate::{
    Error, ErrorKind, Result,
    image::ImageReference,
    random::random_token,
    runtime::{BuildProgress, BuildRequest, ImageInfo, PullProgress, Runtime, UntaggedImage, labels},
};

/// The label with the installed version.
const VERSION_LABEL: &str = "mcpm-package-version";
/// The label with the base images.
const BASES_LABEL: &str = "mcpm-package-bases";
/// Age after which images that builds left are removed.
const MAX_LEFTOVER_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// When an image is built.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BuildPolicy {
    /// Nothing is fetched: the engine must have the image.
    pub(crate) offline: bool,
    /// The image is built even if the engine has it.
    pub(crate) rebuild: bool,
}

/// The progress of a build.
#[derive(Debug)]
pub(crate) enum PackageBuildProgress {
    /// A base image is pulled.
    Pulling(ImageReference, PullProgress),
    /// The image is built.
    Building(BuildProgress),
}

/// The image of a package.
#[derive(Debug, Clone)]
pub(crate) struct BuiltImage {
    pub(crate) info: ImageInfo,
    /// The version of the package in it.
    pub(crate) version: String,
}

/// Finds the image of a package, if its base images have not changed since it was built.
pub(crate) async fn find(runtime: &dyn Runtime, recipe: &Recipe) -> Result<Option<BuiltImage>> {
    let Some(info) = runtime.image(&recipe.image).await? else { return Ok(None) };
    let Some(version) = info.labels.get(VERSION_LABEL).cloned() else { return Ok(None) };
    // A base image that is missing counts as unchanged.
    let built_from = info.labels.get(BASES_LABEL).map(String::as_str).unwrap_or_default();
    for base in &recipe.bases {
        if let Some(base) = runtime.image(base).await?
            && !built_from.split(' ').any(|id| id == base.id)
        {
            return Ok(None);
        }
    }
    Ok(Some(BuiltImage { info, version }))
}

/// Makes sure that the engine has the image of a package.
///
/// # Errors
/// `ImageUnavailable` when a base image cannot be pulled, a step of the build fails, or the image is missing and
/// `offline` forbids a build; `InvalidOption` when the package has no command, or several.
pub(crate) async fn ensure(
    runtime: &dyn Runtime,
    recipe: &Recipe,
    allowed: BuildPolicy,
    progress: &(dyn Fn(PackageBuildProgress) + Send + Sync),
) -> Result<BuiltImage> {
    if !allowed.rebuild
        && let Some(built) = find(runtime, recipe).await?
    {
        return Ok(built);
    }
    let package = &recipe.package;
    if allowed.offline {
        let message = format!("`{package}` was not built on this machine yet");
        return Err(Error::new(ErrorKind::ImageUnavailable, message).hint("run it once without `offline`"));
    }
    let mut bases = Vec::new();
    for base in &recipe.bases {
        let here = if allowed.rebuild { None } else { runtime.image(base).await? };
        let found = match here {
            Some(here) => here,
            None => pull_base(runtime, base, allowed, progress).await?,
        };
        bases.push(found.id);
    }
    // Builds of a local project share an id, so that the next build reuses the layers; a package is installed only
    // once.
    let build = match package.project() {
        Some(_) => package.to_string(),
        None => random_token()?,
    };
    let replaced = runtime.image(&recipe.image).await?;
    // If the images cannot be listed, the list is empty, so that no image of a concurrent build is taken for a
    // leftover.
    let before = runtime.untagged_images(labels::BUILD).await.unwrap_or_default();
    let outcome = run_build(runtime, recipe, &build, &bases, allowed, progress).await;
    let leftovers = Leftovers {
        builds: replaced.iter().filter_map(|image| image.labels.get(labels::BUILD)).chain([&build]).collect(),
        is_project: package.project().is_some(),
        before: before.iter().map(|image| &image.id).chain(replaced.iter().map(|image| &image.id)).collect(),
    };
    // A failure to clean up does not fail the build.
    if let Err(error) = leftovers.remove(runtime).await {
        tracing::warn!(%error, "images of a build could not be removed");
    }
    outcome
}

/// Runs both steps of the build.
async fn run_build(
    runtime: &dyn Runtime,
    recipe: &Recipe,
    build: &str,
    bases: &[String],
    allowed: BuildPolicy,
    progress: &(dyn Fn(PackageBuildProgress) + Send + Sync),
) -> Result<BuiltImage> {
    let package = &recipe.package;
    let of_package = |error: Error| error.with("package", package);
    let (id, report) =
        run_install_stage(runtime, recipe, build, allowed, progress).await.map_err(of_package)?;
    let command = report.choose(package, recipe.command.as_deref())?;
    let labels = BTreeMap::from([
        (labels::PACKAGE.to_owned(), package.to_string()),
        (VERSION_LABEL.to_owned(), report.version.clone()),
        (BASES_LABEL.to_owned(), bases.join(" ")),
        (labels::BUILD.to_owned(), build.to_owned()),
    ]);
    let request = BuildRequest {
        context: Recipe::entrypoint_context(&id, &command.path)?,
        tag: Some(recipe.image.to_string()),
        labels,
        ..BuildRequest::default()
    };
    runtime.build(request, &|_| {}).await.map_err(of_package)?;
    let info = runtime.image(&recipe.image).await?;
    let gone = || {
        Error::new(
            ErrorKind::Engine,
            format!("the engine built `{}`, but does not have the image", recipe.image),
        )
    };
    Ok(BuiltImage { info: info.ok_or_else(gone)?, version: report.version })
}

/// Untagged images that builds have left: the install stage, the image that a rebuild replaced, and those of
/// interrupted builds.
struct Leftovers<'a> {
    /// The labels of this build, and of the build of the replaced image.
    builds: Vec<&'a String>,
    /// Whether it is a local project, whose builds have the same label and may run concurrently.
    is_project: bool,
    /// Images that existed before the build.
    before: Vec<&'a String>,
}

impl Leftovers<'_> {
    async fn remove(&self, runtime: &dyn Runtime) -> Result<()> {
        let found = runtime.untagged_images(labels::BUILD).await?;
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let oldest = i64::try_from(since_1970.saturating_sub(MAX_LEFTOVER_AGE.as_secs())).unwrap_or_default();
        for image in self.among(found, oldest) {
            runtime.remove_image(&image.id).await?;
        }
        Ok(())
    }

    fn among(&self, mut found: Vec<UntaggedImage>, oldest: i64) -> Vec<UntaggedImage> {
        found.sort_by_key(|image| std::cmp::Reverse(image.created));
        let is_of_build = |image: &UntaggedImage| self.builds.contains(&&image.label_value);
        // The newest image of a local project is kept, since the next build reuses the modules that were fetched.
        let newest = found.iter().find(|image| is_of_build(image)).map(|image| image.id.clone());
        let reusable = newest.filter(|_| self.is_project);
        found.retain(|image| {
            let is_over = !self.is_project || self.before.contains(&&image.id);
            (is_of_build(image) && is_over || image.created < oldest) && reusable.as_ref() != Some(&image.id)
        });
        found
    }
}

/// Pulls a base image. If that fails, the local image is used.
async fn pull_base(
    runtime: &dyn Runtime,
    base: &ImageReference,
    allowed: BuildPolicy,
    progress: &(dyn Fn(PackageBuildProgress) + Send + Sync),
) -> Result<ImageInfo> {
    let pulled =
        runtime.pull(base, &|step| progress(PackageBuildProgress::Pulling(base.clone(), step))).await;
    match pulled {
        Err(error) if allowed.rebuild && error.kind() == ErrorKind::ImageUnavailable => {
            runtime.image(base).await?.ok_or(error)
        }
        Err(error) => Err(error.with("base image", base)),
        Ok(info) => Ok(info),
    }
}

/// Installs the package in an untagged image.
async fn run_install_stage(
    runtime: &dyn Runtime,
    recipe: &Recipe,
    build: &str,
    allowed: BuildPolicy,
    progress: &(dyn Fn(PackageBuildProgress) + Send + Sync),
) -> Result<(String, InstallReport)> {
    // A random word, which an installed package cannot know.
    let word = random_token()?;
    let mut args = recipe.args.clone();
    args.insert(dockerfile::REPORT_ARG.to_owned(), word.clone());
    args.insert(dockerfile::BUILD_ARG.to_owned(), build.to_owned());
    let request = BuildRequest {
        context: recipe.context.clone(),
        args,
        // The base image of the last stage may not have this label.
        labels: BTreeMap::from([(labels::BUILD.to_owned(), build.to_owned())]),
        no_cache: allowed.rebuild,
        hosts: recipe.hosts.clone(),
        ..BuildRequest::default()
    };
    let said = Mutex::new(None);
    let heard = |step: BuildProgress| {
        if let BuildProgress::Line(line) = &step
            && line.starts_with(&word)
        {
            // No code panics while it holds the lock.
            *said.lock().unwrap_or_else(PoisonError::into_inner) = InstallReport::read(line, &word);
            return;
        }
        progress(PackageBuildProgress::Building(step));
    };
    let id = runtime.build(request, &heard).await?;
    let said = said.into_inner().unwrap_or_else(PoisonError::into_inner);
    let report = said.ok_or_else(|| {
        Error::new(ErrorKind::ImageUnavailable, "the build did not report what it installed")
    })?;
    Ok((id, report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stage_of_another_build_of_the_same_project_is_no_leftover() {
        let ids = ["before", "replaced", "other", "own", "strange", "ancient"].map(str::to_owned);
        let builds = ["project", "project", "project", "project", "x", "y"].map(str::to_owned);
        let found = || {
            let images = ids.iter().zip(&builds).zip([10, 11, 12, 13, 14, 1]);
            images
                .map(|((id, value), created)| UntaggedImage {
                    id: id.clone(),
                    created,
                    label_value: value.clone(),
                })
                .collect()
        };
        for (is_project, removed) in [
            (true, &["replaced", "before", "ancient"][..]),
            (false, &["own", "other", "replaced", "before", "ancient"]),
        ] {
            let leftovers =
                Leftovers { builds: vec![&builds[0]], is_project, before: vec![&ids[0], &ids[1]] };
            let images = leftovers.among(found(), 5);
            assert_eq!(images.iter().map(|image| image.id.as_str()).collect::<Vec<_>>(), removed);
        }
    }
}
