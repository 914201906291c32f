//! Finds, pulls and removes images on the engine's machine.

use std::collections::{BTreeMap, HashMap};

use bollard::{
    auth::DockerCredentials,
    models::{CreateImageInfo, ImageConfig, ImageInspect},
    query_parameters::{CreateImageOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptions},
};
use futures_util::StreamExt;

use super::{
    Docker,
    errors::{EngineFailure, api_error},
    inspect::parse_port,
};
use crate::{
    Error, ErrorKind, Result,
    image::{
        ImageReference,
        credentials::{Credentials, registry_key},
    },
    runtime::{ImageInfo, Protocol, PullProgress, UntaggedImage, labels},
};

impl Docker {
    pub(super) async fn find_image(&self, reference: &ImageReference) -> Result<Option<ImageInfo>> {
        match self.api.inspect_image(&reference.to_string()).await {
            Ok(found) => Ok(Some(image_info(reference, found))),
            Err(error) => match EngineFailure::from_api(&error) {
                EngineFailure::ErrorStatus(404, _) => Ok(None),
                failure => Err(failure.into_error(format!("cannot look for image `{reference}`"))),
            },
        }
    }

    pub(super) async fn pull_image(
        &self,
        reference: &ImageReference,
        progress: &(dyn Fn(PullProgress) + Send + Sync),
    ) -> Result<ImageInfo> {
        // Unreadable credentials are no reason to fail: most images need none.
        let (login, login_problem) = match self.credentials.lookup(reference.registry()).await {
            Ok(login) => (login, None),
            Err(problem) => (None, Some(problem)),
        };
        // Without a tag, the engine would pull all tags.
        let version = reference.digest().or(reference.tag()).unwrap_or("latest");
        let options =
            CreateImageOptionsBuilder::default().from_image(&reference.familiar_name()).tag(version).build();
        let credentials = login.map(|login| docker_credentials(reference.registry(), login));
        let mut steps = Box::pin(self.api.create_image(Some(options), None, credentials));
        let mut layers = LayerProgress::default();
        while let Some(step) = steps.next().await {
            let step = step.map_err(|error| match EngineFailure::from_api(&error) {
                EngineFailure::ErrorStatus(_, why) => pull_error(reference, &why, login_problem.as_ref()),
                failure => failure.into_error(format!("cannot pull image `{reference}`")),
            })?;
            if let Some(state) = layers.record(&step) {
                progress(state);
            }
        }
        let pulled = self.api.inspect_image(&reference.to_string()).await;
        let pulled =
            pulled.map_err(|error| api_error(&error, format!("cannot inspect image `{reference}`")))?;
        Ok(image_info(reference, pulled))
    }

    pub(super) async fn list_untagged(&self, label: &str) -> Result<Vec<UntaggedImage>> {
        let filters = HashMap::from([("dangling", vec!["true"]), ("label", vec![label])]);
        let options = ListImagesOptionsBuilder::default().filters(&filters).build();
        let found = self.api.list_images(Some(options)).await;
        let found = found.map_err(|error| api_error(&error, "cannot list images".to_owned()))?;
        let untagged = found.into_iter().map(|mut image| UntaggedImage {
            label_value: image.labels.remove(label).unwrap_or_default(),
            id: image.id,
            created: image.created,
        });
        Ok(untagged.collect())
    }

    pub(super) async fn remove_unused_image(&self, id: &str) -> Result<()> {
        match self.api.remove_image(id, None::<RemoveImageOptions>, None).await {
            Ok(_) => Ok(()),
            Err(error) => match EngineFailure::from_api(&error) {
                EngineFailure::ErrorStatus(404 | 409, _) => Ok(()),
                failure => Err(failure.into_error(format!("cannot remove image `{id}`"))),
            },
        }
    }
}

fn docker_credentials(registry: &str, login: Credentials) -> DockerCredentials {
    let server = DockerCredentials {
        serveraddress: Some(registry_key(registry).to_owned()),
        ..DockerCredentials::default()
    };
    match login {
        Credentials::Password { username, password } => {
            DockerCredentials { username: Some(username), password: Some(password), ..server }
        }
        Credentials::IdentityToken(token) => DockerCredentials { identitytoken: Some(token), ..server },
    }
}

/// The downloaded bytes of each layer.
#[derive(Default)]
struct LayerProgress(BTreeMap<String, (u64, u64)>);

impl LayerProgress {
    fn record(&mut self, step: &CreateImageInfo) -> Option<PullProgress> {
        let layer = step.id.clone()?;
        match step.status.as_deref()? {
            "Downloading" => {
                let detail = step.progress_detail.as_ref()?;
                let bytes = |count: Option<i64>| count.and_then(|count| u64::try_from(count).ok());
                let current = bytes(detail.current)?;
                let total = bytes(detail.total).unwrap_or(current).max(current);
                self.0.insert(layer, (current, total));
            }
            "Download complete" | "Pull complete" => {
                let (current, total) = self.0.get_mut(&layer)?;
                if current == total {
                    return None;
                }
                *current = *total;
            }
            _ => return None,
        }
        let sum = |part: fn(&(u64, u64)) -> u64| self.0.values().map(part).sum();
        Some(PullProgress { current: sum(|layer| layer.0), total: sum(|layer| layer.1) })
    }
}

fn image_info(reference: &ImageReference, found: ImageInspect) -> ImageInfo {
    let ImageConfig { exposed_ports, entrypoint, cmd, labels, .. } = found.config.unwrap_or_default();
    let ports = exposed_ports.unwrap_or_default();
    let tcp =
        ports.iter().filter_map(|port| parse_port(port)).filter(|(_, protocol)| *protocol == Protocol::Tcp);
    let mut exposed_ports: Vec<u16> = tcp.map(|(port, _)| port).collect();
    exposed_ports.sort_unstable();
    exposed_ports.dedup();
    let is_its_own =
        |digest: &String| ImageReference::parse(digest).is_ok_and(|digest| digest.same_repository(reference));
    ImageInfo {
        id: found.id.unwrap_or_default(),
        digest: found.repo_digests.into_iter().flatten().find(is_its_own),
        exposed_ports,
        entrypoint: entrypoint.unwrap_or_default(),
        command: cmd.unwrap_or_default(),
        labels: labels
            .unwrap_or_default()
            .into_iter()
            .filter(|(key, _)| key.starts_with(labels::PACKAGE))
            .collect(),
    }
}

/// Creates the error for an image that the engine could not pull, from the engine's message.
fn pull_error(reference: &ImageReference, why: &str, login_problem: Option<&Error>) -> Error {
    let registry = reference.registry();
    let said = why.to_ascii_lowercase();
    let says = |texts: &[&str]| texts.iter().any(|text| said.contains(text));
    let (what, hint) = if says(&["pull access denied", "requested access to the resource is denied"]) {
        (
            "does not exist or is private",
            format!("check the name for typos, or run `docker login {registry}`"),
        )
    } else if says(&["toomanyrequests", "rate limit"]) {
        (
            "cannot be pulled now, because a rate limit was reached",
            format!("wait, or run `docker login {registry}` for a higher limit"),
        )
    } else if says(&[
        "unauthorized",
        "no basic auth",
        "authentication required",
        "incorrect username",
        "denied",
    ]) {
        ("requires a login", format!("run `docker login {registry}`"))
    } else if says(&["no matching manifest", "does not match the specified platform"]) {
        (
            "is not available for the platform of this machine",
            "ask its publisher for a build for this platform".to_owned(),
        )
    } else if says(&["manifest unknown", "not found", "name unknown", "name_unknown"])
        && !says(&["no such host"])
    {
        ("does not exist", "check the name and the tag for typos".to_owned())
    } else if says(&["x509", "certificate", "tls:", "http response to https"]) {
        ("cannot be pulled over TLS", format!("let the engine trust the certificate of `{registry}`"))
    } else if says(&[
        "no such host",
        "dial tcp",
        "timeout",
        "connection refused",
        "i/o timeout",
        "unreachable",
        "lookup ",
    ]) {
        ("cannot be fetched", format!("check that this machine can reach `{registry}`"))
    } else {
        ("cannot be pulled", "see the log of the container engine for details".to_owned())
    };
    let error = Error::new(ErrorKind::ImageUnavailable, format!("image `{reference}` {what}"))
        .with("registry", registry)
        .hint(hint)
        .source(why.to_owned());
    match login_problem {
        Some(problem) => error.with("login", problem),
        None => error,
    }
}

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
