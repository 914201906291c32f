// Made from the option table by tests/generated.rs; do not edit.

/// What is asked of a workload; what is left out is not given.
#[uniffi::remote(Record)]
pub struct WorkloadOptions {
    /// Server name, image, `uvx://`, `npx://` or `go://` package, or URL.
    ///
    /// A server name is looked up in the registry, which supplies transport, permissions and environment;
    /// what is no name there is an image. `registry:NAME` and `image:IMAGE` say which of the two is meant.
    /// An image is run as it is. For a package a container is generated that runs it; `go://./path` and
    /// `go://../path` build a local Go project. A URL is a remote server that is proxied as a workload.
    #[uniffi(default)]
    pub server: Option<String>,
    /// Arguments passed to the MCP server.
    #[uniffi(default)]
    pub args: Vec<String>,
    /// Name of the MCP server.
    ///
    /// Default: generated from the image.
    #[uniffi(default)]
    pub name: Option<String>,
    /// Group the workload belongs to.
    ///
    /// A group that does not exist is created.
    ///
    /// Default: `default`.
    #[uniffi(default)]
    pub group: Option<String>,
    /// Label on the container.
    #[uniffi(default)]
    pub label: Vec<KeyValue>,
    /// Transport mode of the server.
    ///
    /// One of `sse`, `streamable-http`, `stdio`.
    ///
    /// Default: that of the registry entry, or found out.
    #[uniffi(default)]
    pub transport: Option<Transport>,
    /// Proxy mode of a stdio server; `sse` is deprecated and will be removed.
    ///
    /// One of `streamable-http`, `sse`.
    ///
    /// Default: `streamable-http`.
    #[uniffi(default)]
    pub proxy_mode: Option<ProxyMode>,
    /// IP or hostname the HTTP proxy listens on.
    ///
    /// Default: `127.0.0.1`.
    #[uniffi(default)]
    pub host: Option<String>,
    /// Port of this machine the HTTP proxy listens on; 0 picks a free one.
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
    /// Default: the port the image exposes.
    #[uniffi(default)]
    pub target_port: Option<u16>,
    /// Publish a container port on this machine.
    ///
    /// It is published on the loopback address unless another is written before it. With the container's
    /// port alone, any free port of this machine is taken. An IPv6 address stands in brackets.
    #[uniffi(default)]
    pub publish: Vec<PublishSpec>,
    /// Network mode of the container: `host`, `bridge`, or a network by name.
    ///
    /// Default: `bridge`.
    #[uniffi(default)]
    pub network: Option<String>,
    /// Isolate the container network from the host.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub isolate_network: Option<bool>,
    /// Let an isolated container connect to the container runtime's gateway addresses.
    ///
    /// Applies only with `--isolate-network`. The addresses are two host-gateway hostnames and
    /// `172.17.0.1`. They are blocked otherwise, even when the permission profile has `insecure_allow_all`.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub allow_runtime_gateway: Option<bool>,
    /// Environment variable for the server.
    #[uniffi(default)]
    pub env: Vec<EnvVar>,
    /// Load environment variables from a file.
    #[uniffi(default)]
    pub env_file: Option<PathBuf>,
    /// Load environment variables from all files in a folder.
    #[uniffi(default)]
    pub env_file_dir: Option<PathBuf>,
    /// Secret fetched from the secrets manager and set as an environment variable.
    ///
    /// `NAME` is what `mcpm secret set` was told. With `file:` and an absolute path as the target, the
    /// server gets a file in its container instead; with `header:` and a name, a remote server gets that
    /// header with each request.
    #[uniffi(default)]
    pub secret: Vec<SecretRef>,
    /// Mount a file or folder of this machine into the container.
    ///
    /// After the container's path come `ro` or `rw`, and `z` (shared) or `Z` (private) for SELinux
    /// relabelling, separated by commas. A relative path of this machine starts at the current folder.
    #[uniffi(default)]
    pub volume: Vec<VolumeSpec>,
    /// Permissions of the container.
    ///
    /// Default: that of the registry entry, else `network`.
    #[uniffi(default)]
    pub permission_profile: Option<PermissionProfile>,
    /// Write a permission profile of what the server connects to, and nothing more, to a file.
    ///
    /// The server runs isolated and may connect to everything public meanwhile.
    #[uniffi(default)]
    pub learn: Option<PathBuf>,
    /// Run in the foreground until the container exits.
    ///
    /// Of the command line alone: what a program starts through the library always runs within it.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub foreground: Option<bool>,
    /// Load the configuration from an exported file.
    ///
    /// Of all other options, only `--name`, `--group`, `--proxy-port`, `--foreground` and `--debug` can be
    /// given beside it. They take precedence over the file.
    #[uniffi(default)]
    pub from_config: Option<PathBuf>,
    /// Load global ignore patterns from `~/.config/mcpm/mcpmignore`.
    ///
    /// What they match in mounted folders, and what the patterns of a `.mcpmignore` in a mounted folder
    /// match, is covered in the container by empty files and folders. Patterns are written as for Git.
    ///
    /// Default: `true`.
    #[uniffi(default)]
    pub ignore_globally: Option<bool>,
    /// Print the container paths that overlays of ignored files and folders resolve to.
    ///
    /// Of the command line alone: a program finds them in the plan.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub print_resolved_overlays: Option<bool>,
    /// Image verification mode.
    ///
    /// The signature is looked for in the image's registry. It counts when it was made by whom the registry
    /// entry, or the options below, say; the digest that it signs is what runs.
    ///
    /// One of `warn`, `enabled`, `disabled`.
    ///
    /// Default: `warn`.
    #[uniffi(default)]
    pub image_verification: Option<ImageVerification>,
    /// PEM file with the public key that the image must be signed with.
    #[uniffi(default)]
    pub image_verification_key: Option<PathBuf>,
    /// Name in the certificate of who must have signed the image: a mail address or a URI.
    ///
    /// Default: what the registry entry says.
    #[uniffi(default)]
    pub certificate_identity: Option<String>,
    /// Issuer that must vouch for the certificate identity.
    ///
    /// Default: what the registry entry says.
    #[uniffi(default)]
    pub certificate_oidc_issuer: Option<String>,
    /// Sigstore's `trusted_root.json`, with the certificates and logs that are believed.
    ///
    /// Default: that of Sigstore's public instance.
    #[uniffi(default)]
    pub sigstore_trusted_root: Option<PathBuf>,
    /// Custom CA certificate file used for container builds.
    ///
    /// The certificates in it are trusted while a package is built and by its server. A server from an
    /// image is offered them in a file, by the usual variables.
    #[uniffi(default)]
    pub ca_cert: Option<PathBuf>,
    /// CA certificate bundle for mcpm's own HTTP requests (JWKS, OIDC discovery, etc.).
    ///
    /// The certificates in it are trusted beside those of this machine: for remote servers and targets,
    /// registries of servers, image registries that signatures are read from, identity providers, token
    /// exchange and telemetry. What the engine pulls is the engine's own to trust.
    #[uniffi(default)]
    pub mcpm_ca_bundle: Option<PathBuf>,
    /// Base image for protocol schemes.
    #[uniffi(default)]
    pub runtime_image: Option<String>,
    /// Extra package to install in the builder and runtime stages.
    #[uniffi(default)]
    pub runtime_add_package: Vec<String>,
    /// Path prefix prepended to SSE endpoint URLs.
    #[uniffi(default)]
    pub endpoint_prefix: Option<String>,
    /// Trust `X-Forwarded-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub trust_proxy_headers: Option<bool>,
    /// Tools of the server that are let through, all others are hidden.
    ///
    /// Names are those that clients see. `*` stands for any text and `?` for any one letter. With a `!`
    /// before it, a tool is hidden, whatever else lets it through; `!NAME` alone lets all others through.
    #[uniffi(default)]
    pub tools: Vec<String>,
    /// JSON file that overrides tool names and descriptions.
    #[uniffi(default)]
    pub tools_override: Option<PathBuf>,
    /// Authorization configuration file.
    ///
    /// In JSON or YAML, with policies in Cedar.
    #[uniffi(default)]
    pub authz_config: Option<PathBuf>,
    /// Audit configuration file.
    ///
    /// In JSON or YAML; it turns audit logging on.
    #[uniffi(default)]
    pub audit_config: Option<PathBuf>,
    /// Enable audit logging with the default configuration.
    ///
    /// Each request is then recorded as a line of JSON: that of a workload in its folder, that of a proxy
    /// alone on standard output.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub enable_audit: Option<bool>,
    /// Enable debug mode.
    ///
    /// Of the command line alone: the library's log goes where its program sends it.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub debug: Option<bool>,
    /// Container engine to run on.
    ///
    /// One of `auto`, `docker`, `podman`.
    ///
    /// Default: `auto`.
    #[uniffi(default)]
    pub runtime: Option<RuntimeChoice>,
    /// Command of the package that is the server, when the package has several.
    #[uniffi(default)]
    pub package_command: Option<String>,
    /// Build the package's image again, with the newest version that its name stands for.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub rebuild: Option<bool>,
    /// Fetch nothing: the image must be on this machine.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub offline: Option<bool>,
    /// Origins of browser pages that may call the proxy, beside its own.
    #[uniffi(default)]
    pub allowed_origins: Vec<String>,
    /// Host names that clients may call the proxy by, beside the one it listens on.
    ///
    /// Without authentication, a request that names another host is refused, since a web page whose name
    /// was pointed here could send it. Addresses and loopback names need not be listed.
    #[uniffi(default)]
    pub allowed_hosts: Vec<String>,
    /// Registry that server names are looked up in: `embedded`, a file, or a URL.
    ///
    /// A URL whose path ends in `.json` is that of a document, any other is the base of a registry's REST
    /// API.
    ///
    /// Default: that of the settings, else `embedded`.
    #[uniffi(default)]
    pub registry: Option<String>,
    /// OIDC issuer URL.
    ///
    /// Each request then needs a token of that issuer. It is compared letter for letter with what tokens
    /// say.
    #[uniffi(default)]
    pub oidc_issuer: Option<String>,
    /// Expected audience of the token.
    ///
    /// Default: the resource URL, else the URL of the proxy.
    #[uniffi(default)]
    pub oidc_audience: Option<String>,
    /// OIDC client ID.
    ///
    /// With it, and with the client secret, the identity provider is asked about tokens that are not
    /// signed.
    #[uniffi(default)]
    pub oidc_client_id: Option<String>,
    /// OIDC client secret, for introspection.
    #[uniffi(default)]
    pub oidc_client_secret: Option<Secret>,
    /// Token introspection endpoint URL.
    ///
    /// With an issuer or a JWKS URL beside it, signed tokens are checked with the keys, and only others are
    /// asked about.
    ///
    /// Default: that of the issuer, with a client secret.
    #[uniffi(default)]
    pub oidc_introspection_url: Option<String>,
    /// URL to fetch the JWKS from.
    ///
    /// Without an issuer beside it, tokens that are signed with these keys are taken whatever issuer they
    /// name.
    ///
    /// Default: that of the issuer.
    #[uniffi(default)]
    pub oidc_jwks_url: Option<String>,
    /// OAuth scopes advertised in the well-known endpoint (RFC 9728).
    ///
    /// Default: `openid`.
    #[uniffi(default)]
    pub oidc_scopes: Vec<String>,
    /// OAuth scopes that a token must have.
    #[uniffi(default)]
    pub oidc_required_scopes: Vec<String>,
    /// Allow OIDC issuers without HTTPS, for local development and testing (insecure).
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub oidc_insecure_allow_http: Option<bool>,
    /// Allow JWKS and OIDC endpoints on private IP addresses.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub jwks_allow_private_ip: Option<bool>,
    /// File with a bearer token that authenticates JWKS and OIDC requests.
    #[uniffi(default)]
    pub jwks_auth_token_file: Option<PathBuf>,
    /// Enable OAuth/OIDC authentication to the remote server.
    ///
    /// Default: `false`.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth: Option<bool>,
    /// OAuth/OIDC issuer URL.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_issuer: Option<String>,
    /// Authorization endpoint, in place of the issuer for OAuth without OIDC.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_authorize_url: Option<String>,
    /// Token endpoint, in place of the issuer for OAuth without OIDC.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_token_url: Option<String>,
    /// OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591).
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_client_id: Option<String>,
    /// OAuth client secret; not needed with dynamic client registration or PKCE.
    ///
    /// It goes before `--remote-auth-client-secret-file`, which goes before the environment variable. Not
    /// for production: other users of the machine may see it in the list of processes.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_client_secret: Option<Secret>,
    /// File with the OAuth client secret.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_client_secret_file: Option<PathBuf>,
    /// Bearer token for the remote server, in place of OAuth.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_bearer_token: Option<Secret>,
    /// File with the bearer token for the remote server.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_bearer_token_file: Option<PathBuf>,
    /// Scopes requested.
    ///
    /// Default: `openid,profile,email` with OIDC.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_scopes: Vec<String>,
    /// OAuth 2.0 resource indicator (RFC 8707).
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_resource: Option<String>,
    /// Explicit resource URL for the OAuth discovery endpoint (RFC 9728).
    ///
    /// Default: where the proxy listens.
    #[uniffi(default)]
    pub resource_url: Option<String>,
    /// Port of the local OAuth callback server.
    ///
    /// Default: `8666`.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_callback_port: Option<u16>,
    /// Do not open a browser for the OAuth flow.
    ///
    /// Default: `false`.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_skip_browser: Option<bool>,
    /// Timeout of the OAuth flow, such as `30s` or `1m30s`.
    ///
    /// Default: `30s`.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_timeout: Option<Duration>,
    /// Header added to requests to the remote server.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_forward_headers: Vec<Header>,
    /// Header added to requests to the remote server, with its value from the secrets manager.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_forward_headers_secret: Vec<HeaderSecret>,
    /// OAuth 2.0 token exchange endpoint; enables token exchange.
    ///
    /// The token of each caller is exchanged there (RFC 8693) for one that goes to the server in its place.
    /// Callers must be asked who they are, with `--oidc-issuer`.
    #[uniffi(default)]
    pub token_exchange_url: Option<String>,
    /// Target audience of exchanged tokens.
    #[uniffi(default)]
    pub token_exchange_audience: Option<String>,
    /// Client ID for token exchange.
    #[uniffi(default)]
    pub token_exchange_client_id: Option<String>,
    /// Client secret for token exchange.
    ///
    /// It goes before the environment variable, as does a file. Not for production: other users of the
    /// machine may see it in the list of processes.
    #[uniffi(default)]
    pub token_exchange_client_secret: Option<Secret>,
    /// File with the client secret for token exchange.
    ///
    /// It is read for each exchange.
    #[uniffi(default)]
    pub token_exchange_client_secret_file: Option<PathBuf>,
    /// Scopes requested for exchanged tokens.
    #[uniffi(default)]
    pub token_exchange_scopes: Vec<String>,
    /// Kind of token that is exchanged.
    ///
    /// With `id_token`, callers are let in with ID tokens too.
    ///
    /// One of `access_token`, `id_token`.
    ///
    /// Default: `access_token`.
    #[uniffi(default)]
    pub token_exchange_subject_token_type: Option<SubjectTokenType>,
    /// Header that carries the exchanged token.
    ///
    /// Default: it replaces `Authorization`.
    #[uniffi(default)]
    pub token_exchange_header_name: Option<String>,
    /// OTLP endpoint URL.
    ///
    /// With OTLP over HTTP, `/v1/traces` and `/v1/metrics` are added to its path. Without a scheme it is
    /// `https`.
    #[uniffi(default)]
    pub otel_endpoint: Option<String>,
    /// Use HTTP instead of HTTPS for the OTLP endpoint.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub otel_insecure: Option<bool>,
    /// OTLP header.
    #[uniffi(default)]
    pub otel_headers: Vec<Header>,
    /// Service name.
    ///
    /// Default: `mcpm-<name>`.
    #[uniffi(default)]
    pub otel_service_name: Option<String>,
    /// Custom resource attributes.
    #[uniffi(default)]
    pub otel_custom_attributes: Option<Attributes>,
    /// Names of environment variables to include in spans.
    ///
    /// They are those of mcpm, not those of the server; `MCPM_*` is refused.
    #[uniffi(default)]
    pub otel_env_vars: Vec<String>,
    /// Distributed tracing, effective with an OTLP endpoint.
    ///
    /// Default: `true`.
    #[uniffi(default)]
    pub otel_tracing_enabled: Option<bool>,
    /// OTLP metrics export, effective with an OTLP endpoint.
    ///
    /// Default: `true`.
    #[uniffi(default)]
    pub otel_metrics_enabled: Option<bool>,
    /// Trace sampling rate, from 0.0 to 1.0.
    ///
    /// Default: `0.1`.
    #[uniffi(default)]
    pub otel_sampling_rate: Option<f64>,
    /// Serve `/metrics` on the main transport port.
    ///
    /// With incoming authentication it takes a token as everything else does.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub otel_enable_prometheus_metrics_path: Option<bool>,
    /// Emit legacy attribute names alongside the new semantic-convention names.
    ///
    /// Default: `true`.
    #[uniffi(default)]
    pub otel_use_legacy_attributes: Option<bool>,
    /// Port of the loopback address on which `/metrics` is served without a token.
    #[uniffi(default)]
    pub otel_prometheus_port: Option<u16>,
    /// How OTLP is spoken.
    ///
    /// One of `http`, `grpc`.
    ///
    /// Default: `http`.
    #[uniffi(default)]
    pub otel_protocol: Option<OtlpProtocol>,
}

/// What is asked of a proxy; what is left out is not given.
#[uniffi::remote(Record)]
pub struct ProxyOptions {
    /// Name of the MCP server, for messages and logs.
    #[uniffi(default)]
    pub server_name: Option<String>,
    /// URI of the target MCP server.
    #[uniffi(default)]
    pub target_uri: Option<String>,
    /// IP or hostname the HTTP proxy listens on.
    ///
    /// Default: `127.0.0.1`.
    #[uniffi(default)]
    pub host: Option<String>,
    /// Port of this machine the proxy listens on; 0 picks a free one.
    ///
    /// Default: a free port.
    #[uniffi(default)]
    pub port: Option<u16>,
    /// Enable debug mode.
    ///
    /// Of the command line alone: the library's log goes where its program sends it.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub debug: Option<bool>,
    /// CA certificate bundle for mcpm's own HTTP requests (JWKS, OIDC discovery, etc.).
    ///
    /// The certificates in it are trusted beside those of this machine: for remote servers and targets,
    /// registries of servers, image registries that signatures are read from, identity providers, token
    /// exchange and telemetry. What the engine pulls is the engine's own to trust.
    #[uniffi(default)]
    pub mcpm_ca_bundle: Option<PathBuf>,
    /// Trust `X-Forwarded-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub trust_proxy_headers: Option<bool>,
    /// Tools of the server that are let through, all others are hidden.
    ///
    /// Names are those that clients see. `*` stands for any text and `?` for any one letter. With a `!`
    /// before it, a tool is hidden, whatever else lets it through; `!NAME` alone lets all others through.
    #[uniffi(default)]
    pub tools: Vec<String>,
    /// JSON file that overrides tool names and descriptions.
    #[uniffi(default)]
    pub tools_override: Option<PathBuf>,
    /// Authorization configuration file.
    ///
    /// In JSON or YAML, with policies in Cedar.
    #[uniffi(default)]
    pub authz_config: Option<PathBuf>,
    /// Audit configuration file.
    ///
    /// In JSON or YAML; it turns audit logging on.
    #[uniffi(default)]
    pub audit_config: Option<PathBuf>,
    /// Enable audit logging with the default configuration.
    ///
    /// Each request is then recorded as a line of JSON: that of a workload in its folder, that of a proxy
    /// alone on standard output.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub enable_audit: Option<bool>,
    /// Origins of browser pages that may call the proxy, beside its own.
    #[uniffi(default)]
    pub allowed_origins: Vec<String>,
    /// Host names that clients may call the proxy by, beside the one it listens on.
    ///
    /// Without authentication, a request that names another host is refused, since a web page whose name
    /// was pointed here could send it. Addresses and loopback names need not be listed.
    #[uniffi(default)]
    pub allowed_hosts: Vec<String>,
    /// OIDC issuer URL.
    ///
    /// Each request then needs a token of that issuer. It is compared letter for letter with what tokens
    /// say.
    #[uniffi(default)]
    pub oidc_issuer: Option<String>,
    /// Expected audience of the token.
    ///
    /// Default: the resource URL, else the URL of the proxy.
    #[uniffi(default)]
    pub oidc_audience: Option<String>,
    /// OIDC client ID.
    ///
    /// With it, and with the client secret, the identity provider is asked about tokens that are not
    /// signed.
    #[uniffi(default)]
    pub oidc_client_id: Option<String>,
    /// OIDC client secret, for introspection.
    #[uniffi(default)]
    pub oidc_client_secret: Option<Secret>,
    /// Token introspection endpoint URL.
    ///
    /// With an issuer or a JWKS URL beside it, signed tokens are checked with the keys, and only others are
    /// asked about.
    ///
    /// Default: that of the issuer, with a client secret.
    #[uniffi(default)]
    pub oidc_introspection_url: Option<String>,
    /// URL to fetch the JWKS from.
    ///
    /// Without an issuer beside it, tokens that are signed with these keys are taken whatever issuer they
    /// name.
    ///
    /// Default: that of the issuer.
    #[uniffi(default)]
    pub oidc_jwks_url: Option<String>,
    /// OAuth scopes advertised in the well-known endpoint (RFC 9728).
    ///
    /// Default: `openid`.
    #[uniffi(default)]
    pub oidc_scopes: Vec<String>,
    /// OAuth scopes that a token must have.
    #[uniffi(default)]
    pub oidc_required_scopes: Vec<String>,
    /// Allow OIDC issuers without HTTPS, for local development and testing (insecure).
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub oidc_insecure_allow_http: Option<bool>,
    /// Allow JWKS and OIDC endpoints on private IP addresses.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub jwks_allow_private_ip: Option<bool>,
    /// File with a bearer token that authenticates JWKS and OIDC requests.
    #[uniffi(default)]
    pub jwks_auth_token_file: Option<PathBuf>,
    /// Enable OAuth/OIDC authentication to the remote server.
    ///
    /// Default: `false`.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth: Option<bool>,
    /// OAuth/OIDC issuer URL.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_issuer: Option<String>,
    /// Authorization endpoint, in place of the issuer for OAuth without OIDC.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_authorize_url: Option<String>,
    /// Token endpoint, in place of the issuer for OAuth without OIDC.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_token_url: Option<String>,
    /// OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591).
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_client_id: Option<String>,
    /// OAuth client secret; not needed with dynamic client registration or PKCE.
    ///
    /// It goes before `--remote-auth-client-secret-file`, which goes before the environment variable. Not
    /// for production: other users of the machine may see it in the list of processes.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_client_secret: Option<Secret>,
    /// File with the OAuth client secret.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_client_secret_file: Option<PathBuf>,
    /// Bearer token for the remote server, in place of OAuth.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_bearer_token: Option<Secret>,
    /// File with the bearer token for the remote server.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_bearer_token_file: Option<PathBuf>,
    /// Scopes requested.
    ///
    /// Default: `openid,profile,email` with OIDC.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_scopes: Vec<String>,
    /// OAuth 2.0 resource indicator (RFC 8707).
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_resource: Option<String>,
    /// Explicit resource URL for the OAuth discovery endpoint (RFC 9728).
    ///
    /// Default: where the proxy listens.
    #[uniffi(default)]
    pub resource_url: Option<String>,
    /// Port of the local OAuth callback server.
    ///
    /// Default: `8666`.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_callback_port: Option<u16>,
    /// Do not open a browser for the OAuth flow.
    ///
    /// Default: `false`.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_skip_browser: Option<bool>,
    /// Timeout of the OAuth flow, such as `30s` or `1m30s`.
    ///
    /// Default: `30s`.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_auth_timeout: Option<Duration>,
    /// Header added to requests to the remote server.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_forward_headers: Vec<Header>,
    /// Header added to requests to the remote server, with its value from the secrets manager.
    ///
    /// Not supported yet.
    #[uniffi(default)]
    pub remote_forward_headers_secret: Vec<HeaderSecret>,
    /// OAuth 2.0 token exchange endpoint; enables token exchange.
    ///
    /// The token of each caller is exchanged there (RFC 8693) for one that goes to the server in its place.
    /// Callers must be asked who they are, with `--oidc-issuer`.
    #[uniffi(default)]
    pub token_exchange_url: Option<String>,
    /// Target audience of exchanged tokens.
    #[uniffi(default)]
    pub token_exchange_audience: Option<String>,
    /// Client ID for token exchange.
    #[uniffi(default)]
    pub token_exchange_client_id: Option<String>,
    /// Client secret for token exchange.
    ///
    /// It goes before the environment variable, as does a file. Not for production: other users of the
    /// machine may see it in the list of processes.
    #[uniffi(default)]
    pub token_exchange_client_secret: Option<Secret>,
    /// File with the client secret for token exchange.
    ///
    /// It is read for each exchange.
    #[uniffi(default)]
    pub token_exchange_client_secret_file: Option<PathBuf>,
    /// Scopes requested for exchanged tokens.
    #[uniffi(default)]
    pub token_exchange_scopes: Vec<String>,
    /// Kind of token that is exchanged.
    ///
    /// With `id_token`, callers are let in with ID tokens too.
    ///
    /// One of `access_token`, `id_token`.
    ///
    /// Default: `access_token`.
    #[uniffi(default)]
    pub token_exchange_subject_token_type: Option<SubjectTokenType>,
    /// Header that carries the exchanged token.
    ///
    /// Default: it replaces `Authorization`.
    #[uniffi(default)]
    pub token_exchange_header_name: Option<String>,
    /// OTLP endpoint URL.
    ///
    /// With OTLP over HTTP, `/v1/traces` and `/v1/metrics` are added to its path. Without a scheme it is
    /// `https`.
    #[uniffi(default)]
    pub otel_endpoint: Option<String>,
    /// Use HTTP instead of HTTPS for the OTLP endpoint.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub otel_insecure: Option<bool>,
    /// OTLP header.
    #[uniffi(default)]
    pub otel_headers: Vec<Header>,
    /// Service name.
    ///
    /// Default: `mcpm-<name>`.
    #[uniffi(default)]
    pub otel_service_name: Option<String>,
    /// Custom resource attributes.
    #[uniffi(default)]
    pub otel_custom_attributes: Option<Attributes>,
    /// Names of environment variables to include in spans.
    ///
    /// They are those of mcpm, not those of the server; `MCPM_*` is refused.
    #[uniffi(default)]
    pub otel_env_vars: Vec<String>,
    /// Distributed tracing, effective with an OTLP endpoint.
    ///
    /// Default: `true`.
    #[uniffi(default)]
    pub otel_tracing_enabled: Option<bool>,
    /// OTLP metrics export, effective with an OTLP endpoint.
    ///
    /// Default: `true`.
    #[uniffi(default)]
    pub otel_metrics_enabled: Option<bool>,
    /// Trace sampling rate, from 0.0 to 1.0.
    ///
    /// Default: `0.1`.
    #[uniffi(default)]
    pub otel_sampling_rate: Option<f64>,
    /// Serve `/metrics` on the main transport port.
    ///
    /// With incoming authentication it takes a token as everything else does.
    ///
    /// Default: `false`.
    #[uniffi(default)]
    pub otel_enable_prometheus_metrics_path: Option<bool>,
    /// Emit legacy attribute names alongside the new semantic-convention names.
    ///
    /// Default: `true`.
    #[uniffi(default)]
    pub otel_use_legacy_attributes: Option<bool>,
    /// Port of the loopback address on which `/metrics` is served without a token.
    #[uniffi(default)]
    pub otel_prometheus_port: Option<u16>,
    /// How OTLP is spoken.
    ///
    /// One of `http`, `grpc`.
    ///
    /// Default: `http`.
    #[uniffi(default)]
    pub otel_protocol: Option<OtlpProtocol>,
}
