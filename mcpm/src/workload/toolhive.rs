//! Imports configurations that ToolHive exported, and reports what cannot be imported.
//!
//! A field that protects a server and cannot be imported is an error, since a workload must not be started with less
//! protection than configured. Fields that are specific to ToolHive, or follow from others, are ignored.

use std::fmt::Display;

use serde_json::{Map, Value};

use super::{WorkloadName, resolve::container_only_options::CONTAINER_ONLY_OPTIONS};
use crate::{
    Error, ErrorKind, Result,
    options::{OptionSet as _, WorkloadOptions},
    permission::Profile,
    printable::Printable as _,
};

/// The field that identifies these documents.
pub(super) const VERSION_FIELD: &str = "schema_version";

/// Fields with the values of an option.
const DIRECT_FIELDS: &[(&str, &str)] = &[
    ("group", "group"),
    ("transport", "transport"),
    ("proxy_mode", "proxy_mode"),
    ("host", "host"),
    ("port", "proxy_port"),
    ("target_host", "target_host"),
    ("target_port", "target_port"),
    ("cmd_args", "args"),
    ("env_file_dir", "env_file_dir"),
    ("secrets", "secret"),
    ("volumes", "volume"),
    ("publish", "publish"),
    ("isolate_network", "isolate_network"),
    ("allow_docker_gateway", "allow_runtime_gateway"),
    ("allowed_origins", "allowed_origins"),
    ("endpoint_prefix", "endpoint_prefix"),
    ("trust_proxy_headers", "trust_proxy_headers"),
    ("tools_filter", "tools"),
    ("authz_config_path", "authz_config"),
    ("audit_config_path", "audit_config"),
    ("thv_ca_bundle", "mcpm_ca_bundle"),
    ("jwks_auth_token_file", "jwks_auth_token_file"),
    ("oidc_config.Issuer", "oidc_issuer"),
    ("oidc_config.Audience", "oidc_audience"),
    ("oidc_config.JWKSURL", "oidc_jwks_url"),
    ("oidc_config.IntrospectionURL", "oidc_introspection_url"),
    ("oidc_config.ClientID", "oidc_client_id"),
    ("oidc_config.Scopes", "oidc_scopes"),
    ("oidc_config.ResourceURL", "resource_url"),
    ("oidc_config.InsecureAllowHTTP", "oidc_insecure_allow_http"),
    ("oidc_config.AllowPrivateIP", "jwks_allow_private_ip"),
    ("remote_auth_config.issuer", "remote_auth_issuer"),
    ("remote_auth_config.authorize_url", "remote_auth_authorize_url"),
    ("remote_auth_config.token_url", "remote_auth_token_url"),
    ("remote_auth_config.client_id", "remote_auth_client_id"),
    ("remote_auth_config.client_secret_file", "remote_auth_client_secret_file"),
    ("remote_auth_config.bearer_token_file", "remote_auth_bearer_token_file"),
    ("remote_auth_config.scopes", "remote_auth_scopes"),
    ("remote_auth_config.resource", "remote_auth_resource"),
    ("remote_auth_config.callback_port", "remote_auth_callback_port"),
    ("remote_auth_config.skip_browser", "remote_auth_skip_browser"),
    ("token_exchange_config.token_url", "token_exchange_url"),
    ("token_exchange_config.client_id", "token_exchange_client_id"),
    ("token_exchange_config.audience", "token_exchange_audience"),
    ("token_exchange_config.scopes", "token_exchange_scopes"),
    ("token_exchange_config.external_token_header_name", "token_exchange_header_name"),
    ("telemetry_config.endpoint", "otel_endpoint"),
    ("telemetry_config.serviceName", "otel_service_name"),
    ("telemetry_config.samplingRate", "otel_sampling_rate"),
    ("telemetry_config.insecure", "otel_insecure"),
    ("telemetry_config.enablePrometheusMetricsPath", "otel_enable_prometheus_metrics_path"),
    ("runtime_config.builder_image", "runtime_image"),
    ("runtime_config.additional_packages", "runtime_add_package"),
    ("ignore_config.PrintOverlays", "print_resolved_overlays"),
];

/// Fields that are specific to ToolHive, or follow from others.
const IGNORED_FIELDS: &[&str] = &[
    VERSION_FIELD,
    "container_name",
    "base_name",
    "registry_api_url",
    "registry_url",
    "registry_server_name",
    "middleware_configs",
    "debug",
    "k8s_pod_template_patch",
    "stateless",
    "session_ttl",
    "oidc_config.Scopes",
    "remote_auth_config.use_pkce",
    "remote_auth_config.headers",
    "remote_auth_config.env_vars",
    "remote_auth_config.timeout",
    "token_exchange_config.header_strategy",
    "telemetry_config.serviceVersion",
    "telemetry_config.tracingEnabled",
    "telemetry_config.metricsEnabled",
    "telemetry_config.prometheusPort",
    "telemetry_config.metricsOnTransportPort",
    "telemetry_config.useLegacyAttributes",
    "ignore_config.LoadGlobal",
];

/// Fields that protect a server and cannot be imported, with the alternative.
const SECURITY_FIELDS: &[(&str, &str)] = &[
    ("authz_config", "write it to a file, and set `authz_config_path` to the path"),
    ("permission_profile", "write it to a file, and set `permission_profile_name_or_path` to the path"),
    ("tools_override", "write it to a file for option `tools_override`"),
    ("validating_webhooks", "mcpm does not support webhooks"),
    ("mutating_webhooks", "mcpm does not support webhooks"),
    ("strict_protocol_validation", "mcpm has no such option"),
];

/// Variables that ToolHive and mcpm set for every server.
const IMPLICIT_VARIABLES: &[&str] = &["MCP_TRANSPORT", "MCP_PORT", "MCP_HOST", "FASTMCP_PORT"];

/// Imports a document; returns the options, and notices about what was not imported.
///
/// # Errors
/// `InvalidOption` for a document that ToolHive has not exported, or an invalid value; `Unsupported` for protection
/// that would be lost.
pub(super) fn import(document: Value) -> Result<(WorkloadOptions, Vec<String>)> {
    let Value::Object(fields) = document else {
        return Err(Error::new(ErrorKind::InvalidOption, "the ToolHive configuration is not a JSON object"));
    };
    match fields.get(VERSION_FIELD).and_then(Value::as_str) {
        Some(version) if version.starts_with("v0.1.") => {}
        version => {
            let version = version.unwrap_or("none");
            let message =
                format!("the ToolHive configuration has the unsupported version `{}`", version.printable());
            return Err(Error::new(ErrorKind::Unsupported, message).hint("version `v0.1.0` is supported"));
        }
    }
    let mut importer = Importer { fields, options: WorkloadOptions::default(), unsupported: Vec::new() };
    importer.server()?;
    importer.permissions()?;
    importer.reject_lost_protection()?;
    importer.variables()?;
    importer.headers()?;
    importer.import_direct_fields()?;
    Ok(importer.finish())
}

struct Importer {
    fields: Map<String, Value>,
    options: WorkloadOptions,
    unsupported: Vec<String>,
}

impl Importer {
    /// Removes and returns a field, so that only unknown fields remain in the end. Empty fields are ignored.
    fn take(&mut self, path: &str) -> Option<Value> {
        let value = match path.split_once('.') {
            None => self.fields.remove(path),
            Some((outer, inner)) => self.fields.get_mut(outer)?.as_object_mut()?.remove(inner),
        };
        value.filter(|value| !is_empty(value))
    }

    fn set(&mut self, field: &str, option: &str, value: impl Display) -> Result<()> {
        self.options.set(option, &value.to_string()).map_err(|error| error.with("field", field))
    }

    fn is_remote(&self) -> bool {
        self.options.server.as_deref().is_some_and(|server| server.contains("://"))
    }

    fn server(&mut self) -> Result<()> {
        let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
        if let Some(name) = text(self.take("name")) {
            self.options.name = Some(WorkloadName::sanitized(&name).to_string());
        }
        let (image, url) = (text(self.take("image")), text(self.take("remote_url")));
        self.options.server = match (image, url) {
            (_, Some(url)) => Some(url),
            (Some(image), None) if image.starts_with("toolhivelocal/") => {
                let message = format!("the image `{image}` was built by ToolHive on its machine");
                return Err(Error::new(ErrorKind::InvalidOption, message)
                    .hint("replace it with the package (`uvx://…`, `npx://…`, `go://…`)"));
            }
            (Some(image), None) => Some(format!("image:{image}")),
            (None, None) => {
                let message = "the configuration names neither an image nor a remote server";
                return Err(Error::new(ErrorKind::InvalidOption, message));
            }
        };
        Ok(())
    }

    fn permissions(&mut self) -> Result<()> {
        let named = self.take("permission_profile_name_or_path");
        if let Some(Value::Object(profile)) = self.fields.get("permission_profile") {
            let mode = profile.get("network").and_then(|network| network.get("mode"));
            let mode = mode.and_then(Value::as_str).map(str::to_owned);
            let builtin = profile.get("name").and_then(Value::as_str).map(str::to_owned);
            let named = named.as_ref().and_then(Value::as_str);
            // The profile is compared by its content, whatever its name is. A named file has the same content.
            let is_covered = match named.or(builtin.as_deref()) {
                Some(name @ ("none" | "network")) => is_builtin(profile, name),
                _ => named.is_some(),
            };
            if let Some(builtin) = builtin.filter(|_| is_covered && named.is_none() && !self.is_remote()) {
                self.set("permission_profile", "permission_profile", builtin)?;
            }
            if is_covered || self.is_remote() {
                self.fields.remove("permission_profile");
            }
            if let Some(mode) = mode.filter(|mode| !mode.is_empty() && !self.is_remote()) {
                self.set("permission_profile.network.mode", "network", mode)?;
            }
        }
        match named.as_ref().and_then(Value::as_str) {
            Some(named) if !self.is_remote() => {
                self.set("permission_profile_name_or_path", "permission_profile", named)
            }
            _ => Ok(()),
        }
    }

    /// Rejects protection that would be lost.
    fn reject_lost_protection(&mut self) -> Result<()> {
        if self.fields.get("authz_config_path").is_some_and(|path| !is_empty(path)) {
            // The policy file that another field names has the same content.
            self.fields.remove("authz_config");
        }
        for (field, instead) in SECURITY_FIELDS {
            if self.take(field).is_some() {
                let message = format!("`{field}` of the configuration cannot be imported");
                return Err(Error::new(ErrorKind::Unsupported, message).hint(*instead));
            }
        }
        let named = self.fields.get("audit_config_path").is_some_and(|path| !is_empty(path));
        if let Some(config) = self.take("audit_config").filter(|_| !named) {
            if !is_default_audit(&config) {
                let message = "`audit_config` of the configuration cannot be imported";
                return Err(Error::new(ErrorKind::Unsupported, message)
                    .hint("write it to a file, and set `audit_config_path` to the path"));
            }
            self.set("audit_config", "enable_audit", true)?;
        }
        Ok(())
    }

    fn variables(&mut self) -> Result<()> {
        if let Some(Value::Object(variables)) = self.take("env_vars") {
            for (name, value) in variables {
                if !IMPLICIT_VARIABLES.contains(&name.as_str()) && !name.starts_with("TOOLHIVE_") {
                    let value = value.as_str().unwrap_or_default();
                    self.set("env_vars", "env", format!("{name}={value}"))?;
                }
            }
        }
        if let Some(Value::Object(labels)) = self.take("container_labels") {
            for (key, value) in labels {
                let ours = key.starts_with("toolhive") || key.starts_with("mcpm");
                if let Some(value) = value.as_str().filter(|_| !ours) {
                    self.set("container_labels", "label", format!("{key}={value}"))?;
                }
            }
        }
        Ok(())
    }

    fn headers(&mut self) -> Result<()> {
        for (field, option) in [
            ("header_forward.add_plaintext_headers", "remote_forward_headers"),
            ("header_forward.add_headers_from_secret", "remote_forward_headers_secret"),
        ] {
            if let Some(Value::Object(headers)) = self.take(field) {
                for (name, value) in headers {
                    let value = value.as_str().unwrap_or_default();
                    self.set(field, option, format!("{name}={value}"))?;
                }
            }
        }
        Ok(())
    }

    fn import_direct_fields(&mut self) -> Result<()> {
        let is_stdio = self.fields.get("transport").and_then(Value::as_str) == Some("stdio");
        for (field, option) in DIRECT_FIELDS {
            let Some(value) = self.take(field) else { continue };
            let values = match value {
                Value::Array(values) => values,
                value => vec![value],
            };
            let texts: Vec<String> = values
                .iter()
                .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                .collect();
            let spec = WorkloadOptions::spec(option);
            if spec.and_then(|spec| spec.default).is_some_and(|default| texts == [default]) {
                continue;
            }
            if is_stdio && option.starts_with("target_") || !is_stdio && *option == "proxy_mode" {
                // ToolHive writes this field for every server; it has no effect for this server.
                continue;
            }
            if self.is_remote() && CONTAINER_ONLY_OPTIONS.contains(option) {
                if !option.starts_with("target_") {
                    self.unsupported.push((*field).to_owned());
                }
                continue;
            }
            for text in texts {
                self.set(field, option, text)?;
            }
        }
        Ok(())
    }

    /// Returns the options, and the names of the remaining fields.
    fn finish(mut self) -> (WorkloadOptions, Vec<String>) {
        for field in IGNORED_FIELDS {
            self.take(field);
        }
        for (field, value) in self.fields {
            match value {
                Value::Object(inner) => {
                    let inner = inner.into_iter().filter(|(_, value)| !is_empty(value));
                    self.unsupported.extend(inner.map(|(name, _)| format!("{field}.{name}")));
                }
                value if is_empty(&value) => {}
                _ => self.unsupported.push(field),
            }
        }
        self.unsupported.sort();
        let mut notices = Vec::new();
        if !self.unsupported.is_empty() {
            let names = self.unsupported.iter().map(|name| name.printable()).collect::<Vec<_>>().join("`, `");
            notices.push(format!("not imported from ToolHive's configuration: `{names}`"));
        }
        (self.options, notices)
    }
}

/// Tells whether a profile equals a built-in one, apart from the network mode, which is an option.
fn is_builtin(profile: &Map<String, Value>, name: &str) -> bool {
    let builtin = if name == "none" { Profile::none() } else { Profile::network() };
    let mut profile = profile.clone();
    profile.insert("name".to_owned(), name.into());
    if let Some(network) = profile.get_mut("network").and_then(Value::as_object_mut) {
        network.remove("mode");
    }
    Profile::from_json(&Value::Object(profile).to_string()).is_ok_and(|profile| profile == builtin)
}

/// Tells whether an audit configuration is equivalent to `enable_audit`.
fn is_default_audit(config: &Value) -> bool {
    config.as_object().is_some_and(|config| {
        config.iter().all(|(name, value)| match name.as_str() {
            "component" => true,
            "enabled" | "detectApplicationErrors" => *value == true,
            "maxDataSize" => *value == 1024,
            "maxDelegationDepth" => *value == 10,
            _ => is_empty(value),
        })
    })
}

/// Tells whether a field has an empty value.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(yes) => !yes,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_builtin_profile_is_recognized_by_content() {
        let none = json!({"name": "none", "read": [], "write": [], "network": {"outbound": {
            "insecure_allow_all": false, "allow_host": [], "allow_port": []}}});
        let network = json!({"name": "network", "network": {"mode": "bridge", "outbound": {
            "insecure_allow_all": true}}});
        let limited = json!({"name": "network", "network": {"outbound": {"allow_host": ["a.example.com"]}}});
        let mounting = json!({"name": "none", "read": ["/etc"]});
        let unknown = json!({"name": "none", "seccomp": "strict"});
        let imported = |profile: &Value, named: Option<&str>| {
            let mut document = json!({VERSION_FIELD: "v0.1.0", "image": "a", "permission_profile": profile});
            if let Some(named) = named {
                document["permission_profile_name_or_path"] = named.into();
            }
            import(document).map(|(options, _)| options.permission_profile.map(|named| named.to_string()))
        };
        for (profile, named, taken) in [
            (&none, None, "none"),
            (&network, None, "network"),
            (&network, Some("network"), "network"),
            (&limited, Some("/limits.json"), "/limits.json"),
        ] {
            assert_eq!(imported(profile, named).unwrap().as_deref(), Some(taken), "{profile}");
        }
        for (profile, named) in [
            (&limited, None),
            (&limited, Some("network")),
            (&none, Some("network")),
            (&mounting, None),
            (&unknown, None),
        ] {
            let error = imported(profile, named).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{profile}: {error}");
        }
    }

    #[test]
    fn only_a_default_audit_configuration_is_imported() {
        let imported =
            |config: Value| import(json!({VERSION_FIELD: "v0.1.0", "image": "a", "audit_config": config}));
        let usual =
            json!({"component": "a", "includeRequestData": false, "maxDataSize": 1024, "logFile": ""});
        assert_eq!(imported(usual).unwrap().0.enable_audit, Some(true));
        for config in [json!({"logFile": "/var/log/a"}), json!({"maxDataSize": 9})] {
            let error = imported(config).unwrap_err();
            assert!(error.to_string().contains("`audit_config_path`"), "{error}");
        }
    }
}
