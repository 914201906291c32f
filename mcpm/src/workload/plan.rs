//! Describes what would be started, as `mcpm run --plan` prints it.

use std::fmt;

use serde::{Serialize, Serializer, ser::Error as _};

use super::{
    Placement, PlannedVerification, WorkloadSpec, ignore, resolve::value_origins, secret_delivery, spec::Via,
};
use crate::{
    audit::AuditSink,
    package::Recipe,
    permission::Bytes,
    redact::url::redact_url_text,
    runtime::{ContainerSpec, EngineInfo, ImageInfo, Network, builtin::HOST_IMAGE},
};

/// What `mcpm run` would start. A plan changes nothing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The spec, with the origin of every value. Only the names of variables are serialized.
    #[serde(serialize_with = "serialize_redacted")]
    pub spec: WorkloadSpec,
    /// The engine that the workload would run on; `None` for a remote server.
    pub engine: Option<EngineInfo>,
    /// The image on the engine; `None` when it would be pulled, in which case its ports and entry point are not known
    /// yet.
    pub image: Option<ImageInfo>,
    /// The command in the container; `None` for a remote server, and when the image is not known.
    pub command: Option<Vec<String>>,
    /// How the image is built; `None` if it is pulled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<PlannedBuild>,
    /// How the image is verified; `None` for a remote server and for an image that is built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<PlannedVerification>,
    /// Names of the values that the user would be prompted for.
    pub questions: Vec<String>,
    /// Whether the group would be created.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub creates_group: bool,
}

/// How the image of a package is built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedBuild {
    /// The base images; missing ones are pulled.
    pub bases: Vec<String>,
    /// The Dockerfile.
    pub dockerfile: String,
}

impl PlannedBuild {
    pub(super) fn from_recipe(recipe: &Recipe) -> Self {
        let bases = recipe.bases.iter().map(ToString::to_string).collect();
        Self { bases, dockerfile: recipe.dockerfile.clone() }
    }
}

/// Returns the command in the container, if the image is known.
pub(super) fn command(spec: &WorkloadSpec, image: Option<&ImageInfo>) -> Option<Vec<String>> {
    let (container, image) = (spec.container()?, image?);
    // The container of an isolated server starts the shim, which gets this command.
    if let Some(isolation) = &spec.isolation {
        return Some(isolation.command.clone());
    }
    let args = if container.args.is_empty() { &image.command } else { &container.args };
    Some(image.entrypoint.iter().chain(args).cloned().collect())
}

impl Plan {
    fn rows(&self) -> Vec<(String, String, String)> {
        let spec = &self.spec;
        let origin = |name: &str| spec.origins.get(name).map(ToString::to_string).unwrap_or_default();
        let row = |name: &str, value: String, field: &str| (name.to_owned(), value, origin(field));
        let created = if self.creates_group { ", which is created" } else { "" };
        let group = format!("{}{created}", spec.group);
        let mut rows = vec![row("name", spec.name.to_string(), "name"), row("group", group, "group")];
        let container = match &spec.place {
            Placement::Container(container) => Some(container.as_ref()),
            Placement::Remote(remote) => {
                rows.push(row("url", remote.redacted_url(), "url"));
                for header in remote.headers.keys() {
                    // Values may be secrets, like those of variables.
                    rows.push(row("header", header.clone(), &format!("header.{header}")));
                }
                rows.extend(secrets(spec, false));
                None
            }
        };
        if let Some(package) = &spec.package {
            rows.push(row("package", package.to_string(), "image"));
        }
        if let Some(container) = container {
            rows.push(row("image", container.image.clone(), "image"));
        }
        match (&self.image, container) {
            (_, None) => {}
            (Some(image), Some(_)) => {
                rows.push(row("image id", image.id.clone(), ""));
                let command: Vec<_> = self.command.iter().flatten().map(|arg| format!("{arg:?}")).collect();
                rows.push(row("command", command.join(" "), "args"));
            }
            (None, Some(_)) => {
                let how = match &self.build {
                    Some(build) => format!("built first, from `{}`", build.bases.join("`, `")),
                    None => "pulled first, which may change the ports and the transport".to_owned(),
                };
                rows.push(row("image id", how, ""));
                if self.build.as_ref().is_some_and(|build| build.bases.iter().any(|base| base == HOST_IMAGE))
                {
                    let folders = "the system folders of this machine, such as `/usr`, read-only";
                    rows.push(row("base", folders.to_owned(), ""));
                }
                let steps = self.build.iter().flat_map(|build| build.dockerfile.lines());
                rows.extend(
                    steps.filter(|step| !step.is_empty()).map(|step| row("build", step.to_owned(), "")),
                );
            }
        }
        if let Some(verification) = &self.verification {
            rows.push(row("verification", verification.to_string(), ""));
        }
        rows.push(row("transport", spec.transport.to_string(), "transport"));
        let port = if spec.proxy.port == 0 { "a free port".to_owned() } else { spec.proxy.port.to_string() };
        rows.push(row("proxy host", spec.proxy.host.clone(), "host"));
        rows.push(row("proxy port", port, "proxy_port"));
        if let Some(incoming) = &spec.proxy.incoming {
            let sources = [&incoming.issuer, &incoming.jwks_url, &incoming.introspection_url];
            let source = sources.into_iter().flatten().next().map_or("nobody", String::as_str);
            rows.push(row("callers", format!("with a token from {source}"), "incoming"));
        }
        if let Some(exchange) = &spec.proxy.exchange {
            let whose = exchange.audience.as_ref().map(|audience| format!(" for `{audience}`"));
            let at = redact_url_text(&exchange.url);
            rows.push(row("token exchange", format!("at {at}{}", whose.unwrap_or_default()), "exchange"));
        }
        if let Some(target) = &spec.target {
            let via = match &target.via {
                Via::ContainerAddress => "on the container's address".to_owned(),
                Via::Inbound => "over the isolated container's own socket".to_owned(),
                Via::PublishedPort => "published on this machine".to_owned(),
                Via::Host(host) => format!("on `{host}`"),
            };
            rows.push(row("server port", format!("{} {via}", target.port), "target_port"));
        } else if container.is_some() {
            rows.push(row("proxy mode", spec.proxy.mode.to_string(), "proxy_mode"));
        }
        let policy = &spec.proxy.policy;
        if !policy.tools.is_empty() {
            rows.push(row("tools", policy.tools.join(", "), "tools"));
        }
        for (own, shown) in &policy.overrides {
            let name = shown.name.as_ref().unwrap_or(own);
            let also = if shown.description.is_some() { ", with another description" } else { "" };
            rows.push(row("tool override", format!("{own} -> {name}{also}"), "tools_override"));
        }
        if let Some(authorization) = &policy.authorization {
            let number = authorization.policies.len();
            let word = if number == 1 { "policy" } else { "policies" };
            rows.push(row("authorization", format!("{number} {word}"), "authz_config"));
        }
        if let Some(audit) = &spec.proxy.audit {
            let place = match &audit.sink {
                AuditSink::Usual => "in the workload's folder".to_owned(),
                AuditSink::File(path) => format!("in {}", path.display()),
                AuditSink::Stdout => "on standard output".to_owned(),
                AuditSink::Stderr => "on standard error".to_owned(),
                AuditSink::Log => "in the log of mcpm".to_owned(),
            };
            let must =
                if audit.fail_closed { ", and requests that cannot be recorded are rejected" } else { "" };
            let field =
                if spec.origins.contains_key("audit_config") { "audit_config" } else { "enable_audit" };
            rows.push(row("audit log", format!("{place}{must}"), field));
        }
        rows.extend(container.into_iter().flat_map(|container| confinement(spec, container)));
        for name in &self.questions {
            rows.push(row("prompted for", name.clone(), ""));
        }
        if let Some(engine) = &self.engine {
            let place = format!("{} {} at {}", engine.name, engine.version, engine.endpoint);
            rows.push(row("engine", place, ""));
        }
        rows
    }
}

/// Returns the rows about what the container can access.
fn confinement(spec: &WorkloadSpec, container: &ContainerSpec) -> Vec<(String, String, String)> {
    let origin = |name: &str| spec.origins.get(name).map(ToString::to_string).unwrap_or_default();
    let row = |name: &str, value: String, field: &str| (name.to_owned(), value, origin(field));
    let mut rows = Vec::new();
    rows.push(row("network", container.network.to_string(), "network"));
    rows.push(row("outbound", outbound(spec, container), "permission_profile"));
    for port in &container.ports {
        let place =
            format!("{}:{} -> {}/{}", port.host_ip, port.host_port, port.container_port, port.protocol);
        rows.push(row("published", place, &value_origins::port_key(port)));
    }
    for mount in &container.mounts {
        let mode = if mount.read_only { "ro" } else { "rw" };
        let place = format!("{} -> {} ({mode})", mount.source.display(), mount.target);
        rows.push(row("mount", place, &value_origins::mount_key(mount)));
    }
    for overlay in &container.overlays {
        let what = match overlay {
            folder if ignore::is_empty_folder_overlay(folder) => "an empty folder",
            file if ignore::is_ignore_file_overlay(file) => "itself, read-only",
            _ => "an empty file",
        };
        rows.push(row("overlay", format!("{} ({what})", overlay.target), ""));
    }
    for name in container.env.keys() {
        // Values may be secrets; their names say enough.
        rows.push(row("environment", name.clone(), &format!("env.{name}")));
    }
    rows.extend(secrets(spec, container.entry.is_some()));
    for (key, value) in &container.labels {
        rows.push(row("label", format!("{key}={value}"), &value_origins::label_key(key)));
    }
    rows.push(row("confinement", confinement_summary(container), ""));
    for (target, size) in &container.confinement.tmpfs {
        let size = Bytes(*size);
        rows.push(row("in memory", format!("{target}, at most {size}"), "permission_profile"));
    }
    rows.extend(spec.warnings.iter().map(|warning| row("warning", warning.clone(), "")));
    rows
}

/// Returns the rows about secrets.
fn secrets(spec: &WorkloadSpec, isolated: bool) -> impl Iterator<Item = (String, String, String)> {
    spec.secrets.iter().map(move |secret| {
        let origin = spec.secret_origin(secret).map(|origin| origin.to_string()).unwrap_or_default();
        ("secret".to_owned(), secret_delivery::describe(secret, isolated), origin)
    })
}

/// Describes what the server may connect to.
fn outbound(spec: &WorkloadSpec, container: &ContainerSpec) -> String {
    let Some(isolation) = &spec.isolation else {
        let nothing = container.network == Network::None;
        return if nothing { "nothing" } else { "everything: not isolated" }.to_owned();
    };
    let outbound = &isolation.outbound;
    let gateway = if isolation.runtime_gateway { ", and the runtime gateway" } else { "" };
    let hosts: Vec<String> = outbound.allow_host.iter().map(|rule| format!("`{rule}`")).collect();
    let ports: Vec<String> = outbound.allow_port.iter().map(ToString::to_string).collect();
    let what = if outbound.insecure_allow_all {
        "everything public".to_owned()
    } else if outbound.is_nothing() {
        "nothing".to_owned()
    } else {
        let hosts = if hosts.is_empty() { "any public host".to_owned() } else { hosts.join(", ") };
        if ports.is_empty() { hosts } else { format!("{hosts}, on port {}", ports.join(", ")) }
    };
    format!("{what}{gateway}")
}

/// Describes the limits of the container.
fn confinement_summary(container: &ContainerSpec) -> String {
    let bounds = &container.confinement;
    let mut parts = vec![
        if bounds.privileged { "none: privileged" } else { "no capabilities, no new privileges" }.to_owned(),
    ];
    if container.network == Network::Host {
        parts.push("the machine's own network".to_owned());
    }
    parts.push(format!("{} processes", container.pids_limit));
    parts.extend(bounds.memory.map(|bytes| format!("{} of memory", Bytes(bytes))));
    #[expect(clippy::cast_precision_loss, reason = "it is shown to three places")]
    parts.extend(bounds.nano_cpus.map(|nano| format!("{:.3} processors", nano as f64 / 1e9)));
    if bounds.read_only_root {
        parts.push("read-only root".to_owned());
    }
    parts.join(", ")
}

/// Serializes a spec without values of variables and without the query of the URL, which may be secrets.
fn serialize_redacted<S: Serializer>(spec: &WorkloadSpec, serializer: S) -> Result<S::Ok, S::Error> {
    let mut value = serde_json::to_value(spec).map_err(S::Error::custom)?;
    match &spec.place {
        Placement::Container(container) => {
            let names: Vec<&String> = container.env.keys().collect();
            value["place"]["container"]["env"] = serde_json::json!(names);
        }
        Placement::Remote(remote) => {
            value["place"]["remote"]["url"] = serde_json::json!(remote.redacted_url());
            if !remote.headers.is_empty() {
                let names: Vec<&String> = remote.headers.keys().collect();
                value["place"]["remote"]["headers"] = serde_json::json!(names);
            }
            value["asked"]["server"] = serde_json::json!(remote.redacted_url());
        }
    }
    if let Some(registry) = spec.asked.registry.as_deref().filter(|registry| registry.contains("://")) {
        value["asked"]["registry"] = serde_json::json!(redact_url_text(registry));
    }
    if let Some(asked) = value["asked"].as_object_mut().filter(|_| !spec.asked.env.is_empty()) {
        let names: Vec<&String> = spec.asked.env.iter().map(|variable| &variable.name).collect();
        asked.insert("env".to_owned(), serde_json::json!(names));
    }
    value.serialize(serializer)
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        let name_width = rows.iter().map(|(name, _, _)| name.len()).max().unwrap_or_default();
        for (name, value, origin) in rows {
            write!(f, "{name:name_width$}  {value}")?;
            if !origin.is_empty() {
                write!(f, "  ({origin})")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
