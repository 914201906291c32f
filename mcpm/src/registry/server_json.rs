//! Parses `server.json`, the format of the MCP registry, in its versions since mid 2025.
//!
//! Unknown fields are ignored, because newer versions of the format may add fields.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

use super::{
    Argument, RegistryEntry, RegistryInput, RunMethod,
    entry::sanitize,
    input_json::{InputJson, check_name, null_as_default, text_or_scalar},
    toolhive::ToolhiveExtension,
};
use crate::{
    Error, ErrorKind, Result, image::ImageReference, options::Transport, redact::url::redact_url_text,
};

const PUBLISHER_KEY: &str = "io.modelcontextprotocol.registry/publisher-provided";
const OFFICIAL_KEY: &str = "io.modelcontextprotocol.registry/official";
/// The publisher whose extension holds permissions and other settings for containers.
const STACKLOK_KEY: &str = "io.github.stacklok";
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerJson {
    name: String,
    title: Option<String>,
    #[serde(default)]
    description: String,
    version: Option<String>,
    #[serde(alias = "version_detail")]
    version_detail: Option<VersionDetail>,
    status: Option<String>,
    repository: Option<RepositoryJson>,
    #[serde(default, deserialize_with = "null_as_default")]
    packages: Vec<PackageJson>,
    #[serde(default, deserialize_with = "null_as_default")]
    remotes: Vec<RemoteJson>,
    #[serde(default, rename = "_meta", deserialize_with = "null_as_default")]
    meta: Map<String, Value>,
}

#[derive(Deserialize)]
struct VersionDetail {
    version: Option<String>,
}

#[derive(Deserialize)]
struct RepositoryJson {
    url: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PackageJson {
    #[serde(alias = "registry_type", alias = "registry_name")]
    registry_type: String,
    #[serde(alias = "registry_base_url")]
    registry_base_url: Option<String>,
    #[serde(alias = "name")]
    identifier: String,
    version: Option<String>,
    transport: Option<RemoteJson>,
    #[serde(default, alias = "runtime_arguments", deserialize_with = "null_as_default")]
    runtime_arguments: Vec<ArgumentJson>,
    #[serde(default, alias = "package_arguments", deserialize_with = "null_as_default")]
    package_arguments: Vec<ArgumentJson>,
    #[serde(default, alias = "environment_variables", deserialize_with = "null_as_default")]
    environment_variables: Vec<InputJson>,
}

#[derive(Deserialize)]
struct RemoteJson {
    #[serde(rename = "type", alias = "transport_type")]
    kind: String,
    url: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    headers: Vec<InputJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArgumentJson {
    #[serde(rename = "type")]
    kind: String,
    #[serde(alias = "value_hint")]
    value_hint: Option<String>,
    // These fields are repeated here, because serde's `flatten` for a nested struct parses numbers differently.
    name: Option<String>,
    description: Option<String>,
    #[serde(default, alias = "is_required")]
    is_required: bool,
    #[serde(default, alias = "is_secret")]
    is_secret: bool,
    #[serde(default, deserialize_with = "text_or_scalar")]
    default: Option<String>,
    #[serde(default, deserialize_with = "text_or_scalar")]
    value: Option<String>,
    format: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    choices: Vec<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    variables: BTreeMap<String, InputJson>,
}

/// Parses one server; `outer` is the metadata of the registry's API.
///
/// # Errors
/// `Registry` names the invalid part.
pub(super) fn entry(server: Value, outer: &Map<String, Value>) -> Result<RegistryEntry> {
    let json: ServerJson = serde_json::from_value(server).map_err(|error| {
        Error::new(ErrorKind::Registry, "the entry is not a valid `server.json`").source(error)
    })?;
    check_name(&json.name)?;
    let official = json.meta.get(OFFICIAL_KEY).or_else(|| outer.get(OFFICIAL_KEY));
    let official = |field: &str| official.and_then(|official| official.get(field));
    let extensions = json.meta.get(PUBLISHER_KEY).or_else(|| outer.get(PUBLISHER_KEY));
    let extensions = extensions.and_then(|all| all.get(STACKLOK_KEY)).and_then(Value::as_object);
    // The first extension applies, regardless of the image or URL that it is for.
    let extension: Option<ToolhiveExtension> = match extensions.and_then(|all| all.values().next()) {
        Some(value) => Some(serde_json::from_value(value.clone()).map_err(|error| {
            Error::new(ErrorKind::Registry, format!("the ToolHive settings of `{}` are not valid", json.name))
                .source(error)
        })?),
        None => None,
    };
    let mut entry = RegistryEntry {
        name: json.name,
        title: json.title.as_deref().map(sanitize),
        description: sanitize(&json.description),
        version: json.version.or(json.version_detail.and_then(|detail| detail.version)),
        status: official("status").and_then(Value::as_str).map(str::to_owned).or(json.status),
        repository: json.repository.and_then(|repository| repository.url).as_deref().map(sanitize),
        latest: official("isLatest")
            .or_else(|| official("is_latest"))
            .and_then(Value::as_bool)
            .unwrap_or(false),
        ..RegistryEntry::default()
    };
    for package in json.packages {
        match package_run_method(package, entry.version.as_deref())? {
            Ok(run_method) => entry.run_methods.push(run_method),
            Err(other) => entry.unsupported_packages.push(other),
        }
    }
    for remote in json.remotes {
        if remote.url.as_deref().is_some_and(|url| url.contains('{')) {
            entry.unsupported_packages.push("a remote server whose URL contains variables".to_owned());
        } else {
            entry.run_methods.push(remote_run_method(remote)?);
        }
    }
    if let Some(extension) = extension {
        extension.apply(&mut entry);
    }
    Ok(entry)
}

/// Returns the run method of a package, or the type of an unsupported package.
fn package_run_method(
    package: PackageJson,
    server_version: Option<&str>,
) -> Result<std::result::Result<RunMethod, String>> {
    let version = package.version.as_deref().filter(|version| !version.is_empty() && *version != "latest");
    let elsewhere = |usual: &str| {
        let base = package.registry_base_url.as_deref().map(|url| url.trim_end_matches('/'));
        base.filter(|base| *base != usual).map(|base| sanitize(&redact_url_text(base)))
    };
    let (server, is_image) = match package.registry_type.as_str() {
        "oci" | "docker" => (image(&package, version.or(server_version))?, true),
        "npm" => match elsewhere("https://registry.npmjs.org") {
            Some(base) => return Ok(Err(format!("a package of the npm registry `{base}`"))),
            None => (versioned("npx", &package.identifier, version), false),
        },
        "pypi" => match elsewhere("https://pypi.org") {
            Some(base) => return Ok(Err(format!("a package of the PyPI registry `{base}`"))),
            None => (versioned("uvx", &package.identifier, version), false),
        },
        other => return Ok(Err(sanitize(other))),
    };
    let (transport, target_port) = match &package.transport {
        None => (None, None),
        Some(said) => {
            let url = said.url.as_deref().and_then(|url| Url::parse(url).ok());
            (Some(transport(&said.kind)?), url.and_then(|url| url.port()))
        }
    };
    let mut run_method = RunMethod {
        server,
        is_image,
        transport,
        target_port,
        env: package.environment_variables.into_iter().map(RegistryInput::from).collect(),
        args: package.package_arguments.into_iter().map(argument).collect::<Result<_>>()?,
        ..RunMethod::default()
    };
    if is_image {
        for json in package.runtime_arguments {
            engine_argument(json, &mut run_method)?;
        }
    }
    Ok(Ok(run_method))
}

fn versioned(scheme: &str, name: &str, version: Option<&str>) -> String {
    match version {
        Some(version) => format!("{scheme}://{name}@{version}"),
        None => format!("{scheme}://{name}"),
    }
}

fn image(package: &PackageJson, version: Option<&str>) -> Result<String> {
    let mut text = package.identifier.clone();
    let base = package.registry_base_url.as_deref().and_then(|url| Url::parse(url).ok());
    if let Some(host) = base.as_ref().and_then(Url::host_str)
        && !text.starts_with(&format!("{host}/"))
        && !text.split('/').next().is_some_and(|first| first.contains(['.', ':']))
    {
        text = format!("{host}/{text}");
    }
    let parsed = ImageReference::parse(&text).map_err(|error| {
        Error::new(ErrorKind::Registry, "an image of the entry cannot be used").source(error.to_string())
    })?;
    let last = text.rsplit('/').next().unwrap_or_default();
    match version {
        Some(version) if !last.contains([':', '@']) => Ok(format!("{text}:{version}")),
        _ => Ok(parsed.to_string()),
    }
}

fn transport(kind: &str) -> Result<Transport> {
    match kind {
        "stdio" => Ok(Transport::Stdio),
        "sse" => Ok(Transport::Sse),
        "streamable-http" | "streamable" | "http" => Ok(Transport::StreamableHttp),
        other => {
            let message = format!("`{}` is not a valid transport", sanitize(other));
            Err(Error::new(ErrorKind::Registry, message))
        }
    }
}

fn remote_run_method(remote: RemoteJson) -> Result<RunMethod> {
    let url = remote.url.unwrap_or_default();
    let transport = transport(&remote.kind)?;
    if !url.starts_with("https://") && !url.starts_with("http://") {
        let message = format!("`{}` is not a valid URL of a remote server", sanitize(&redact_url_text(&url)));
        return Err(Error::new(ErrorKind::Registry, message));
    }
    Ok(RunMethod {
        server: url,
        transport: Some(transport),
        headers: remote.headers.into_iter().map(RegistryInput::from).collect(),
        ..RunMethod::default()
    })
}

fn argument(json: ArgumentJson) -> Result<Argument> {
    let named = json.kind == "named";
    let has_value = json.value.is_some()
        || json.default.is_some()
        || json.value_hint.is_some()
        || json.format.is_some()
        || !json.choices.is_empty();
    let flag = json.name.clone().unwrap_or_default();
    let label = json.value_hint.or(json.name).unwrap_or_else(|| "argument".to_owned());
    let input = InputJson {
        name: label,
        description: json.description,
        is_required: json.is_required,
        is_secret: json.is_secret,
        default: json.default,
        value: json.value,
        choices: json.choices,
        variables: json.variables,
    };
    match json.kind.as_str() {
        "positional" => Ok(Argument::Positional(input.into())),
        "named" if named && !flag.is_empty() => {
            // A flag without a value is a switch.
            Ok(Argument::Named { flag, input: has_value.then(|| input.into()) })
        }
        other => {
            let message = format!("an argument is neither positional nor named: `{}`", sanitize(other));
            Err(Error::new(ErrorKind::Registry, message))
        }
    }
}

/// Flags of `docker run` that are implied for stdio servers.
const IMPLIED_ENGINE_FLAGS: &[&str] =
    &["-i", "-t", "-it", "--interactive", "--tty", "--rm", "--init", "-d", "--detach", "--pull"];

/// Converts flags of `docker run` for which there is an option.
fn engine_argument(json: ArgumentJson, run_method: &mut RunMethod) -> Result<()> {
    let (flag, input) = match argument(json)? {
        Argument::Named { flag, input } => (flag, input),
        // Positional arguments are `run` and the image.
        Argument::Positional(_) => return Ok(()),
    };
    let Some(input) = input else {
        if !IMPLIED_ENGINE_FLAGS.contains(&flag.as_str()) {
            run_method.ignored_engine_flags.push(sanitize(&flag));
        }
        return Ok(());
    };
    match flag.as_str() {
        usual if IMPLIED_ENGINE_FLAGS.contains(&usual) => {}
        "-e" | "--env" => {
            let Some((name, value)) = input.value.as_deref().and_then(|value| value.split_once('=')) else {
                return Ok(());
            };
            let (name, value) = (name.to_owned(), value.to_owned());
            run_method.env.push(RegistryInput { name, value: Some(value), ..input });
        }
        "-v" | "--volume" => run_method.volumes.push(input),
        "--mount" => match input.value.as_deref().and_then(bind_mount) {
            Some(value) => run_method.volumes.push(RegistryInput { value: Some(value), ..input }),
            None => run_method.ignored_engine_flags.push(flag),
        },
        _ => run_method.ignored_engine_flags.push(sanitize(&flag)),
    }
    Ok(())
}

/// `--mount type=bind,src=A,dst=B` as `--volume A:B`.
fn bind_mount(mount: &str) -> Option<String> {
    let field = |names: &[&str]| {
        mount.split(',').find_map(|part| {
            let (key, value) = part.split_once('=')?;
            names.contains(&key).then_some(value)
        })
    };
    let read_only =
        mount.split(',').any(|part| matches!(part, "readonly" | "ro" | "readonly=true" | "ro=true"));
    let (source, target) = (field(&["src", "source"])?, field(&["dst", "target", "destination"])?);
    (field(&["type"]) == Some("bind"))
        .then(|| format!("{source}:{target}{}", if read_only { ":ro" } else { "" }))
}
