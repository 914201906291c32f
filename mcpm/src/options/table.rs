//! Declares the options of `mcpm run` and `mcpm proxy`, in the order of the help.
//!
//! A row has a name, a slot (`Option` for one value, `Vec` for many, `List` for many that may be comma-separated), a
//! type, the default as a user would type it, and settings of [`OptionSpec`](super::OptionSpec). If all options of a
//! section need a Cargo feature, `needs` names the feature. The first documentation line is the help text; it ends
//! without a full stop and does not repeat the default. After a change, run
//! `MCPM_UPDATE=1 cargo test -p mcpm-tests --test generated`.

use std::{path::PathBuf, time::Duration};

use super::{
    ArgumentPosition, Attributes, EnvVar, Header, HeaderSecret, ImageVerification, KeyValue, List,
    OtlpProtocol, PermissionProfile, ProxyMode, PublishSpec, Required, RestartMode, RuntimeChoice, Secret,
    SecretRef, SubjectTokenType, Transport, ValueKind, VolumeSpec,
};
use crate::Feature;

options! {
    section "Workload and container" for (run) {
        /// Server name, image, package (`uvx://`, `npx://`, `go://`), local path, or URL
        ///
        /// A name without a tag is looked up in the registry; the registry entry supplies the transport, the
        /// permissions and the environment variables. A name that the registry does not have is taken as the name of an
        /// image. Use `registry:NAME` or `image:IMAGE` to select one of the two.
        /// An image is run as it is. mcpm builds a container image for a package, and for a path that begins with `./`,
        /// `../` or `/`: a script such as `./server.py` or `./server.ts`, a folder with a `pyproject.toml`,
        /// `package.json` or `go.mod`, or an MCP bundle (`./server.mcpb`). For a URL, mcpm runs only a proxy, which
        /// forwards requests to the remote server.
        server: Option<String> [
            place: ArgumentPosition::Positional, placeholder: Some("SERVER_OR_IMAGE_OR_PROTOCOL"),
            required: Required::Unless("from_config"),
        ];
        /// Arguments passed to the MCP server
        args: Vec<String> [place: ArgumentPosition::Trailing, placeholder: Some("ARGS")];
        /// Name of the workload
        name: Option<String> [
            common: true,
            placeholder: Some("NAME"), computed_default: Some("generated from the server"), allowed_with_from_config: true,
        ];
        /// Group the workload belongs to
        ///
        /// A group that does not exist is created.
        group: Option<String> = "default" [placeholder: Some("GROUP"), allowed_with_from_config: true];
        /// Label to add to the container
        label: Vec<KeyValue> [short: Some('l')];
        /// Transport mode of the server
        ///
        /// If the registry entry names no transport, or if there is no registry entry, the default is `streamable-http`
        /// for URLs and for images that expose a port, and `stdio` for all other servers.
        transport: Option<Transport> [
            common: true, computed_default: Some("from the registry entry or the kind of server"),
        ];
        /// Transport that the proxy of a stdio server offers; `sse` is deprecated and will be removed
        proxy_mode: Option<ProxyMode> = "streamable-http";
    }
    section "Proxy" for (proxy) {
        /// Name of the MCP server, for messages and logs
        server_name: Option<String> [
            place: ArgumentPosition::Positional, placeholder: Some("SERVER_NAME"), required: Required::Always,
        ];
        /// URI of the target MCP server
        target_uri: Option<String> [
            common: true, kind: ValueKind::Url, placeholder: Some("URI"), required: Required::Always,
        ];
    }
    section "Workload and container" | "Proxy" for (run, proxy) {
        /// IP address or hostname that the HTTP proxy listens on
        host: Option<String> = "127.0.0.1" [kind: ValueKind::Host];
    }
    section "Proxy" for (proxy) {
        /// Host port the proxy listens on; 0 picks a free one
        port: Option<u16> [common: true, computed_default: Some("a free port")];
        /// Enable debug mode
        ///
        /// Adds debug messages to the log. CLI only; library users configure `tracing` themselves.
        debug: Option<bool> = "false" [place: ArgumentPosition::Global];
    }
    section "Workload and container" for (run) {
        /// Host port the HTTP proxy listens on; 0 picks a free one
        proxy_port: Option<u16> [common: true, computed_default: Some("a free port"), allowed_with_from_config: true];
        /// Host that traffic is forwarded to, for the transports `sse` and `streamable-http`
        target_host: Option<String> = "127.0.0.1" [kind: ValueKind::Host];
        /// Port the container exposes, for the transports `sse` and `streamable-http`
        target_port: Option<u16> [
            range: Some((1.0, 65535.0)),
            computed_default: Some("from the registry entry, otherwise the port the image exposes, otherwise 8080"),
        ];
        /// Publish a container port on the host
        ///
        /// The port is bound to the loopback address unless another address precedes it. If only the container
        /// port is given, a free host port is chosen. IPv6 addresses are written in brackets.
        publish: Vec<PublishSpec> [short: Some('p')];
        /// Network mode of the container: `bridge`, `host`, `none`, `container:NAME`, or the name of a network
        ///
        /// Without this option, the `network.mode` of the permission profile is used, if the profile has one.
        network: Option<String> = "bridge" [placeholder: Some("NETWORK")];
        /// Isolate the container network from the host
        ///
        /// Each connection of the server passes through mcpm, which rejects connections that the permission profile
        /// does not allow. Even without this option, mcpm isolates the container if the permission profile allows no
        /// connections, or is a file that restricts them. The built-in runtime isolates all containers except those in
        /// the network `host`.
        isolate_network: Option<bool> = "false" [common: true];
        /// Let an isolated container connect to the container runtime's gateway addresses
        ///
        /// These addresses, such as `host.docker.internal` and `172.17.0.1`, lead to this machine. Without this option,
        /// mcpm blocks connections to them, even if the permission profile has `insecure_allow_all`.
        allow_runtime_gateway: Option<bool> = "false";
        /// Environment variable for the server
        ///
        /// On the command line, `-e NAME` passes the value that the variable has in mcpm's own environment, where it
        /// must be set.
        env: Vec<EnvVar> [common: true, short: Some('e')];
        /// Load environment variables from a file
        env_file: Option<PathBuf>;
        /// Load environment variables from all files in a folder, except hidden files
        env_file_dir: Option<PathBuf> [kind: ValueKind::Folder];
        /// Secret from the secret store, passed to the server as an environment variable
        ///
        /// `NAME` is the name used with `mcpm secret set`, and `TARGET` is the name of the variable. With the target
        /// `file:PATH`, the server gets the secret as a file at this absolute path in its container instead. With
        /// `header:HEADER`, the proxy adds the header `HEADER` with the secret to each request to a remote server.
        secret: Vec<SecretRef> [common: true];
        /// Mount a host file or folder into the container
        ///
        /// The container path may be followed by a colon and comma-separated options: `ro` or `rw`, and `z` (shared) or
        /// `Z` (private) for SELinux relabelling. A relative host path is resolved from the current folder.
        volume: Vec<VolumeSpec> [common: true, short: Some('v')];
        /// Files and networks that the server may use
        permission_profile: Option<PermissionProfile> [
            common: true,
            computed_default: Some("from the registry entry, otherwise `network`"),
        ];
        /// Write a permission profile that allows the hosts that the server connects to or looks up
        ///
        /// While the profile is recorded, mcpm isolates the server's network. If the registry entry of the server has
        /// permissions, the server may connect only to the hosts that they allow; otherwise, to all public addresses.
        learn: Option<PathBuf> [
            addition: true, placeholder: Some("PROFILE.json"),
            conflicts_with: &["permission_profile", "network"],
        ];
        /// Run in the foreground until the server exits
        ///
        /// CLI only; a program that uses the library runs its workloads in its own process.
        foreground: Option<bool> = "false" [common: true, short: Some('f'), allowed_with_from_config: true];
        /// Load the configuration from a file that `mcpm export` has written
        ///
        /// Of the options that configure the workload, only `--name`, `--group`, `--proxy-port`, `--foreground` and
        /// `--debug` can be combined with it. They take precedence over the file.
        from_config: Option<PathBuf> [is_exclusive: true];
        /// Load global ignore patterns from `mcpmignore` in the configuration folder
        ///
        /// If a file or folder in a mounted folder matches one of these patterns, or a pattern in a `.mcpmignore` file
        /// there, the server sees an empty file or folder in its place. Builds of local projects leave out files that
        /// match the global patterns. The syntax is that of `.gitignore`.
        ignore_globally: Option<bool> = "true";
        /// Print the container paths of the overlays that hide ignored files and folders
        ///
        /// CLI only; library users find them in the plan.
        print_resolved_overlays: Option<bool> = "false";
        /// What to do if the signature of the image is missing or invalid
        ///
        /// mcpm reads the signature from the image registry. The required signer is set with the other verification
        /// options or by the server's registry entry. If neither names a signer, `warn` starts the image unverified,
        /// and `enabled` refuses to start it. The container runs the digest that was verified.
        image_verification: Option<ImageVerification> = "warn" [
            feature: Some(Feature::Verify), supported_values: &["warn", "disabled"],
        ];
        /// PEM file with the public key of the required signer of the image
        image_verification_key: Option<PathBuf> [
            feature: Some(Feature::Verify),
            addition: true,
            conflicts_with: &["certificate_identity", "certificate_oidc_issuer", "sigstore_trusted_root"],
        ];
        /// Required identity in the signer's certificate: an email address or a URI
        certificate_identity: Option<String> [
            feature: Some(Feature::Verify),
            placeholder: Some("IDENTITY"), computed_default: Some("from the registry entry"), addition: true,
        ];
        /// Required OIDC issuer in the signer's certificate
        certificate_oidc_issuer: Option<String> [
            feature: Some(Feature::Verify),
            kind: ValueKind::Url, computed_default: Some("from the registry entry"), addition: true,
        ];
        /// Sigstore `trusted_root.json` with the trusted certificate authorities and logs
        sigstore_trusted_root: Option<PathBuf> [
            feature: Some(Feature::Verify),
            placeholder: Some("FILE"), computed_default: Some("Sigstore's public instance"), addition: true,
        ];
        /// Custom CA certificate file for container builds and for servers in containers
        ///
        /// The build of a package and the package's server trust the certificates in the file. A server from an image
        /// gets the certificates as files in its container, and environment variables with the paths of these files,
        /// such as `SSL_CERT_FILE`.
        ca_cert: Option<PathBuf>;
    }
    section "Workload and container" | "Proxy" for (run, proxy as addition) {
        /// CA certificate bundle for mcpm's own HTTP requests (JWKS, OIDC discovery, etc.)
        ///
        /// mcpm trusts these certificates in addition to those of the system: for remote servers, the target of
        /// `mcpm proxy`, server registries, image registries that signatures are read from, identity providers, token
        /// exchange and telemetry. The built-in runtime also trusts them when it pulls an image. A container engine
        /// pulls images with its own certificates.
        mcpm_ca_bundle: Option<PathBuf>;
    }
    section "Workload and container" for (run) {
        /// Base image for packages, and for local scripts, projects and MCP bundles
        runtime_image: Option<String> [placeholder: Some("IMAGE")];
        /// Additional Linux package to install in the builder and runtime stages of the image
        runtime_add_package: Vec<String> [placeholder: Some("PACKAGE")];
        /// Path prefix prepended to URLs that the proxy sends to clients, such as SSE endpoint URLs
        endpoint_prefix: Option<String> [placeholder: Some("PREFIX")];
    }
    section "Workload and container" | "Proxy" for (run, proxy as addition) {
        /// Trust `X-Forwarded-For`, `-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies
        trust_proxy_headers: Option<bool> = "false";
        /// Tools to expose to clients; all others are hidden
        ///
        /// Names are those that clients see. `*` matches any text, and `?` any single character. An entry that starts
        /// with `!` hides the tools that it matches, and takes precedence over other entries; if all entries start
        /// with `!`, all other tools are exposed.
        tools: List<String> [placeholder: Some("TOOL,...")];
        /// JSON file that overrides tool names and descriptions
        tools_override: Option<PathBuf>;
        /// Authorization configuration file
        ///
        /// JSON or YAML, with policies in Cedar.
        authz_config: Option<PathBuf> [feature: Some(Feature::Policy)];
        /// Audit configuration file
        ///
        /// JSON or YAML. Turns audit logging on.
        audit_config: Option<PathBuf>;
        /// Enable audit logging with the default configuration
        ///
        /// Each request is recorded as a line of JSON: for a workload, in a file in the workload's state folder; for
        /// `mcpm proxy`, on standard output.
        enable_audit: Option<bool> = "false";
    }
    section "Workload and container" for (run) {
        /// Enable debug mode
        ///
        /// Adds debug messages to the log. CLI only; library users configure `tracing` themselves.
        debug: Option<bool> = "false" [place: ArgumentPosition::Global, allowed_with_from_config: true];
        /// Container runtime to use
        runtime: Option<RuntimeChoice> = "auto" [addition: true];
        /// Which command of the package starts the server, if the package has more than one command
        package_command: Option<String> [placeholder: Some("COMMAND"), addition: true];
        /// Additional package to install together with a Python or Node.js package, project or script
        with_package: Vec<String> [flag_name: Some("with"), placeholder: Some("PACKAGE"), addition: true];
        /// Value for a key of an MCP bundle; the bundle's manifest defines the keys
        ///
        /// If the key takes a file or folder, mcpm mounts that file or folder read-write at the same path in the
        /// container; `-v PATH:PATH:ro` mounts it read-only. If a key may have several values, repeat the option. For a
        /// key that is a secret, use `--secret NAME,target=VARIABLE` instead: `VARIABLE` is the environment variable to
        /// which the manifest assigns the key.
        config: Vec<KeyValue> [addition: true];
        /// Rebuild the package's image with the newest matching version of the package
        rebuild: Option<bool> = "false" [addition: true, conflicts_with: &["offline"]];
        /// Use an image that is present locally; do not pull or build one
        offline: Option<bool> = "false" [addition: true];
        /// Whether a server that has exited is started again: never, only after a failure, or always
        ///
        /// The delay before a restart grows, and after 10 restarts in a row the workload fails. In the foreground, the
        /// default is `no`. `mcpm start --interrupted` does not start workloads whose value is `no`.
        restart: Option<RestartMode> = "always" [addition: true];
        /// How long a server may take to become ready, such as `90s` or `5m`
        start_timeout: Option<Duration> = "60s" [addition: true];
    }
    section "Workload and container" | "Proxy" for (run, proxy) {
        /// Additional origins of web pages that may call the proxy
        ///
        /// If the proxy listens on a loopback address, it also accepts pages from loopback origins, such as
        /// `http://localhost:3000`. It rejects pages from all other origins.
        allowed_origins: List<String> [placeholder: Some("ORIGIN,..."), addition: true];
        /// Additional hostnames that clients may use to reach the proxy
        ///
        /// The proxy rejects requests with any other name in the `Host` header, as a protection against DNS rebinding.
        /// If the permission profile has `network.inbound.allow_host`, the proxy accepts only the names listed there
        /// and here. Otherwise, it also accepts loopback names and the hosts of `--host` and `--allowed-origins`. If it
        /// listens on an address that is not loopback, it also accepts all IP addresses and, if it requires
        /// authentication, all names.
        allowed_hosts: List<String> [placeholder: Some("HOST,..."), addition: true];
    }
    section "Workload and container" for (run) {
        /// Registry that server names are looked up in: `embedded`, a file, or a URL
        ///
        /// A URL whose path ends in `.json` is a document; any other URL is the base of a registry's REST API.
        registry: Option<String> [
            placeholder: Some("REGISTRY"), computed_default: Some("from the configuration, otherwise `embedded`"), addition: true,
        ];
    }
    section "Incoming authentication" for (run, proxy) {
        /// OIDC issuer URL
        ///
        /// Each request then requires a token from this issuer. The URL must be identical to the tokens' `iss` claim.
        oidc_issuer: Option<String> [kind: ValueKind::Url];
        /// Expected audience of the token
        oidc_audience: Option<String> [
            placeholder: Some("AUDIENCE"), computed_default: Some("`--resource-url`, otherwise the URL of the proxy"),
        ];
        /// OIDC client ID
        ///
        /// The proxy identifies itself with this ID at the introspection endpoint. Without `--oidc-introspection-url`,
        /// tokens that are not JWTs are introspected only if a client secret is set as well.
        oidc_client_id: Option<String> [placeholder: Some("ID")];
        /// OIDC client secret, for introspection
        oidc_client_secret: Option<Secret> [env: Some("MCPM_OIDC_CLIENT_SECRET")];
        /// Token introspection endpoint URL
        ///
        /// If an issuer or a JWKS URL is set as well, JWTs are verified locally with the issuer's public keys, and only
        /// tokens that are not JWTs are sent to this endpoint.
        oidc_introspection_url: Option<String> [
            kind: ValueKind::Url, computed_default: Some("from the issuer's metadata, if a client secret is set"),
        ];
        /// URL to fetch the JWKS from
        ///
        /// Without `--oidc-issuer`, tokens signed with these keys are accepted from any issuer.
        oidc_jwks_url: Option<String> [kind: ValueKind::Url, computed_default: Some("from the issuer's metadata")];
        /// OAuth scopes that the protected resource metadata advertises (RFC 9728)
        oidc_scopes: List<String> = "openid" [placeholder: Some("SCOPE,...")];
        /// OAuth scopes that a token must have
        oidc_required_scopes: List<String> [placeholder: Some("SCOPE,..."), addition: true];
    }
    section "Incoming authentication" for (run, proxy as addition) {
        /// Allow OIDC and token exchange URLs without HTTPS, for development and testing (insecure)
        ///
        /// Loopback URLs need no HTTPS, even without this option.
        oidc_insecure_allow_http: Option<bool> = "false";
        /// Allow JWKS, OIDC and token exchange endpoints on private IP addresses
        jwks_allow_private_ip: Option<bool> = "false";
        /// File with a bearer token that authenticates JWKS and OIDC requests
        jwks_auth_token_file: Option<PathBuf>;
    }
    section "Outgoing authentication" for (run, proxy) needs Login {
        /// Log in to the remote server with OAuth/OIDC, even if its responses do not ask for it
        ///
        /// Without this option, `mcpm run` logs in if the server asks for it. Other commands then log in only if
        /// another option for the login is set. `mcpm proxy` without any option of outgoing authentication forwards the
        /// credentials of its clients.
        remote_auth: Option<bool> = "false";
        /// OAuth/OIDC issuer URL
        remote_auth_issuer: Option<String> [
            kind: ValueKind::Url,
            conflicts_with: &["remote_auth_authorize_url", "remote_auth_token_url"],
        ];
        /// Authorization endpoint, instead of the issuer, for an authorization server without metadata
        remote_auth_authorize_url: Option<String> [kind: ValueKind::Url];
        /// Token endpoint, instead of the issuer, for an authorization server without metadata
        remote_auth_token_url: Option<String> [kind: ValueKind::Url];
        /// OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591)
        remote_auth_client_id: Option<String> [placeholder: Some("ID")];
        /// URL of a client ID metadata document, for authorization servers that support such documents
        remote_auth_client_metadata_url: Option<String> [kind: ValueKind::Url, addition: true];
        /// OAuth client secret, if the authorization server has issued one for `--remote-auth-client-id`
        ///
        /// Do not use this option in production: other users of the machine may see the secret in the process list. The
        /// option takes precedence over `--remote-auth-client-secret-file`, which takes precedence over the variable
        /// `MCPM_REMOTE_OAUTH_CLIENT_SECRET`.
        remote_auth_client_secret: Option<Secret> [env: Some("MCPM_REMOTE_OAUTH_CLIENT_SECRET")];
        /// File with the OAuth client secret
        remote_auth_client_secret_file: Option<PathBuf>;
        /// Bearer token for the remote server, instead of OAuth
        ///
        /// Do not use this option in production: other users of the machine may see the token in the process list. The
        /// option takes precedence over `--remote-auth-bearer-token-file`, which takes precedence over the variable
        /// `MCPM_REMOTE_AUTH_BEARER_TOKEN`.
        remote_auth_bearer_token: Option<Secret> [env: Some("MCPM_REMOTE_AUTH_BEARER_TOKEN")];
        /// File with the bearer token for the remote server
        remote_auth_bearer_token_file: Option<PathBuf>;
        /// Scopes to request
        remote_auth_scopes: List<String> [
            placeholder: Some("SCOPE,..."), computed_default: Some("the scopes that the server asks for, otherwise `openid,profile,email` if `--remote-auth-issuer` supports OIDC"),
        ];
        /// OAuth 2.0 resource indicator (RFC 8707)
        remote_auth_resource: Option<String> [kind: ValueKind::Url];
    }
    section "Outgoing authentication" for (run, proxy) {
        /// Resource identifier in the protected resource metadata (RFC 9728)
        resource_url: Option<String> [kind: ValueKind::Url, computed_default: Some("the URL the proxy listens on")];
    }
    section "Outgoing authentication" for (run, proxy) needs Login {
        /// Port of the local OAuth callback server
        remote_auth_callback_port: Option<u16> = "8666";
        /// Do not open a browser for the OAuth flow
        remote_auth_skip_browser: Option<bool> = "false";
        /// Timeout of the OAuth flow, such as `30s` or `1m30s`
        remote_auth_timeout: Option<Duration> = "30s";
    }
    section "Outgoing authentication" for (run, proxy) {
        /// Header added to requests to the remote server
        remote_forward_headers: Vec<Header>;
        /// Header added to requests to the remote server, with a secret from the secret store as its value
        remote_forward_headers_secret: Vec<HeaderSecret>;
    }
    section "Token exchange" for (run, proxy) {
        /// OAuth 2.0 token exchange endpoint; enables token exchange
        ///
        /// Each caller's token is exchanged there (RFC 8693), and the new token is sent to the server instead.
        /// Requires incoming authentication; see `--oidc-issuer`.
        token_exchange_url: Option<String> [kind: ValueKind::Url];
        /// Audience to request for the new token
        token_exchange_audience: Option<String> [placeholder: Some("AUDIENCE")];
        /// Client ID for token exchange
        token_exchange_client_id: Option<String> [placeholder: Some("ID")];
        /// Client secret for token exchange
        ///
        /// Do not use this option in production: other users of the machine may see the secret in the process list. The
        /// option takes precedence over the variable `MCPM_TOKEN_EXCHANGE_CLIENT_SECRET`, and cannot be combined with
        /// `--token-exchange-client-secret-file`.
        token_exchange_client_secret: Option<Secret> [
            env: Some("MCPM_TOKEN_EXCHANGE_CLIENT_SECRET"), conflicts_with: &["token_exchange_client_secret_file"],
        ];
        /// File with the client secret for token exchange
        ///
        /// mcpm reads the file again for each exchange. The file takes precedence over the variable
        /// `MCPM_TOKEN_EXCHANGE_CLIENT_SECRET`.
        token_exchange_client_secret_file: Option<PathBuf>;
        /// Scopes to request for the new token
        token_exchange_scopes: List<String> [placeholder: Some("SCOPE,...")];
        /// Type of the token that is exchanged
        ///
        /// With `id_token`, ID tokens are accepted from callers as well.
        token_exchange_subject_token_type: Option<SubjectTokenType> = "access_token" [placeholder: Some("TYPE")];
        /// Header in which the new token is sent to the server
        token_exchange_header_name: Option<String> [
            placeholder: Some("NAME"), computed_default: Some("`Authorization`, in place of the caller's token"),
        ];
    }
    section "Telemetry" for (run, proxy as addition) needs Telemetry {
        /// OTLP endpoint URL
        ///
        /// With OTLP over HTTP, mcpm appends `/v1/traces` and `/v1/metrics` to the path of the URL. If the URL has no
        /// scheme, mcpm uses `https`, or `http` with `--otel-insecure`.
        otel_endpoint: Option<String> [kind: ValueKind::Url];
        /// Use HTTP instead of HTTPS for the OTLP endpoint
        otel_insecure: Option<bool> = "false";
        /// Header to add to OTLP requests
        otel_headers: Vec<Header> [placeholder: Some("key=value")];
        /// Service name in traces and metrics
        otel_service_name: Option<String> [
            placeholder: Some("NAME"), computed_default: Some("`OTEL_SERVICE_NAME` of the environment, otherwise `mcpm-<name>`"),
        ];
        /// Additional resource attributes in traces and metrics
        otel_custom_attributes: Option<Attributes>;
        /// Names of environment variables to include in spans
        ///
        /// These are variables of the mcpm process, not of the server; `MCPM_*` is not allowed.
        otel_env_vars: List<String> [placeholder: Some("NAME,...")];
        /// Export traces; requires an OTLP endpoint
        otel_tracing_enabled: Option<bool> = "true";
        /// Export metrics with OTLP; requires an OTLP endpoint
        otel_metrics_enabled: Option<bool> = "true";
        /// Trace sampling rate, from 0.0 to 1.0
        otel_sampling_rate: Option<f64> = "0.1" [range: Some((0.0, 1.0))];
        /// Serve Prometheus metrics at `/metrics` on the port of the proxy
        ///
        /// If incoming authentication is configured, requests to `/metrics` also require a token.
        otel_enable_prometheus_metrics_path: Option<bool> = "false";
        /// Emit legacy attribute names alongside the new semantic-convention names
        otel_use_legacy_attributes: Option<bool> = "true";
    }
    section "Telemetry" for (run, proxy) needs Telemetry {
        /// Loopback port on which `/metrics` is served without a token
        otel_prometheus_port: Option<u16> [range: Some((1.0, 65535.0)), addition: true];
        /// OTLP transport
        otel_protocol: Option<OtlpProtocol> = "http" [addition: true];
    }
}
