//! Lists the options that only apply to servers in containers, and rejects options that only apply to remote servers.

use crate::{
    Error, ErrorKind, Result,
    auth::outgoing::LOGIN_OPTIONS,
    options::{OptionSet as _, WorkloadOptions},
};

/// The options that are rejected for a remote server. Secrets are rejected unless they are sent as headers.
pub(in crate::workload) const CONTAINER_ONLY_OPTIONS: &[&str] = &[
    "args",
    "label",
    "proxy_mode",
    "target_host",
    "target_port",
    "publish",
    "network",
    "learn",
    "isolate_network",
    "allow_runtime_gateway",
    "env",
    "env_file",
    "env_file_dir",
    "secret",
    "volume",
    "permission_profile",
    "ignore_globally",
    "print_resolved_overlays",
    "image_verification",
    "image_verification_key",
    "certificate_identity",
    "certificate_oidc_issuer",
    "sigstore_trusted_root",
    "ca_cert",
    "runtime_image",
    "runtime_add_package",
    "runtime",
    "package_command",
    "with_package",
    "config",
    "rebuild",
    "offline",
    "restart",
    "start_timeout",
];

/// Rejects options that apply to remote servers only, in one message.
pub(super) fn reject_remote_options(options: &WorkloadOptions) -> Result<()> {
    const HEADERS_AND_TOKENS: [&str; 4] = [
        "remote_auth_bearer_token",
        "remote_auth_bearer_token_file",
        "remote_forward_headers",
        "remote_forward_headers_secret",
    ];
    let names = LOGIN_OPTIONS.iter().chain(&HEADERS_AND_TOKENS);
    let given: Vec<String> =
        names.filter(|name| options.is_given(name)).map(|name| format!("`{name}`")).collect();
    if given.is_empty() {
        return Ok(());
    }
    let verb = if given.len() == 1 { "is" } else { "are" };
    let message =
        format!("{} {verb} for remote servers, but this server runs in a container", given.join(", "));
    Err(Error::new(ErrorKind::InvalidOption, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_containers_is_named_as_the_table_names_it() {
        for name in CONTAINER_ONLY_OPTIONS {
            assert!(WorkloadOptions::spec(name).is_some(), "{name}");
        }
    }

    #[test]
    fn an_option_of_a_workload_is_for_containers_or_for_every_server() {
        // A new option must be added to one of the two lists: either it applies to remote servers as well, or it is
        // rejected for them.
        const FOR_EVERY_SERVER: [&str; 20] = [
            "server",
            "name",
            "group",
            "transport",
            "host",
            "proxy_port",
            "foreground",
            "from_config",
            "mcpm_ca_bundle",
            "endpoint_prefix",
            "trust_proxy_headers",
            "tools",
            "tools_override",
            "authz_config",
            "audit_config",
            "enable_audit",
            "debug",
            "allowed_origins",
            "allowed_hosts",
            "registry",
        ];
        let section = WorkloadOptions::spec("server").map(|spec| spec.section);
        for spec in WorkloadOptions::SPECS.iter().filter(|spec| Some(spec.section) == section) {
            let lists = [CONTAINER_ONLY_OPTIONS, &FOR_EVERY_SERVER].map(|list| list.contains(&spec.name));
            assert!(lists[0] != lists[1], "`{}` is in {lists:?}", spec.name);
        }
    }
}
