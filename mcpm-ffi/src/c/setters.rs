//! Exports one setter to C for each option of a workload and of a proxy.
// Generated from the option table by tests/generated.rs; do not edit.

use std::{ffi::c_char, time::Duration};

use super::{ProxyBuilder, WorkloadBuilder, builder};

/// Server name, image, package (`uvx://`, `npx://`, `go://`), local path, or URL.
///
/// A name without a tag is looked up in the registry; the registry entry supplies the transport, the
/// permissions and the environment variables. A name that the registry does not have is taken as the
/// name of an image. Use `registry:NAME` or `image:IMAGE` to select one of the two. An image is run as
/// it is. mcpm builds a container image for a package, and for a path that begins with `./`, `../` or
/// `/`: a script such as `./server.py` or `./server.ts`, a folder with a `pyproject.toml`,
/// `package.json` or `go.mod`, or an MCP bundle (`./server.mcpb`). For a URL, mcpm runs only a proxy,
/// which forwards requests to the remote server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_server(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "server", value) }
}

/// Arguments passed to the MCP server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_args(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "args", value) }
}

/// Name of the workload.
///
/// Default: generated from the server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_name(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "name", value) }
}

/// Group the workload belongs to.
///
/// A group that does not exist is created.
///
/// Default: `default`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_group(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "group", value) }
}

/// Label to add to the container.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_label(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "label", value) }
}

/// Transport mode of the server.
///
/// If the registry entry names no transport, or if there is no registry entry, the default is
/// `streamable-http` for URLs and for images that expose a port, and `stdio` for all other servers.
///
/// One of `sse`, `streamable-http`, `stdio`.
///
/// Default: from the registry entry or the kind of server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_transport(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "transport", value) }
}

/// Transport that the proxy of a stdio server offers; `sse` is deprecated and will be removed.
///
/// One of `streamable-http`, `sse`.
///
/// Default: `streamable-http`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_proxy_mode(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "proxy_mode", value) }
}

/// IP address or hostname that the HTTP proxy listens on.
///
/// Default: `127.0.0.1`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_host(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "host", value) }
}

/// Host port the HTTP proxy listens on; 0 picks a free one.
///
/// Default: a free port.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_proxy_port(builder: *mut WorkloadBuilder, value: u16) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.proxy_port = Some(value); Ok(()) }) }
}

/// Host that traffic is forwarded to, for the transports `sse` and `streamable-http`.
///
/// Default: `127.0.0.1`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_target_host(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "target_host", value) }
}

/// Port the container exposes, for the transports `sse` and `streamable-http`.
///
/// Default: from the registry entry, otherwise the port the image exposes, otherwise 8080.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_target_port(builder: *mut WorkloadBuilder, value: u16) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.target_port = Some(value); Ok(()) }) }
}

/// Publish a container port on the host.
///
/// The port is bound to the loopback address unless another address precedes it. If only the container
/// port is given, a free host port is chosen. IPv6 addresses are written in brackets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_publish(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "publish", value) }
}

/// Network mode of the container: `bridge`, `host`, `none`, `container:NAME`, or the name of a network.
///
/// Without this option, the `network.mode` of the permission profile is used, if the profile has one.
///
/// Default: `bridge`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_network(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "network", value) }
}

/// Isolate the container network from the host.
///
/// Each connection of the server passes through mcpm, which rejects connections that the permission
/// profile does not allow. Even without this option, mcpm isolates the container if the permission
/// profile allows no connections, or is a file that restricts them. The built-in runtime isolates all
/// containers except those in the network `host`.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_isolate_network(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.isolate_network = Some(value); Ok(()) }) }
}

/// Let an isolated container connect to the container runtime's gateway addresses.
///
/// These addresses, such as `host.docker.internal` and `172.17.0.1`, lead to this machine. Without this
/// option, mcpm blocks connections to them, even if the permission profile has `insecure_allow_all`.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_allow_runtime_gateway(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.allow_runtime_gateway = Some(value); Ok(()) }) }
}

/// Environment variable for the server.
///
/// On the command line, `-e NAME` passes the value that the variable has in mcpm's own environment,
/// where it must be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_env(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "env", value) }
}

/// Load environment variables from a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_env_file(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "env_file", value) }
}

/// Load environment variables from all files in a folder, except hidden files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_env_file_dir(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "env_file_dir", value) }
}

/// Secret from the secret store, passed to the server as an environment variable.
///
/// `NAME` is the name used with `mcpm secret set`, and `TARGET` is the name of the variable. With the
/// target `file:PATH`, the server gets the secret as a file at this absolute path in its container
/// instead. With `header:HEADER`, the proxy adds the header `HEADER` with the secret to each request to
/// a remote server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_secret(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "secret", value) }
}

/// Mount a host file or folder into the container.
///
/// The container path may be followed by a colon and comma-separated options: `ro` or `rw`, and `z`
/// (shared) or `Z` (private) for SELinux relabelling. A relative host path is resolved from the current
/// folder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_volume(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "volume", value) }
}

/// Files and networks that the server may use.
///
/// Default: from the registry entry, otherwise `network`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_permission_profile(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "permission_profile", value) }
}

/// Write a permission profile that allows the hosts that the server connects to or looks up.
///
/// While the profile is recorded, mcpm isolates the server's network. If the registry entry of the
/// server has permissions, the server may connect only to the hosts that they allow; otherwise, to all
/// public addresses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_learn(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "learn", value) }
}

/// Run in the foreground until the server exits.
///
/// CLI only; a program that uses the library runs its workloads in its own process.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_foreground(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.foreground = Some(value); Ok(()) }) }
}

/// Load the configuration from a file that `mcpm export` has written.
///
/// Of the options that configure the workload, only `--name`, `--group`, `--proxy-port`, `--foreground`
/// and `--debug` can be combined with it. They take precedence over the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_from_config(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "from_config", value) }
}

/// Load global ignore patterns from `mcpmignore` in the configuration folder.
///
/// If a file or folder in a mounted folder matches one of these patterns, or a pattern in a
/// `.mcpmignore` file there, the server sees an empty file or folder in its place. Builds of local
/// projects leave out files that match the global patterns. The syntax is that of `.gitignore`.
///
/// Default: `true`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_ignore_globally(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.ignore_globally = Some(value); Ok(()) }) }
}

/// Print the container paths of the overlays that hide ignored files and folders.
///
/// CLI only; library users find them in the plan.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_print_resolved_overlays(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.print_resolved_overlays = Some(value); Ok(()) }) }
}

/// What to do if the signature of the image is missing or invalid.
///
/// mcpm reads the signature from the image registry. The required signer is set with the other
/// verification options or by the server's registry entry. If neither names a signer, `warn` starts the
/// image unverified, and `enabled` refuses to start it. The container runs the digest that was
/// verified.
///
/// One of `warn`, `enabled`, `disabled`.
///
/// Default: `warn`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_image_verification(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "image_verification", value) }
}

/// PEM file with the public key of the required signer of the image.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_image_verification_key(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "image_verification_key", value) }
}

/// Required identity in the signer's certificate: an email address or a URI.
///
/// Default: from the registry entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_certificate_identity(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "certificate_identity", value) }
}

/// Required OIDC issuer in the signer's certificate.
///
/// Default: from the registry entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_certificate_oidc_issuer(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "certificate_oidc_issuer", value) }
}

/// Sigstore `trusted_root.json` with the trusted certificate authorities and logs.
///
/// Default: Sigstore's public instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_sigstore_trusted_root(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "sigstore_trusted_root", value) }
}

/// Custom CA certificate file for container builds and for servers in containers.
///
/// The build of a package and the package's server trust the certificates in the file. A server from an
/// image gets the certificates as files in its container, and environment variables with the paths of
/// these files, such as `SSL_CERT_FILE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_ca_cert(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "ca_cert", value) }
}

/// CA certificate bundle for mcpm's own HTTP requests (JWKS, OIDC discovery, etc.).
///
/// mcpm trusts these certificates in addition to those of the system: for remote servers, the target of
/// `mcpm proxy`, server registries, image registries that signatures are read from, identity providers,
/// token exchange and telemetry. The built-in runtime also trusts them when it pulls an image. A
/// container engine pulls images with its own certificates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_mcpm_ca_bundle(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "mcpm_ca_bundle", value) }
}

/// Base image for packages, and for local scripts, projects and MCP bundles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_runtime_image(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "runtime_image", value) }
}

/// Additional Linux package to install in the builder and runtime stages of the image.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_runtime_add_package(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "runtime_add_package", value) }
}

/// Path prefix prepended to URLs that the proxy sends to clients, such as SSE endpoint URLs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_endpoint_prefix(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "endpoint_prefix", value) }
}

/// Trust `X-Forwarded-For`, `-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_trust_proxy_headers(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.trust_proxy_headers = Some(value); Ok(()) }) }
}

/// Tools to expose to clients; all others are hidden.
///
/// Names are those that clients see. `*` matches any text, and `?` any single character. An entry that
/// starts with `!` hides the tools that it matches, and takes precedence over other entries; if all
/// entries start with `!`, all other tools are exposed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_tools(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "tools", value) }
}

/// JSON file that overrides tool names and descriptions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_tools_override(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "tools_override", value) }
}

/// Authorization configuration file.
///
/// JSON or YAML, with policies in Cedar.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_authz_config(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "authz_config", value) }
}

/// Audit configuration file.
///
/// JSON or YAML. Turns audit logging on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_audit_config(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "audit_config", value) }
}

/// Enable audit logging with the default configuration.
///
/// Each request is recorded as a line of JSON: for a workload, in a file in the workload's state
/// folder; for `mcpm proxy`, on standard output.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_enable_audit(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.enable_audit = Some(value); Ok(()) }) }
}

/// Enable debug mode.
///
/// Adds debug messages to the log. CLI only; library users configure `tracing` themselves.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_debug(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.debug = Some(value); Ok(()) }) }
}

/// Container runtime to use.
///
/// One of `auto`, `docker`, `podman`, `builtin`.
///
/// Default: `auto`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_runtime(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "runtime", value) }
}

/// Which command of the package starts the server, if the package has more than one command.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_package_command(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "package_command", value) }
}

/// Additional package to install together with a Python or Node.js package, project or script.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_with_package(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "with_package", value) }
}

/// Value for a key of an MCP bundle; the bundle's manifest defines the keys.
///
/// If the key takes a file or folder, mcpm mounts that file or folder read-write at the same path in
/// the container; `-v PATH:PATH:ro` mounts it read-only. If a key may have several values, repeat the
/// option. For a key that is a secret, use `--secret NAME,target=VARIABLE` instead: `VARIABLE` is the
/// environment variable to which the manifest assigns the key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_config(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "config", value) }
}

/// Rebuild the package's image with the newest matching version of the package.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_rebuild(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.rebuild = Some(value); Ok(()) }) }
}

/// Use an image that is present locally; do not pull or build one.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_offline(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.offline = Some(value); Ok(()) }) }
}

/// Whether a server that has exited is started again: never, only after a failure, or always.
///
/// The delay before a restart grows, and after 10 restarts in a row the workload fails. In the
/// foreground, the default is `no`. `mcpm start --interrupted` does not start workloads whose value is
/// `no`.
///
/// One of `no`, `on-failure`, `always`.
///
/// Default: `always`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_restart(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "restart", value) }
}

/// How long a server may take to become ready, such as `90s` or `5m`.
///
/// Default: `60s`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_start_timeout(builder: *mut WorkloadBuilder, milliseconds: u64) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.start_timeout = Some(Duration::from_millis(milliseconds)); Ok(()) }) }
}

/// Additional origins of web pages that may call the proxy.
///
/// If the proxy listens on a loopback address, it also accepts pages from loopback origins, such as
/// `http://localhost:3000`. It rejects pages from all other origins.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_allowed_origins(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "allowed_origins", value) }
}

/// Additional hostnames that clients may use to reach the proxy.
///
/// The proxy rejects requests with any other name in the `Host` header, as a protection against DNS
/// rebinding. If the permission profile has `network.inbound.allow_host`, the proxy accepts only the
/// names listed there and here. Otherwise, it also accepts loopback names and the hosts of `--host` and
/// `--allowed-origins`. If it listens on an address that is not loopback, it also accepts all IP
/// addresses and, if it requires authentication, all names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_allowed_hosts(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "allowed_hosts", value) }
}

/// Registry that server names are looked up in: `embedded`, a file, or a URL.
///
/// A URL whose path ends in `.json` is a document; any other URL is the base of a registry's REST API.
///
/// Default: from the configuration, otherwise `embedded`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_registry(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "registry", value) }
}

/// OIDC issuer URL.
///
/// Each request then requires a token from this issuer. The URL must be identical to the tokens' `iss`
/// claim.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_oidc_issuer(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "oidc_issuer", value) }
}

/// Expected audience of the token.
///
/// Default: `--resource-url`, otherwise the URL of the proxy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_oidc_audience(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "oidc_audience", value) }
}

/// OIDC client ID.
///
/// The proxy identifies itself with this ID at the introspection endpoint. Without
/// `--oidc-introspection-url`, tokens that are not JWTs are introspected only if a client secret is set
/// as well.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_oidc_client_id(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "oidc_client_id", value) }
}

/// OIDC client secret, for introspection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_oidc_client_secret(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "oidc_client_secret", value) }
}

/// Token introspection endpoint URL.
///
/// If an issuer or a JWKS URL is set as well, JWTs are verified locally with the issuer's public keys,
/// and only tokens that are not JWTs are sent to this endpoint.
///
/// Default: from the issuer's metadata, if a client secret is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_oidc_introspection_url(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "oidc_introspection_url", value) }
}

/// URL to fetch the JWKS from.
///
/// Without `--oidc-issuer`, tokens signed with these keys are accepted from any issuer.
///
/// Default: from the issuer's metadata.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_oidc_jwks_url(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "oidc_jwks_url", value) }
}

/// OAuth scopes that the protected resource metadata advertises (RFC 9728).
///
/// Default: `openid`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_oidc_scopes(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "oidc_scopes", value) }
}

/// OAuth scopes that a token must have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_oidc_required_scopes(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "oidc_required_scopes", value) }
}

/// Allow OIDC and token exchange URLs without HTTPS, for development and testing (insecure).
///
/// Loopback URLs need no HTTPS, even without this option.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_oidc_insecure_allow_http(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.oidc_insecure_allow_http = Some(value); Ok(()) }) }
}

/// Allow JWKS, OIDC and token exchange endpoints on private IP addresses.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_jwks_allow_private_ip(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.jwks_allow_private_ip = Some(value); Ok(()) }) }
}

/// File with a bearer token that authenticates JWKS and OIDC requests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_jwks_auth_token_file(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "jwks_auth_token_file", value) }
}

/// Log in to the remote server with OAuth/OIDC, even if its responses do not ask for it.
///
/// Without this option, `mcpm run` logs in if the server asks for it. Other commands then log in only
/// if another option for the login is set. `mcpm proxy` without any option of outgoing authentication
/// forwards the credentials of its clients.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_remote_auth(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.remote_auth = Some(value); Ok(()) }) }
}

/// OAuth/OIDC issuer URL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_remote_auth_issuer(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_issuer", value) }
}

/// Authorization endpoint, instead of the issuer, for an authorization server without metadata.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_remote_auth_authorize_url(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_authorize_url", value) }
}

/// Token endpoint, instead of the issuer, for an authorization server without metadata.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_remote_auth_token_url(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_token_url", value) }
}

/// OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_remote_auth_client_id(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_client_id", value) }
}

/// URL of a client ID metadata document, for authorization servers that support such documents.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_remote_auth_client_metadata_url(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_client_metadata_url", value) }
}

/// OAuth client secret, if the authorization server has issued one for `--remote-auth-client-id`.
///
/// Do not use this option in production: other users of the machine may see the secret in the process
/// list. The option takes precedence over `--remote-auth-client-secret-file`, which takes precedence
/// over the variable `MCPM_REMOTE_OAUTH_CLIENT_SECRET`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_remote_auth_client_secret(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_client_secret", value) }
}

/// File with the OAuth client secret.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_remote_auth_client_secret_file(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_client_secret_file", value) }
}

/// Bearer token for the remote server, instead of OAuth.
///
/// Do not use this option in production: other users of the machine may see the token in the process
/// list. The option takes precedence over `--remote-auth-bearer-token-file`, which takes precedence
/// over the variable `MCPM_REMOTE_AUTH_BEARER_TOKEN`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_remote_auth_bearer_token(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_bearer_token", value) }
}

/// File with the bearer token for the remote server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_remote_auth_bearer_token_file(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_bearer_token_file", value) }
}

/// Scopes to request.
///
/// Default: the scopes that the server asks for, otherwise `openid,profile,email` if
/// `--remote-auth-issuer` supports OIDC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_remote_auth_scopes(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_scopes", value) }
}

/// OAuth 2.0 resource indicator (RFC 8707).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_remote_auth_resource(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_resource", value) }
}

/// Resource identifier in the protected resource metadata (RFC 9728).
///
/// Default: the URL the proxy listens on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_resource_url(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "resource_url", value) }
}

/// Port of the local OAuth callback server.
///
/// Default: `8666`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_remote_auth_callback_port(builder: *mut WorkloadBuilder, value: u16) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.remote_auth_callback_port = Some(value); Ok(()) }) }
}

/// Do not open a browser for the OAuth flow.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_remote_auth_skip_browser(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.remote_auth_skip_browser = Some(value); Ok(()) }) }
}

/// Timeout of the OAuth flow, such as `30s` or `1m30s`.
///
/// Default: `30s`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_remote_auth_timeout(builder: *mut WorkloadBuilder, milliseconds: u64) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.remote_auth_timeout = Some(Duration::from_millis(milliseconds)); Ok(()) }) }
}

/// Header added to requests to the remote server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_remote_forward_headers(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_forward_headers", value) }
}

/// Header added to requests to the remote server, with a secret from the secret store as its value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_remote_forward_headers_secret(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_forward_headers_secret", value) }
}

/// OAuth 2.0 token exchange endpoint; enables token exchange.
///
/// Each caller's token is exchanged there (RFC 8693), and the new token is sent to the server instead.
/// Requires incoming authentication; see `--oidc-issuer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_token_exchange_url(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "token_exchange_url", value) }
}

/// Audience to request for the new token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_token_exchange_audience(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "token_exchange_audience", value) }
}

/// Client ID for token exchange.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_token_exchange_client_id(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "token_exchange_client_id", value) }
}

/// Client secret for token exchange.
///
/// Do not use this option in production: other users of the machine may see the secret in the process
/// list. The option takes precedence over the variable `MCPM_TOKEN_EXCHANGE_CLIENT_SECRET`, and cannot
/// be combined with `--token-exchange-client-secret-file`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_token_exchange_client_secret(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "token_exchange_client_secret", value) }
}

/// File with the client secret for token exchange.
///
/// mcpm reads the file again for each exchange. The file takes precedence over the variable
/// `MCPM_TOKEN_EXCHANGE_CLIENT_SECRET`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_token_exchange_client_secret_file(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "token_exchange_client_secret_file", value) }
}

/// Scopes to request for the new token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_token_exchange_scopes(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "token_exchange_scopes", value) }
}

/// Type of the token that is exchanged.
///
/// With `id_token`, ID tokens are accepted from callers as well.
///
/// One of `access_token`, `id_token`.
///
/// Default: `access_token`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_token_exchange_subject_token_type(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "token_exchange_subject_token_type", value) }
}

/// Header in which the new token is sent to the server.
///
/// Default: `Authorization`, in place of the caller's token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_token_exchange_header_name(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "token_exchange_header_name", value) }
}

/// OTLP endpoint URL.
///
/// With OTLP over HTTP, mcpm appends `/v1/traces` and `/v1/metrics` to the path of the URL. If the URL
/// has no scheme, mcpm uses `https`, or `http` with `--otel-insecure`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_otel_endpoint(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "otel_endpoint", value) }
}

/// Use HTTP instead of HTTPS for the OTLP endpoint.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_otel_insecure(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.otel_insecure = Some(value); Ok(()) }) }
}

/// Header to add to OTLP requests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_otel_headers(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "otel_headers", value) }
}

/// Service name in traces and metrics.
///
/// Default: `OTEL_SERVICE_NAME` of the environment, otherwise `mcpm-<name>`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_otel_service_name(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "otel_service_name", value) }
}

/// Additional resource attributes in traces and metrics.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_otel_custom_attributes(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "otel_custom_attributes", value) }
}

/// Names of environment variables to include in spans.
///
/// These are variables of the mcpm process, not of the server; `MCPM_*` is not allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_otel_env_vars(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "otel_env_vars", value) }
}

/// Export traces; requires an OTLP endpoint.
///
/// Default: `true`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_otel_tracing_enabled(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.otel_tracing_enabled = Some(value); Ok(()) }) }
}

/// Export metrics with OTLP; requires an OTLP endpoint.
///
/// Default: `true`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_otel_metrics_enabled(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.otel_metrics_enabled = Some(value); Ok(()) }) }
}

/// Trace sampling rate, from 0.0 to 1.0.
///
/// Default: `0.1`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_otel_sampling_rate(builder: *mut WorkloadBuilder, value: f64) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.otel_sampling_rate = Some(value); Ok(()) }) }
}

/// Serve Prometheus metrics at `/metrics` on the port of the proxy.
///
/// If incoming authentication is configured, requests to `/metrics` also require a token.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_otel_enable_prometheus_metrics_path(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.otel_enable_prometheus_metrics_path = Some(value); Ok(()) }) }
}

/// Emit legacy attribute names alongside the new semantic-convention names.
///
/// Default: `true`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_otel_use_legacy_attributes(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.otel_use_legacy_attributes = Some(value); Ok(()) }) }
}

/// Loopback port on which `/metrics` is served without a token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_otel_prometheus_port(builder: *mut WorkloadBuilder, value: u16) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.otel_prometheus_port = Some(value); Ok(()) }) }
}

/// OTLP transport.
///
/// One of `http`, `grpc`.
///
/// Default: `http`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_otel_protocol(builder: *mut WorkloadBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "otel_protocol", value) }
}

/// Name of the MCP server, for messages and logs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_server_name(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "server_name", value) }
}

/// URI of the target MCP server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_target_uri(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "target_uri", value) }
}

/// IP address or hostname that the HTTP proxy listens on.
///
/// Default: `127.0.0.1`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_host(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "host", value) }
}

/// Host port the proxy listens on; 0 picks a free one.
///
/// Default: a free port.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_port(builder: *mut ProxyBuilder, value: u16) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.port = Some(value); Ok(()) }) }
}

/// Enable debug mode.
///
/// Adds debug messages to the log. CLI only; library users configure `tracing` themselves.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_debug(builder: *mut ProxyBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.debug = Some(value); Ok(()) }) }
}

/// CA certificate bundle for mcpm's own HTTP requests (JWKS, OIDC discovery, etc.).
///
/// mcpm trusts these certificates in addition to those of the system: for remote servers, the target of
/// `mcpm proxy`, server registries, image registries that signatures are read from, identity providers,
/// token exchange and telemetry. The built-in runtime also trusts them when it pulls an image. A
/// container engine pulls images with its own certificates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_mcpm_ca_bundle(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "mcpm_ca_bundle", value) }
}

/// Trust `X-Forwarded-For`, `-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_trust_proxy_headers(builder: *mut ProxyBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.trust_proxy_headers = Some(value); Ok(()) }) }
}

/// Tools to expose to clients; all others are hidden.
///
/// Names are those that clients see. `*` matches any text, and `?` any single character. An entry that
/// starts with `!` hides the tools that it matches, and takes precedence over other entries; if all
/// entries start with `!`, all other tools are exposed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_tools(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "tools", value) }
}

/// JSON file that overrides tool names and descriptions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_tools_override(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "tools_override", value) }
}

/// Authorization configuration file.
///
/// JSON or YAML, with policies in Cedar.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_authz_config(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "authz_config", value) }
}

/// Audit configuration file.
///
/// JSON or YAML. Turns audit logging on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_audit_config(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "audit_config", value) }
}

/// Enable audit logging with the default configuration.
///
/// Each request is recorded as a line of JSON: for a workload, in a file in the workload's state
/// folder; for `mcpm proxy`, on standard output.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_enable_audit(builder: *mut ProxyBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.enable_audit = Some(value); Ok(()) }) }
}

/// Additional origins of web pages that may call the proxy.
///
/// If the proxy listens on a loopback address, it also accepts pages from loopback origins, such as
/// `http://localhost:3000`. It rejects pages from all other origins.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_allowed_origins(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "allowed_origins", value) }
}

/// Additional hostnames that clients may use to reach the proxy.
///
/// The proxy rejects requests with any other name in the `Host` header, as a protection against DNS
/// rebinding. If the permission profile has `network.inbound.allow_host`, the proxy accepts only the
/// names listed there and here. Otherwise, it also accepts loopback names and the hosts of `--host` and
/// `--allowed-origins`. If it listens on an address that is not loopback, it also accepts all IP
/// addresses and, if it requires authentication, all names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_allowed_hosts(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "allowed_hosts", value) }
}

/// OIDC issuer URL.
///
/// Each request then requires a token from this issuer. The URL must be identical to the tokens' `iss`
/// claim.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_oidc_issuer(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "oidc_issuer", value) }
}

/// Expected audience of the token.
///
/// Default: `--resource-url`, otherwise the URL of the proxy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_oidc_audience(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "oidc_audience", value) }
}

/// OIDC client ID.
///
/// The proxy identifies itself with this ID at the introspection endpoint. Without
/// `--oidc-introspection-url`, tokens that are not JWTs are introspected only if a client secret is set
/// as well.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_oidc_client_id(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "oidc_client_id", value) }
}

/// OIDC client secret, for introspection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_oidc_client_secret(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "oidc_client_secret", value) }
}

/// Token introspection endpoint URL.
///
/// If an issuer or a JWKS URL is set as well, JWTs are verified locally with the issuer's public keys,
/// and only tokens that are not JWTs are sent to this endpoint.
///
/// Default: from the issuer's metadata, if a client secret is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_oidc_introspection_url(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "oidc_introspection_url", value) }
}

/// URL to fetch the JWKS from.
///
/// Without `--oidc-issuer`, tokens signed with these keys are accepted from any issuer.
///
/// Default: from the issuer's metadata.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_oidc_jwks_url(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "oidc_jwks_url", value) }
}

/// OAuth scopes that the protected resource metadata advertises (RFC 9728).
///
/// Default: `openid`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_oidc_scopes(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "oidc_scopes", value) }
}

/// OAuth scopes that a token must have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_oidc_required_scopes(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "oidc_required_scopes", value) }
}

/// Allow OIDC and token exchange URLs without HTTPS, for development and testing (insecure).
///
/// Loopback URLs need no HTTPS, even without this option.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_oidc_insecure_allow_http(builder: *mut ProxyBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.oidc_insecure_allow_http = Some(value); Ok(()) }) }
}

/// Allow JWKS, OIDC and token exchange endpoints on private IP addresses.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_jwks_allow_private_ip(builder: *mut ProxyBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.jwks_allow_private_ip = Some(value); Ok(()) }) }
}

/// File with a bearer token that authenticates JWKS and OIDC requests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_jwks_auth_token_file(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "jwks_auth_token_file", value) }
}

/// Log in to the remote server with OAuth/OIDC, even if its responses do not ask for it.
///
/// Without this option, `mcpm run` logs in if the server asks for it. Other commands then log in only
/// if another option for the login is set. `mcpm proxy` without any option of outgoing authentication
/// forwards the credentials of its clients.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_remote_auth(builder: *mut ProxyBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.remote_auth = Some(value); Ok(()) }) }
}

/// OAuth/OIDC issuer URL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_remote_auth_issuer(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_issuer", value) }
}

/// Authorization endpoint, instead of the issuer, for an authorization server without metadata.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_remote_auth_authorize_url(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_authorize_url", value) }
}

/// Token endpoint, instead of the issuer, for an authorization server without metadata.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_remote_auth_token_url(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_token_url", value) }
}

/// OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_remote_auth_client_id(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_client_id", value) }
}

/// URL of a client ID metadata document, for authorization servers that support such documents.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_remote_auth_client_metadata_url(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_client_metadata_url", value) }
}

/// OAuth client secret, if the authorization server has issued one for `--remote-auth-client-id`.
///
/// Do not use this option in production: other users of the machine may see the secret in the process
/// list. The option takes precedence over `--remote-auth-client-secret-file`, which takes precedence
/// over the variable `MCPM_REMOTE_OAUTH_CLIENT_SECRET`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_remote_auth_client_secret(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_client_secret", value) }
}

/// File with the OAuth client secret.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_remote_auth_client_secret_file(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_client_secret_file", value) }
}

/// Bearer token for the remote server, instead of OAuth.
///
/// Do not use this option in production: other users of the machine may see the token in the process
/// list. The option takes precedence over `--remote-auth-bearer-token-file`, which takes precedence
/// over the variable `MCPM_REMOTE_AUTH_BEARER_TOKEN`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_remote_auth_bearer_token(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_bearer_token", value) }
}

/// File with the bearer token for the remote server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_remote_auth_bearer_token_file(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_bearer_token_file", value) }
}

/// Scopes to request.
///
/// Default: the scopes that the server asks for, otherwise `openid,profile,email` if
/// `--remote-auth-issuer` supports OIDC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_remote_auth_scopes(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_scopes", value) }
}

/// OAuth 2.0 resource indicator (RFC 8707).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_remote_auth_resource(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_auth_resource", value) }
}

/// Resource identifier in the protected resource metadata (RFC 9728).
///
/// Default: the URL the proxy listens on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_resource_url(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "resource_url", value) }
}

/// Port of the local OAuth callback server.
///
/// Default: `8666`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_remote_auth_callback_port(builder: *mut ProxyBuilder, value: u16) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.remote_auth_callback_port = Some(value); Ok(()) }) }
}

/// Do not open a browser for the OAuth flow.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_remote_auth_skip_browser(builder: *mut ProxyBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.remote_auth_skip_browser = Some(value); Ok(()) }) }
}

/// Timeout of the OAuth flow, such as `30s` or `1m30s`.
///
/// Default: `30s`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_remote_auth_timeout(builder: *mut ProxyBuilder, milliseconds: u64) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.remote_auth_timeout = Some(Duration::from_millis(milliseconds)); Ok(()) }) }
}

/// Header added to requests to the remote server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_remote_forward_headers(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_forward_headers", value) }
}

/// Header added to requests to the remote server, with a secret from the secret store as its value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_remote_forward_headers_secret(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "remote_forward_headers_secret", value) }
}

/// OAuth 2.0 token exchange endpoint; enables token exchange.
///
/// Each caller's token is exchanged there (RFC 8693), and the new token is sent to the server instead.
/// Requires incoming authentication; see `--oidc-issuer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_token_exchange_url(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "token_exchange_url", value) }
}

/// Audience to request for the new token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_token_exchange_audience(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "token_exchange_audience", value) }
}

/// Client ID for token exchange.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_token_exchange_client_id(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "token_exchange_client_id", value) }
}

/// Client secret for token exchange.
///
/// Do not use this option in production: other users of the machine may see the secret in the process
/// list. The option takes precedence over the variable `MCPM_TOKEN_EXCHANGE_CLIENT_SECRET`, and cannot
/// be combined with `--token-exchange-client-secret-file`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_token_exchange_client_secret(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "token_exchange_client_secret", value) }
}

/// File with the client secret for token exchange.
///
/// mcpm reads the file again for each exchange. The file takes precedence over the variable
/// `MCPM_TOKEN_EXCHANGE_CLIENT_SECRET`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_token_exchange_client_secret_file(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "token_exchange_client_secret_file", value) }
}

/// Scopes to request for the new token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_token_exchange_scopes(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "token_exchange_scopes", value) }
}

/// Type of the token that is exchanged.
///
/// With `id_token`, ID tokens are accepted from callers as well.
///
/// One of `access_token`, `id_token`.
///
/// Default: `access_token`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_token_exchange_subject_token_type(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "token_exchange_subject_token_type", value) }
}

/// Header in which the new token is sent to the server.
///
/// Default: `Authorization`, in place of the caller's token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_token_exchange_header_name(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "token_exchange_header_name", value) }
}

/// OTLP endpoint URL.
///
/// With OTLP over HTTP, mcpm appends `/v1/traces` and `/v1/metrics` to the path of the URL. If the URL
/// has no scheme, mcpm uses `https`, or `http` with `--otel-insecure`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_otel_endpoint(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "otel_endpoint", value) }
}

/// Use HTTP instead of HTTPS for the OTLP endpoint.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_otel_insecure(builder: *mut ProxyBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.otel_insecure = Some(value); Ok(()) }) }
}

/// Header to add to OTLP requests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_otel_headers(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "otel_headers", value) }
}

/// Service name in traces and metrics.
///
/// Default: `OTEL_SERVICE_NAME` of the environment, otherwise `mcpm-<name>`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_otel_service_name(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "otel_service_name", value) }
}

/// Additional resource attributes in traces and metrics.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_otel_custom_attributes(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "otel_custom_attributes", value) }
}

/// Names of environment variables to include in spans.
///
/// These are variables of the mcpm process, not of the server; `MCPM_*` is not allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_otel_env_vars(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "otel_env_vars", value) }
}

/// Export traces; requires an OTLP endpoint.
///
/// Default: `true`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_otel_tracing_enabled(builder: *mut ProxyBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.otel_tracing_enabled = Some(value); Ok(()) }) }
}

/// Export metrics with OTLP; requires an OTLP endpoint.
///
/// Default: `true`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_otel_metrics_enabled(builder: *mut ProxyBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.otel_metrics_enabled = Some(value); Ok(()) }) }
}

/// Trace sampling rate, from 0.0 to 1.0.
///
/// Default: `0.1`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_otel_sampling_rate(builder: *mut ProxyBuilder, value: f64) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.otel_sampling_rate = Some(value); Ok(()) }) }
}

/// Serve Prometheus metrics at `/metrics` on the port of the proxy.
///
/// If incoming authentication is configured, requests to `/metrics` also require a token.
///
/// Default: `false`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_otel_enable_prometheus_metrics_path(builder: *mut ProxyBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.otel_enable_prometheus_metrics_path = Some(value); Ok(()) }) }
}

/// Emit legacy attribute names alongside the new semantic-convention names.
///
/// Default: `true`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_otel_use_legacy_attributes(builder: *mut ProxyBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.otel_use_legacy_attributes = Some(value); Ok(()) }) }
}

/// Loopback port on which `/metrics` is served without a token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_otel_prometheus_port(builder: *mut ProxyBuilder, value: u16) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set(builder, |options| { options.otel_prometheus_port = Some(value); Ok(()) }) }
}

/// OTLP transport.
///
/// One of `http`, `grpc`.
///
/// Default: `http`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_otel_protocol(builder: *mut ProxyBuilder, value: *const c_char) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_text(builder, "otel_protocol", value) }
}
