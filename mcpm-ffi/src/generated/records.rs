// Generated from the option table by tests/generated.rs; do not edit.

/// The options of a workload; options that are left out are unset.
#[uniffi::remote(Record)]
pub struct WorkloadOptions {
    /// Server name, image, package (`uvx://`, `npx://`, `go://`), local path, or URL.
    ///
    /// A name without a tag is looked up in the registry; the registry entry supplies the transport, the
    /// permissions and the environment variables. A name that the registry does not have is taken as the
    /// name of an image. Use `registry:NAME` or `image:IMAGE` to select one of the two. An image is run as
    /// it is. mcpm builds a container image for a package, and for a path that begins with `./`, `../` or
    /// `/`: a script such as `./server.py` or `./server.ts`, a folder with a `pyproject.toml`,
    /// `package.json` or `go.mod`, or an MCP bundle (`./server.mcpb`). For a URL, mcpm runs only a proxy,
    /// which forwards requests to the remote server.
    #[uniffi(default)]
    pub server: Option<String>,
    /// Arguments passed to the MCP server.
    #[uniffi(default)]
    pub args: Vec<String>,
    /// Name of the workload.
    ///
    /// Default: generated from the server.
    #[uniffi(default)]
    pub name: Option<String>,
    /// Group the workload belongs to.
    ///
    /// A group that does not exist is created.
    ///
    /// Default: `default`.
    #[uniffi(default)]
    pub group: Option<String>,
    /// Label to add to the container.
    #[uniffi(default)]
    pub label: Vec<KeyValue>,
    /// Transport mode of the server.
    ///
    /// If the registry entry names no transport, or if there is no registry entry, the default is
    /// `streamable-http` for URLs and for images that expose a port, and `stdio` for all other servers.
    ///
    /// One of `sse`, `streamable-http`, `stdio`.
    ///
    /// Default: from the registry entry or the kind of server.
    #[uniffi(default)]
    pub transport: Option<Transport>,
    /// Transport that the proxy of a stdio server offers; `sse` is deprecated and will be removed.
    ///
    /// One of `streamable-http`, `sse`.
    ///
    /// Default: `streamable-http`.
    #[uniffi(default)]
    pub proxy_mode: Option<ProxyMode>,
    /// IP address or hostname that the HTTP proxy listens on.
    ///
    /// Default: `127.0.0.1`.
    #[uniffi(default)]
    pub host: Option<String>,
    /// Host port the HTTP proxy listens on; 0 picks a free one.
    ///
    /// Default: a free port.
    #[uniffi(default)]
    pub proxy_port: Option<u16>,
    /// Host that traffic is forwarded to, for the transports `sse` and `streamable-http`.
    ///
    /// Default: `127.0.0.1`.
    #[uniffi(default)]
    pub target_host: Option<String>,
    /// Port the container exposes, for the transports `sse` and `streamable-http`.
    ///
    /// Default: from the registry entry, otherwise the port the image exposes, otherwise 8080.
    #[uniffi(default)]
    pub target_port: Option<u16>,
    /// Publish a container port on the host.
    ///
    /// The port is bound to the loopback address unless another address precedes it. If only the container
    /// port is given, a free host port is chosen. IPv6 addresses are written in brackets.
    #[uniffi(default)]
    pub publish: Vec<PublishSpec>,
    /// Network mode of the container: `bridge`, `host`, `none`, `container:NAME`, or the name of a network.
    ///
    /// Without this option, the `network.mode` of the permission profile is used, if the profile has one.
    ///
    /// Default: `bridge`.
    #[uniffi(default)]
    pub network: Option<String>,
    /// Isolate the container network from the host.
    ///
    /// Each connection of the server passes through mcpm, which rejects connections that the permission
    /// profile does not allow. Even without this option, mcpm isolates the container if the permission
    /// profile allows no connections, or is a file that restricts them. The built-in runtime isolates all
    /// containers except those in the network `host`.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub isolate_network: Option<bool>,
    /// Let an isolated container connect to the container runtime's gateway addresses.
    ///
    /// These addresses, such as `host.docker.internal` and `172.17.0.1`, lead to this machine. Without this
    /// option, mcpm blocks connections to them, even if the permission profile has `insecure_allow_all`.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub allow_runtime_gateway: Option<bool>,
    /// Environment variable for the server.
    ///
    /// On the command line, `-e NAME` passes the value that the variable has in mcpm's own environment,
    /// where it must be set.
    #[uniffi(default)]
    pub env: Vec<EnvVar>,
    /// Load environment variables from a file.
    #[uniffi(default)]
    pub env_file: Option<PathBuf>,
    /// Load environment variables from all files in a folder, except hidden files.
    #[uniffi(default)]
    pub env_file_dir: Option<PathBuf>,
    /// Secret from the secret store, passed to the server as an environment variable.
    ///
    /// `NAME` is the name used with `mcpm secret set`, and `TARGET` is the name of the variable. With the
    /// target `file:PATH`, the server gets the secret as a file at this absolute path in its container
    /// instead. With `header:HEADER`, the proxy adds the header `HEADER` with the secret to each request to
    /// a remote server.
    #[uniffi(default)]
    pub secret: Vec<SecretRef>,
    /// Mount a host file or folder into the container.
    ///
    /// The container path may be followed by a colon and comma-separated options: `ro` or `rw`, and `z`
    /// (shared) or `Z` (private) for SELinux relabelling. A relative host path is resolved from the current
    /// folder.
    #[uniffi(default)]
    pub volume: Vec<VolumeSpec>,
    /// Files and networks that the server may use.
    ///
    /// Default: from the registry entry, otherwise `network`.
    #[uniffi(default)]
    pub permission_profile: Option<PermissionProfile>,
    /// Write a permission profile that allows the hosts that the server connects to or looks up.
    ///
    /// While the profile is recorded, mcpm isolates the server's network. If the registry entry of the
    /// server has permissions, the server may connect only to the hosts that they allow; otherwise, to all
    /// public addresses.
    #[uniffi(default)]
    pub learn: Option<PathBuf>,
    /// Run in the foreground until the server exits.
    ///
    /// CLI only; a program that uses the library runs its workloads in its own process.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub foreground: Option<bool>,
    /// Load the configuration from a file that `mcpm export` has written.
    ///
    /// Of the options that configure the workload, only `--name`, `--group`, `--proxy-port`, `--foreground`
    /// and `--debug` can be combined with it. They take precedence over the file.
    #[uniffi(default)]
    pub from_config: Option<PathBuf>,
    /// Load global ignore patterns from `mcpmignore` in the configuration folder.
    ///
    /// If a file or folder in a mounted folder matches one of these patterns, or a pattern in a
    /// `.mcpmignore` file there, the server sees an empty file or folder in its place. Builds of local
    /// projects leave out files that match the global patterns. The syntax is that of `.gitignore`.
    ///
    /// Default: `true`.
    #[uniffi(default)]
    pub ignore_globally: Option<bool>,
    /// Print the container paths of the overlays that hide ignored files and folders.
    ///
    /// CLI only; library users find them in the plan.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub print_resolved_overlays: Option<bool>,
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
    #[uniffi(default)]
    pub image_verification: Option<ImageVerification>,
    /// PEM file with the public key of the required signer of the image.
    #[uniffi(default)]
    pub image_verification_key: Option<PathBuf>,
    /// Required identity in the signer's certificate: an email address or a URI.
    ///
    /// Default: from the registry entry.
    #[uniffi(default)]
    pub certificate_identity: Option<String>,
    /// Required OIDC issuer in the signer's certificate.
    ///
    /// Default: from the registry entry.
    #[uniffi(default)]
    pub certificate_oidc_issuer: Option<String>,
    /// Sigstore `trusted_root.json` with the trusted certificate authorities and logs.
    ///
    /// Default: Sigstore's public instance.
    #[uniffi(default)]
    pub sigstore_trusted_root: Option<PathBuf>,
    /// Custom CA certificate file for container builds and for servers in containers.
    ///
    /// The build of a package and the package's server trust the certificates in the file. A server from an
    /// image gets the certificates as files in its container, and environment variables with the paths of
    /// these files, such as `SSL_CERT_FILE`.
    #[uniffi(default)]
    pub ca_cert: Option<PathBuf>,
    /// CA certificate bundle for mcpm's own HTTP requests (JWKS, OIDC discovery, etc.).
    ///
    /// mcpm trusts these certificates in addition to those of the system: for remote servers, the target of
    /// `mcpm proxy`, server registries, image registries that signatures are read from, identity providers,
    /// token exchange and telemetry. The built-in runtime also trusts them when it pulls an image. A
    /// container engine pulls images with its own certificates.
    #[uniffi(default)]
    pub mcpm_ca_bundle: Option<PathBuf>,
    /// Base image for packages, and for local scripts, projects and MCP bundles.
    #[uniffi(default)]
    pub runtime_image: Option<String>,
    /// Additional Linux package to install in the builder and runtime stages of the image.
    #[uniffi(default)]
    pub runtime_add_package: Vec<String>,
    /// Path prefix prepended to URLs that the proxy sends to clients, such as SSE endpoint URLs.
    #[uniffi(default)]
    pub endpoint_prefix: Option<String>,
    /// Trust `X-Forwarded-For`, `-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub trust_proxy_headers: Option<bool>,
    /// Tools to expose to clients; all others are hidden.
    ///
    /// Names are those that clients see. `*` matches any text, and `?` any single character. An entry that
    /// starts with `!` hides the tools that it matches, and takes precedence over other entries; if all
    /// entries start with `!`, all other tools are exposed.
    #[uniffi(default)]
    pub tools: Vec<String>,
    /// JSON file that overrides tool names and descriptions.
    #[uniffi(default)]
    pub tools_override: Option<PathBuf>,
    /// Authorization configuration file.
    ///
    /// JSON or YAML, with policies in Cedar.
    #[uniffi(default)]
    pub authz_config: Option<PathBuf>,
    /// Audit configuration file.
    ///
    /// JSON or YAML. Turns audit logging on.
    #[uniffi(default)]
    pub audit_config: Option<PathBuf>,
    /// Enable audit logging with the default configuration.
    ///
    /// Each request is recorded as a line of JSON: for a workload, in a file in the workload's state
    /// folder; for `mcpm proxy`, on standard output.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub enable_audit: Option<bool>,
    /// Enable debug mode.
    ///
    /// Adds debug messages to the log. CLI only; library users configure `tracing` themselves.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub debug: Option<bool>,
    /// Container runtime to use.
    ///
    /// One of `auto`, `docker`, `podman`, `builtin`.
    ///
    /// Default: `auto`.
    #[uniffi(default)]
    pub runtime: Option<RuntimeChoice>,
    /// Which command of the package starts the server, if the package has more than one command.
    #[uniffi(default)]
    pub package_command: Option<String>,
    /// Additional package to install together with a Python or Node.js package, project or script.
    #[uniffi(default)]
    pub with_package: Vec<String>,
    /// Value for a key of an MCP bundle; the bundle's manifest defines the keys.
    ///
    /// If the key takes a file or folder, mcpm mounts that file or folder read-write at the same path in
    /// the container; `-v PATH:PATH:ro` mounts it read-only. If a key may have several values, repeat the
    /// option. For a key that is a secret, use `--secret NAME,target=VARIABLE` instead: `VARIABLE` is the
    /// environment variable to which the manifest assigns the key.
    #[uniffi(default)]
    pub config: Vec<KeyValue>,
    /// Rebuild the package's image with the newest matching version of the package.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub rebuild: Option<bool>,
    /// Use an image that is present locally; do not pull or build one.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub offline: Option<bool>,
    /// Whether a server that has exited is started again: never, only after a failure, or always.
    ///
    /// The delay before a restart grows, and after 10 restarts in a row the workload fails. In the
    /// foreground, the default is `no`. `mcpm start --interrupted` does not start workloads whose value is
    /// `no`.
    ///
    /// One of `no`, `on-failure`, `always`.
    ///
    /// Default: `always`.
    #[uniffi(default)]
    pub restart: Option<RestartMode>,
    /// How long a server may take to become ready, such as `90s` or `5m`.
    ///
    /// Default: `60s`.
    #[uniffi(default)]
    pub start_timeout: Option<Duration>,
    /// Additional origins of web pages that may call the proxy.
    ///
    /// If the proxy listens on a loopback address, it also accepts pages from loopback origins, such as
    /// `http://localhost:3000`. It rejects pages from all other origins.
    #[uniffi(default)]
    pub allowed_origins: Vec<String>,
    /// Additional hostnames that clients may use to reach the proxy.
    ///
    /// The proxy rejects requests with any other name in the `Host` header, as a protection against DNS
    /// rebinding. If the permission profile has `network.inbound.allow_host`, the proxy accepts only the
    /// names listed there and here. Otherwise, it also accepts loopback names and the hosts of `--host` and
    /// `--allowed-origins`. If it listens on an address that is not loopback, it also accepts all IP
    /// addresses and, if it requires authentication, all names.
    #[uniffi(default)]
    pub allowed_hosts: Vec<String>,
    /// Registry that server names are looked up in: `embedded`, a file, or a URL.
    ///
    /// A URL whose path ends in `.json` is a document; any other URL is the base of a registry's REST API.
    ///
    /// Default: from the configuration, otherwise `embedded`.
    #[uniffi(default)]
    pub registry: Option<String>,
    /// OIDC issuer URL.
    ///
    /// Each request then requires a token from this issuer. The URL must be identical to the tokens' `iss`
    /// claim.
    #[uniffi(default)]
    pub oidc_issuer: Option<String>,
    /// Expected audience of the token.
    ///
    /// Default: `--resource-url`, otherwise the URL of the proxy.
    #[uniffi(default)]
    pub oidc_audience: Option<String>,
    /// OIDC client ID.
    ///
    /// The proxy identifies itself with this ID at the introspection endpoint. Without
    /// `--oidc-introspection-url`, tokens that are not JWTs are introspected only if a client secret is set
    /// as well.
    #[uniffi(default)]
    pub oidc_client_id: Option<String>,
    /// OIDC client secret, for introspection.
    #[uniffi(default)]
    pub oidc_client_secret: Option<Secret>,
    /// Token introspection endpoint URL.
    ///
    /// If an issuer or a JWKS URL is set as well, JWTs are verified locally with the issuer's public keys,
    /// and only tokens that are not JWTs are sent to this endpoint.
    ///
    /// Default: from the issuer's metadata, if a client secret is set.
    #[uniffi(default)]
    pub oidc_introspection_url: Option<String>,
    /// URL to fetch the JWKS from.
    ///
    /// Without `--oidc-issuer`, tokens signed with these keys are accepted from any issuer.
    ///
    /// Default: from the issuer's metadata.
    #[uniffi(default)]
    pub oidc_jwks_url: Option<String>,
    /// OAuth scopes that the protected resource metadata advertises (RFC 9728).
    ///
    /// Default: `openid`.
    #[uniffi(default)]
    pub oidc_scopes: Vec<String>,
    /// OAuth scopes that a token must have.
    #[uniffi(default)]
    pub oidc_required_scopes: Vec<String>,
    /// Allow OIDC and token exchange URLs without HTTPS, for development and testing (insecure).
    ///
    /// Loopback URLs need no HTTPS, even without this option.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub oidc_insecure_allow_http: Option<bool>,
    /// Allow JWKS, OIDC and token exchange endpoints on private IP addresses.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub jwks_allow_private_ip: Option<bool>,
    /// File with a bearer token that authenticates JWKS and OIDC requests.
    #[uniffi(default)]
    pub jwks_auth_token_file: Option<PathBuf>,
    /// Log in to the remote server with OAuth/OIDC, even if its responses do not ask for it.
    ///
    /// Without this option, `mcpm run` logs in if the server asks for it. Other commands then log in only
    /// if another option for the login is set. `mcpm proxy` without any option of outgoing authentication
    /// forwards the credentials of its clients.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub remote_auth: Option<bool>,
    /// OAuth/OIDC issuer URL.
    #[uniffi(default)]
    pub remote_auth_issuer: Option<String>,
    /// Authorization endpoint, instead of the issuer, for an authorization server without metadata.
    #[uniffi(default)]
    pub remote_auth_authorize_url: Option<String>,
    /// Token endpoint, instead of the issuer, for an authorization server without metadata.
    #[uniffi(default)]
    pub remote_auth_token_url: Option<String>,
    /// OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591).
    #[uniffi(default)]
    pub remote_auth_client_id: Option<String>,
    /// URL of a client ID metadata document, for authorization servers that support such documents.
    #[uniffi(default)]
    pub remote_auth_client_metadata_url: Option<String>,
    /// OAuth client secret, if the authorization server has issued one for `--remote-auth-client-id`.
    ///
    /// Do not use this option in production: other users of the machine may see the secret in the process
    /// list. The option takes precedence over `--remote-auth-client-secret-file`, which takes precedence
    /// over the variable `MCPM_REMOTE_OAUTH_CLIENT_SECRET`.
    #[uniffi(default)]
    pub remote_auth_client_secret: Option<Secret>,
    /// File with the OAuth client secret.
    #[uniffi(default)]
    pub remote_auth_client_secret_file: Option<PathBuf>,
    /// Bearer token for the remote server, instead of OAuth.
    ///
    /// Do not use this option in production: other users of the machine may see the token in the process
    /// list. The option takes precedence over `--remote-auth-bearer-token-file`, which takes precedence
    /// over the variable `MCPM_REMOTE_AUTH_BEARER_TOKEN`.
    #[uniffi(default)]
    pub remote_auth_bearer_token: Option<Secret>,
    /// File with the bearer token for the remote server.
    #[uniffi(default)]
    pub remote_auth_bearer_token_file: Option<PathBuf>,
    /// Scopes to request.
    ///
    /// Default: the scopes that the server asks for, otherwise `openid,profile,email` if
    /// `--remote-auth-issuer` supports OIDC.
    #[uniffi(default)]
    pub remote_auth_scopes: Vec<String>,
    /// OAuth 2.0 resource indicator (RFC 8707).
    #[uniffi(default)]
    pub remote_auth_resource: Option<String>,
    /// Resource identifier in the protected resource metadata (RFC 9728).
    ///
    /// Default: the URL the proxy listens on.
    #[uniffi(default)]
    pub resource_url: Option<String>,
    /// Port of the local OAuth callback server.
    ///
    /// Default: `8666`.
    #[uniffi(default)]
    pub remote_auth_callback_port: Option<u16>,
    /// Do not open a browser for the OAuth flow.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub remote_auth_skip_browser: Option<bool>,
    /// Timeout of the OAuth flow, such as `30s` or `1m30s`.
    ///
    /// Default: `30s`.
    #[uniffi(default)]
    pub remote_auth_timeout: Option<Duration>,
    /// Header added to requests to the remote server.
    #[uniffi(default)]
    pub remote_forward_headers: Vec<Header>,
    /// Header added to requests to the remote server, with a secret from the secret store as its value.
    #[uniffi(default)]
    pub remote_forward_headers_secret: Vec<HeaderSecret>,
    /// OAuth 2.0 token exchange endpoint; enables token exchange.
    ///
    /// Each caller's token is exchanged there (RFC 8693), and the new token is sent to the server instead.
    /// Requires incoming authentication; see `--oidc-issuer`.
    #[uniffi(default)]
    pub token_exchange_url: Option<String>,
    /// Audience to request for the new token.
    #[uniffi(default)]
    pub token_exchange_audience: Option<String>,
    /// Client ID for token exchange.
    #[uniffi(default)]
    pub token_exchange_client_id: Option<String>,
    /// Client secret for token exchange.
    ///
    /// Do not use this option in production: other users of the machine may see the secret in the process
    /// list. The option takes precedence over the variable `MCPM_TOKEN_EXCHANGE_CLIENT_SECRET`, and cannot
    /// be combined with `--token-exchange-client-secret-file`.
    #[uniffi(default)]
    pub token_exchange_client_secret: Option<Secret>,
    /// File with the client secret for token exchange.
    ///
    /// mcpm reads the file again for each exchange. The file takes precedence over the variable
    /// `MCPM_TOKEN_EXCHANGE_CLIENT_SECRET`.
    #[uniffi(default)]
    pub token_exchange_client_secret_file: Option<PathBuf>,
    /// Scopes to request for the new token.
    #[uniffi(default)]
    pub token_exchange_scopes: Vec<String>,
    /// Type of the token that is exchanged.
    ///
    /// With `id_token`, ID tokens are accepted from callers as well.
    ///
    /// One of `access_token`, `id_token`.
    ///
    /// Default: `access_token`.
    #[uniffi(default)]
    pub token_exchange_subject_token_type: Option<SubjectTokenType>,
    /// Header in which the new token is sent to the server.
    ///
    /// Default: `Authorization`, in place of the caller's token.
    #[uniffi(default)]
    pub token_exchange_header_name: Option<String>,
    /// OTLP endpoint URL.
    ///
    /// With OTLP over HTTP, mcpm appends `/v1/traces` and `/v1/metrics` to the path of the URL. If the URL
    /// has no scheme, mcpm uses `https`, or `http` with `--otel-insecure`.
    #[uniffi(default)]
    pub otel_endpoint: Option<String>,
    /// Use HTTP instead of HTTPS for the OTLP endpoint.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub otel_insecure: Option<bool>,
    /// Header to add to OTLP requests.
    #[uniffi(default)]
    pub otel_headers: Vec<Header>,
    /// Service name in traces and metrics.
    ///
    /// Default: `OTEL_SERVICE_NAME` of the environment, otherwise `mcpm-<name>`.
    #[uniffi(default)]
    pub otel_service_name: Option<String>,
    /// Additional resource attributes in traces and metrics.
    #[uniffi(default)]
    pub otel_custom_attributes: Option<Attributes>,
    /// Names of environment variables to include in spans.
    ///
    /// These are variables of the mcpm process, not of the server; `MCPM_*` is not allowed.
    #[uniffi(default)]
    pub otel_env_vars: Vec<String>,
    /// Export traces; requires an OTLP endpoint.
    ///
    /// Default: `true`.
    #[uniffi(default)]
    pub otel_tracing_enabled: Option<bool>,
    /// Export metrics with OTLP; requires an OTLP endpoint.
    ///
    /// Default: `true`.
    #[uniffi(default)]
    pub otel_metrics_enabled: Option<bool>,
    /// Trace sampling rate, from 0.0 to 1.0.
    ///
    /// Default: `0.1`.
    #[uniffi(default)]
    pub otel_sampling_rate: Option<f64>,
    /// Serve Prometheus metrics at `/metrics` on the port of the proxy.
    ///
    /// If incoming authentication is configured, requests to `/metrics` also require a token.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub otel_enable_prometheus_metrics_path: Option<bool>,
    /// Emit legacy attribute names alongside the new semantic-convention names.
    ///
    /// Default: `true`.
    #[uniffi(default)]
    pub otel_use_legacy_attributes: Option<bool>,
    /// Loopback port on which `/metrics` is served without a token.
    #[uniffi(default)]
    pub otel_prometheus_port: Option<u16>,
    /// OTLP transport.
    ///
    /// One of `http`, `grpc`.
    ///
    /// Default: `http`.
    #[uniffi(default)]
    pub otel_protocol: Option<OtlpProtocol>,
}

/// The options of a proxy; options that are left out are unset.
#[uniffi::remote(Record)]
pub struct ProxyOptions {
    /// Name of the MCP server, for messages and logs.
    #[uniffi(default)]
    pub server_name: Option<String>,
    /// URI of the target MCP server.
    #[uniffi(default)]
    pub target_uri: Option<String>,
    /// IP address or hostname that the HTTP proxy listens on.
    ///
    /// Default: `127.0.0.1`.
    #[uniffi(default)]
    pub host: Option<String>,
    /// Host port the proxy listens on; 0 picks a free one.
    ///
    /// Default: a free port.
    #[uniffi(default)]
    pub port: Option<u16>,
    /// Enable debug mode.
    ///
    /// Adds debug messages to the log. CLI only; library users configure `tracing` themselves.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub debug: Option<bool>,
    /// CA certificate bundle for mcpm's own HTTP requests (JWKS, OIDC discovery, etc.).
    ///
    /// mcpm trusts these certificates in addition to those of the system: for remote servers, the target of
    /// `mcpm proxy`, server registries, image registries that signatures are read from, identity providers,
    /// token exchange and telemetry. The built-in runtime also trusts them when it pulls an image. A
    /// container engine pulls images with its own certificates.
    #[uniffi(default)]
    pub mcpm_ca_bundle: Option<PathBuf>,
    /// Trust `X-Forwarded-For`, `-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub trust_proxy_headers: Option<bool>,
    /// Tools to expose to clients; all others are hidden.
    ///
    /// Names are those that clients see. `*` matches any text, and `?` any single character. An entry that
    /// starts with `!` hides the tools that it matches, and takes precedence over other entries; if all
    /// entries start with `!`, all other tools are exposed.
    #[uniffi(default)]
    pub tools: Vec<String>,
    /// JSON file that overrides tool names and descriptions.
    #[uniffi(default)]
    pub tools_override: Option<PathBuf>,
    /// Authorization configuration file.
    ///
    /// JSON or YAML, with policies in Cedar.
    #[uniffi(default)]
    pub authz_config: Option<PathBuf>,
    /// Audit configuration file.
    ///
    /// JSON or YAML. Turns audit logging on.
    #[uniffi(default)]
    pub audit_config: Option<PathBuf>,
    /// Enable audit logging with the default configuration.
    ///
    /// Each request is recorded as a line of JSON: for a workload, in a file in the workload's state
    /// folder; for `mcpm proxy`, on standard output.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub enable_audit: Option<bool>,
    /// Additional origins of web pages that may call the proxy.
    ///
    /// If the proxy listens on a loopback address, it also accepts pages from loopback origins, such as
    /// `http://localhost:3000`. It rejects pages from all other origins.
    #[uniffi(default)]
    pub allowed_origins: Vec<String>,
    /// Additional hostnames that clients may use to reach the proxy.
    ///
    /// The proxy rejects requests with any other name in the `Host` header, as a protection against DNS
    /// rebinding. If the permission profile has `network.inbound.allow_host`, the proxy accepts only the
    /// names listed there and here. Otherwise, it also accepts loopback names and the hosts of `--host` and
    /// `--allowed-origins`. If it listens on an address that is not loopback, it also accepts all IP
    /// addresses and, if it requires authentication, all names.
    #[uniffi(default)]
    pub allowed_hosts: Vec<String>,
    /// OIDC issuer URL.
    ///
    /// Each request then requires a token from this issuer. The URL must be identical to the tokens' `iss`
    /// claim.
    #[uniffi(default)]
    pub oidc_issuer: Option<String>,
    /// Expected audience of the token.
    ///
    /// Default: `--resource-url`, otherwise the URL of the proxy.
    #[uniffi(default)]
    pub oidc_audience: Option<String>,
    /// OIDC client ID.
    ///
    /// The proxy identifies itself with this ID at the introspection endpoint. Without
    /// `--oidc-introspection-url`, tokens that are not JWTs are introspected only if a client secret is set
    /// as well.
    #[uniffi(default)]
    pub oidc_client_id: Option<String>,
    /// OIDC client secret, for introspection.
    #[uniffi(default)]
    pub oidc_client_secret: Option<Secret>,
    /// Token introspection endpoint URL.
    ///
    /// If an issuer or a JWKS URL is set as well, JWTs are verified locally with the issuer's public keys,
    /// and only tokens that are not JWTs are sent to this endpoint.
    ///
    /// Default: from the issuer's metadata, if a client secret is set.
    #[uniffi(default)]
    pub oidc_introspection_url: Option<String>,
    /// URL to fetch the JWKS from.
    ///
    /// Without `--oidc-issuer`, tokens signed with these keys are accepted from any issuer.
    ///
    /// Default: from the issuer's metadata.
    #[uniffi(default)]
    pub oidc_jwks_url: Option<String>,
    /// OAuth scopes that the protected resource metadata advertises (RFC 9728).
    ///
    /// Default: `openid`.
    #[uniffi(default)]
    pub oidc_scopes: Vec<String>,
    /// OAuth scopes that a token must have.
    #[uniffi(default)]
    pub oidc_required_scopes: Vec<String>,
    /// Allow OIDC and token exchange URLs without HTTPS, for development and testing (insecure).
    ///
    /// Loopback URLs need no HTTPS, even without this option.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub oidc_insecure_allow_http: Option<bool>,
    /// Allow JWKS, OIDC and token exchange endpoints on private IP addresses.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub jwks_allow_private_ip: Option<bool>,
    /// File with a bearer token that authenticates JWKS and OIDC requests.
    #[uniffi(default)]
    pub jwks_auth_token_file: Option<PathBuf>,
    /// Log in to the remote server with OAuth/OIDC, even if its responses do not ask for it.
    ///
    /// Without this option, `mcpm run` logs in if the server asks for it. Other commands then log in only
    /// if another option for the login is set. `mcpm proxy` without any option of outgoing authentication
    /// forwards the credentials of its clients.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub remote_auth: Option<bool>,
    /// OAuth/OIDC issuer URL.
    #[uniffi(default)]
    pub remote_auth_issuer: Option<String>,
    /// Authorization endpoint, instead of the issuer, for an authorization server without metadata.
    #[uniffi(default)]
    pub remote_auth_authorize_url: Option<String>,
    /// Token endpoint, instead of the issuer, for an authorization server without metadata.
    #[uniffi(default)]
    pub remote_auth_token_url: Option<String>,
    /// OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591).
    #[uniffi(default)]
    pub remote_auth_client_id: Option<String>,
    /// URL of a client ID metadata document, for authorization servers that support such documents.
    #[uniffi(default)]
    pub remote_auth_client_metadata_url: Option<String>,
    /// OAuth client secret, if the authorization server has issued one for `--remote-auth-client-id`.
    ///
    /// Do not use this option in production: other users of the machine may see the secret in the process
    /// list. The option takes precedence over `--remote-auth-client-secret-file`, which takes precedence
    /// over the variable `MCPM_REMOTE_OAUTH_CLIENT_SECRET`.
    #[uniffi(default)]
    pub remote_auth_client_secret: Option<Secret>,
    /// File with the OAuth client secret.
    #[uniffi(default)]
    pub remote_auth_client_secret_file: Option<PathBuf>,
    /// Bearer token for the remote server, instead of OAuth.
    ///
    /// Do not use this option in production: other users of the machine may see the token in the process
    /// list. The option takes precedence over `--remote-auth-bearer-token-file`, which takes precedence
    /// over the variable `MCPM_REMOTE_AUTH_BEARER_TOKEN`.
    #[uniffi(default)]
    pub remote_auth_bearer_token: Option<Secret>,
    /// File with the bearer token for the remote server.
    #[uniffi(default)]
    pub remote_auth_bearer_token_file: Option<PathBuf>,
    /// Scopes to request.
    ///
    /// Default: the scopes that the server asks for, otherwise `openid,profile,email` if
    /// `--remote-auth-issuer` supports OIDC.
    #[uniffi(default)]
    pub remote_auth_scopes: Vec<String>,
    /// OAuth 2.0 resource indicator (RFC 8707).
    #[uniffi(default)]
    pub remote_auth_resource: Option<String>,
    /// Resource identifier in the protected resource metadata (RFC 9728).
    ///
    /// Default: the URL the proxy listens on.
    #[uniffi(default)]
    pub resource_url: Option<String>,
    /// Port of the local OAuth callback server.
    ///
    /// Default: `8666`.
    #[uniffi(default)]
    pub remote_auth_callback_port: Option<u16>,
    /// Do not open a browser for the OAuth flow.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub remote_auth_skip_browser: Option<bool>,
    /// Timeout of the OAuth flow, such as `30s` or `1m30s`.
    ///
    /// Default: `30s`.
    #[uniffi(default)]
    pub remote_auth_timeout: Option<Duration>,
    /// Header added to requests to the remote server.
    #[uniffi(default)]
    pub remote_forward_headers: Vec<Header>,
    /// Header added to requests to the remote server, with a secret from the secret store as its value.
    #[uniffi(default)]
    pub remote_forward_headers_secret: Vec<HeaderSecret>,
    /// OAuth 2.0 token exchange endpoint; enables token exchange.
    ///
    /// Each caller's token is exchanged there (RFC 8693), and the new token is sent to the server instead.
    /// Requires incoming authentication; see `--oidc-issuer`.
    #[uniffi(default)]
    pub token_exchange_url: Option<String>,
    /// Audience to request for the new token.
    #[uniffi(default)]
    pub token_exchange_audience: Option<String>,
    /// Client ID for token exchange.
    #[uniffi(default)]
    pub token_exchange_client_id: Option<String>,
    /// Client secret for token exchange.
    ///
    /// Do not use this option in production: other users of the machine may see the secret in the process
    /// list. The option takes precedence over the variable `MCPM_TOKEN_EXCHANGE_CLIENT_SECRET`, and cannot
    /// be combined with `--token-exchange-client-secret-file`.
    #[uniffi(default)]
    pub token_exchange_client_secret: Option<Secret>,
    /// File with the client secret for token exchange.
    ///
    /// mcpm reads the file again for each exchange. The file takes precedence over the variable
    /// `MCPM_TOKEN_EXCHANGE_CLIENT_SECRET`.
    #[uniffi(default)]
    pub token_exchange_client_secret_file: Option<PathBuf>,
    /// Scopes to request for the new token.
    #[uniffi(default)]
    pub token_exchange_scopes: Vec<String>,
    /// Type of the token that is exchanged.
    ///
    /// With `id_token`, ID tokens are accepted from callers as well.
    ///
    /// One of `access_token`, `id_token`.
    ///
    /// Default: `access_token`.
    #[uniffi(default)]
    pub token_exchange_subject_token_type: Option<SubjectTokenType>,
    /// Header in which the new token is sent to the server.
    ///
    /// Default: `Authorization`, in place of the caller's token.
    #[uniffi(default)]
    pub token_exchange_header_name: Option<String>,
    /// OTLP endpoint URL.
    ///
    /// With OTLP over HTTP, mcpm appends `/v1/traces` and `/v1/metrics` to the path of the URL. If the URL
    /// has no scheme, mcpm uses `https`, or `http` with `--otel-insecure`.
    #[uniffi(default)]
    pub otel_endpoint: Option<String>,
    /// Use HTTP instead of HTTPS for the OTLP endpoint.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub otel_insecure: Option<bool>,
    /// Header to add to OTLP requests.
    #[uniffi(default)]
    pub otel_headers: Vec<Header>,
    /// Service name in traces and metrics.
    ///
    /// Default: `OTEL_SERVICE_NAME` of the environment, otherwise `mcpm-<name>`.
    #[uniffi(default)]
    pub otel_service_name: Option<String>,
    /// Additional resource attributes in traces and metrics.
    #[uniffi(default)]
    pub otel_custom_attributes: Option<Attributes>,
    /// Names of environment variables to include in spans.
    ///
    /// These are variables of the mcpm process, not of the server; `MCPM_*` is not allowed.
    #[uniffi(default)]
    pub otel_env_vars: Vec<String>,
    /// Export traces; requires an OTLP endpoint.
    ///
    /// Default: `true`.
    #[uniffi(default)]
    pub otel_tracing_enabled: Option<bool>,
    /// Export metrics with OTLP; requires an OTLP endpoint.
    ///
    /// Default: `true`.
    #[uniffi(default)]
    pub otel_metrics_enabled: Option<bool>,
    /// Trace sampling rate, from 0.0 to 1.0.
    ///
    /// Default: `0.1`.
    #[uniffi(default)]
    pub otel_sampling_rate: Option<f64>,
    /// Serve Prometheus metrics at `/metrics` on the port of the proxy.
    ///
    /// If incoming authentication is configured, requests to `/metrics` also require a token.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub otel_enable_prometheus_metrics_path: Option<bool>,
    /// Emit legacy attribute names alongside the new semantic-convention names.
    ///
    /// Default: `true`.
    #[uniffi(default)]
    pub otel_use_legacy_attributes: Option<bool>,
    /// Loopback port on which `/metrics` is served without a token.
    #[uniffi(default)]
    pub otel_prometheus_port: Option<u16>,
    /// OTLP transport.
    ///
    /// One of `http`, `grpc`.
    ///
    /// Default: `http`.
    #[uniffi(default)]
    pub otel_protocol: Option<OtlpProtocol>,
}
