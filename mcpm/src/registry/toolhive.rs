//! Parses ToolHive's registry layout, and ToolHive's extension of `server.json`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{
    Argument, RegistryEntry, RegistryInput, RunMethod,
    entry::sanitize,
    input_json::{InputJson, check_name, null_as_default},
    notice::{OnNotice, collect_readable},
};
use crate::{
    Error, ErrorKind, Result, image::ImageReference, options::Transport, redact::url::redact_url_text,
};

/// A whole registry. Groups hold further servers, which are found by the same names.
#[derive(Deserialize)]
pub(super) struct ToolhiveDocument {
    #[serde(default, deserialize_with = "null_as_default")]
    servers: BTreeMap<String, Value>,
    #[serde(default, deserialize_with = "null_as_default")]
    remote_servers: BTreeMap<String, Value>,
    #[serde(default, deserialize_with = "null_as_default")]
    groups: Vec<ToolhiveGroup>,
}

#[derive(Deserialize)]
struct ToolhiveGroup {
    #[serde(default, deserialize_with = "null_as_default")]
    servers: BTreeMap<String, Value>,
    #[serde(default, deserialize_with = "null_as_default")]
    remote_servers: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct ToolhiveServer {
    title: Option<String>,
    #[serde(default)]
    description: String,
    image: Option<String>,
    url: Option<String>,
    transport: Option<String>,
    repository_url: Option<String>,
    target_port: Option<u16>,
    #[serde(default, deserialize_with = "null_as_default")]
    headers: Vec<InputJson>,
}

/// The settings that both layouts have.
#[derive(Default, Deserialize)]
pub(super) struct ToolhiveExtension {
    tier: Option<String>,
    status: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    tags: Vec<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    tools: Vec<String>,
    proxy_port: Option<u16>,
    permissions: Option<Value>,
    provenance: Option<Value>,
    #[serde(default, deserialize_with = "null_as_default")]
    args: Vec<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    env_vars: Vec<InputJson>,
    #[serde(default)]
    metadata: Value,
}

impl ToolhiveExtension {
    /// Adds the settings to an entry.
    pub(super) fn apply(self, entry: &mut RegistryEntry) {
        entry.tier = self.tier.as_deref().map(sanitize).or(entry.tier.take());
        entry.status = entry.status.take().or(self.status.map(|status| sanitize(&status).to_lowercase()));
        entry.tags.extend(self.tags.iter().map(|tag| sanitize(tag)));
        entry.tools.extend(self.tools.iter().map(|tool| sanitize(tool)));
        // An invalid count is ignored, so that the server is still listed.
        entry.stars = self.metadata.get("stars").and_then(Value::as_u64);
        let fixed = |value: &String| {
            Argument::Positional(RegistryInput {
                name: "argument".to_owned(),
                value: Some(value.clone()),
                // These values are not templates.
                ..RegistryInput::default()
            })
        };
        let env: Vec<RegistryInput> = self.env_vars.into_iter().map(RegistryInput::from).collect();
        for run_method in &mut entry.run_methods {
            run_method.proxy_port = self.proxy_port.or(run_method.proxy_port);
            if run_method.is_image {
                run_method.permissions.clone_from(&self.permissions);
                run_method.provenance.clone_from(&self.provenance);
            }
            if run_method.args.is_empty() {
                run_method.args = self.args.iter().map(fixed).collect();
            }
            for input in &env {
                if run_method.env.iter().all(|known| known.name != input.name) {
                    run_method.env.push(input.clone());
                }
            }
        }
    }
}

/// Parses all entries. Invalid ones are skipped with a notice.
pub(super) fn entries(document: Value, on_notice: OnNotice<'_>) -> Result<Vec<RegistryEntry>> {
    let document: ToolhiveDocument = serde_json::from_value(document)
        .map_err(|error| Error::new(ErrorKind::Registry, "the registry cannot be read").source(error))?;
    let groups =
        document.groups.into_iter().flat_map(|group| group.servers.into_iter().chain(group.remote_servers));
    let all = document.servers.into_iter().chain(document.remote_servers).chain(groups);
    Ok(collect_readable(all.map(|(name, server)| entry(&name, server)), on_notice))
}

fn entry(name: &str, value: Value) -> Result<RegistryEntry> {
    let bad = |reason: String| Error::new(ErrorKind::Registry, format!("`{}`: {reason}", sanitize(name)));
    check_name(name)?;
    let server: ToolhiveServer =
        serde_json::from_value(value.clone()).map_err(|error| bad(error.to_string()))?;
    let extension: ToolhiveExtension =
        serde_json::from_value(value).map_err(|error| bad(error.to_string()))?;
    let transport = match server.transport.as_deref() {
        None => None,
        Some(word) => Some(word.parse::<Transport>().map_err(|error| bad(error.message().to_owned()))?),
    };
    let (text, is_image) = match (server.image, server.url) {
        (Some(image), None) => {
            ImageReference::parse(&image).map_err(|error| bad(error.to_string()))?;
            (image, true)
        }
        (None, Some(url)) if url.starts_with("https://") || url.starts_with("http://") => (url, false),
        (None, Some(url)) => {
            return Err(bad(format!(
                "`{}` is not a valid URL of a remote server",
                sanitize(&redact_url_text(&url))
            )));
        }
        (Some(_), Some(_)) => return Err(bad("it has both an image and a URL".to_owned())),
        (None, None) => return Err(bad("it has neither an image nor a URL".to_owned())),
    };
    let run_method = RunMethod {
        server: text,
        is_image,
        transport,
        target_port: server.target_port,
        headers: server.headers.into_iter().map(RegistryInput::from).collect(),
        ..RunMethod::default()
    };
    let mut entry = RegistryEntry {
        name: name.to_owned(),
        title: server.title.as_deref().map(sanitize),
        description: sanitize(&server.description),
        repository: server.repository_url.as_deref().map(sanitize),
        run_methods: vec![run_method],
        ..RegistryEntry::default()
    };
    extension.apply(&mut entry);
    Ok(entry)
}
