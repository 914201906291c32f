//! Connects to an engine, and queries its version and capabilities.

use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, BollardRequest, models::SystemVersion};

use super::{
    Docker,
    capabilities::{EngineCapabilities, SystemInfo},
    endpoint::EngineEndpoint,
    errors::api_error,
    raw_get::{REQUEST_TIMEOUT, get_json},
};
use crate::{
    Error, ErrorKind, Result,
    image::credentials::CredentialStore,
    runtime::{EngineInfo, EngineName},
};

/// The oldest supported API: Docker Engine 20.10.
const MIN_API_VERSION: (u32, u32) = (1, 41);
/// Timeout of the first request to an engine.
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of the requests for the version and the capabilities of an engine, each.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(10);

impl Docker {
    /// Connects to the engine at `endpoint`, which has two seconds to answer.
    ///
    /// # Errors
    /// `EngineUnavailable` with the reason as its cause.
    pub async fn connect(endpoint: &EngineEndpoint, credentials: CredentialStore) -> Result<Self> {
        let operation = || format!("cannot use the engine at `{endpoint}`");
        let unavailable = |why: String| Error::new(ErrorKind::EngineUnavailable, operation()).source(why);
        let seconds = REQUEST_TIMEOUT.as_secs();
        let api = match endpoint {
            EngineEndpoint::Unix(path) => match path.to_str() {
                #[cfg(unix)]
                Some(path) => bollard::Docker::connect_with_unix(path, seconds, API_DEFAULT_VERSION),
                #[cfg(windows)]
                Some(_) => {
                    return Err(unavailable("mcpm does not support Unix sockets on Windows".to_owned()));
                }
                None => return Err(unavailable("the path of its socket is not UTF-8".to_owned())),
            },
            EngineEndpoint::Tcp(authority) => {
                bollard::Docker::connect_with_http(authority, seconds, API_DEFAULT_VERSION)
            }
        };
        let failed = |error| api_error(&error, operation());
        let late = |_| unavailable("no response in time".to_owned());
        let api = api.map_err(failed)?;
        tokio::time::timeout(PING_TIMEOUT, api.ping()).await.map_err(late)?.map_err(failed)?;
        // Podman runs programs to find its versions, which takes time on a busy machine.
        let describe = async {
            let api = api.negotiate_version().await?;
            let version = api.version().await?;
            Ok((api, version))
        };
        let (api, version) =
            tokio::time::timeout(DESCRIBE_TIMEOUT, describe).await.map_err(late)?.map_err(failed)?;
        let offered = version.api_version.clone().unwrap_or_default();
        if !is_new_enough(&offered) {
            return Err(unavailable(format!("it supports API versions up to {offered} only"))
                .hint("update it to at least Docker Engine 20.10 or Podman 4"));
        }
        let spoken = api.client_version().to_string();
        let api = api.with_request_modifier(pin_version(&spoken));
        let path = format!("/v{spoken}/info");
        let info = tokio::time::timeout(DESCRIBE_TIMEOUT, get_json::<SystemInfo>(endpoint, &path))
            .await
            .map_err(late)?;
        let info = info.map_err(|failure| failure.into_error(operation()))?;
        let name = engine_name(&version);
        let capabilities = EngineCapabilities::detect(name, endpoint, &info);
        let engine = EngineInfo {
            name,
            version: version.version.unwrap_or_default(),
            api_version: spoken,
            endpoint: endpoint.to_string(),
            reaches_container_addresses: capabilities.same_kernel && !info.is_rootless(),
            shares_sockets: capabilities.same_kernel,
            architecture: info.architecture().to_owned(),
            connects_through_mcpm: false,
        };
        Ok(Self { api, endpoint: endpoint.clone(), engine, capabilities, credentials })
    }
}

/// Prefixes the path of each request with the version of the API. The client library negotiates a version but does not
/// send it, and the engine then uses its newest version.
fn pin_version(version: &str) -> impl Fn(BollardRequest) -> BollardRequest + Send + Sync + 'static {
    let prefix = format!("/v{version}");
    move |mut request| {
        let mut parts = request.uri().clone().into_parts();
        let path = parts.path_and_query.as_ref().map_or("/", |path| path.as_str());
        if !path.starts_with(&prefix) {
            parts.path_and_query = format!("{prefix}{path}").parse().ok();
            if let Ok(uri) = http::Uri::from_parts(parts) {
                *request.uri_mut() = uri;
            }
        }
        request
    }
}

fn engine_name(version: &SystemVersion) -> EngineName {
    let mut components = version.components.iter().flatten();
    if components.any(|part| part.name.to_ascii_lowercase().contains("podman")) {
        EngineName::Podman
    } else {
        EngineName::Docker
    }
}

fn is_new_enough(api: &str) -> bool {
    let parsed =
        api.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parsed.is_some_and(|version: (u32, u32)| version >= MIN_API_VERSION)
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
