//! Every option, declared once, in the order of the requirement.
//!
//! A row is a name, a slot (`Option` one value, `Vec` many, `List` many and comma-separated), a type, the default
//! as a user would type it, and settings of [`OptionSpec`](super::OptionSpec). The first documentation line is the
//! help text; it ends without a full stop and does not repeat the default. After a change run
//! `MCPM_UPDATE=1 cargo test -p mcpm-tests --test generated`.

use std::{path::PathBuf, time::Duration};

use super::{
    ArgumentPosition, Attributes, EnvVar, Header, HeaderSecret, ImageVerification, KeyValue, List,
    OtlpProtocol, PermissionProfile, ProxyMode, PublishSpec, Required, RuntimeChoice, Secret, SecretRef,
    SubjectTokenType, Transport, ValueKind, VolumeSpec,
};

options! {
    section "Workload and container" for (run) {
        /// Server name, image, `uvx://`, `npx://` or `go://` package, or URL
        ///
        /// A server name is looked up in the registry, which supplies transport, permissions and environment; what
        /// is no name there is an image. `registry:NAME` and `image:IMAGE` say which of the two is meant.
        /// An image is run as it is. For a package a container is generated that runs it; `go://./path` and
        /// `go://../path` build a local Go project. A URL is a remote server that is proxied as a workload.
        server: Option<String> [
            place: ArgumentPosition::Positional, placeholder: Some("SERVER_OR_IMAGE_OR_PROTOCOL"),
            required: Required::Unless("from_config"),
        ];
        /// Arguments passed to the MCP server
        args: Vec<String> [place: ArgumentPosition::Trailing, placeholder: Some("ARGS")];
        /// Name of the MCP server
        name: Option<String> [
            placeholder: Some("NAME"), computed_default: Some("generated from the image"), allowed_with_from_config: true,
        ];
        /// Group the workload belongs to
        ///
        /// A group that does not exist is created.
        group: Option<String> = "default" [placeholder: Some("GROUP"), allowed_with_from_config: true];
        /// Label on the container
        label: Vec<KeyValue> [short: Some('l')];
        /// Transport mode of the server
        transport: Option<Transport> [computed_default: Some("that of the registry entry, or found out")];
        /// Proxy mode of a stdio server; `sse` is deprecated and will be removed
        proxy_mode: Option<ProxyMode> = "streamable-http";
    }
    section "Proxy" for (proxy) {
        /// Name of the MCP server, for messages and logs
        server_name: Option<String> [
            place: ArgumentPosition::Positional, placeholder: Some("SERVER_NAME"), required: Required::Always,
        ];
        /// URI of the target MCP server
        target_uri: Option<String> [kind: ValueKind::Url, placeholder: Some("URI"), required: Required::Always];
    }
    section "Workload and container" | "Proxy" for (run, proxy) {
        /// IP or hostname the HTTP proxy listens on
        host: Option<String> = "127.0.0.1" [kind: ValueKind::Host];
    }
    section "Proxy" for (proxy) {
        /// Port of this machine the proxy listens on; 0 picks a free one
        port: Option<u16> [computed_default: Some("a free port")];
        /// Enable debug mode
        ///
        /// Of the command line alone: the library's log goes where its program sends it.
        debug: Option<bool> = "false" [place: ArgumentPosition::Global];
    }
    section "Workload and container" for (run) {
        /// Port of this machine the HTTP proxy listens on; 0 picks a free one
        proxy_port: Option<u16> [computed_default: Some("a free port"), allowed_with_from_config: true];
        /// Host that traffic is forwarded to, for the transports `sse` and `streamable-http`
        target_host: Option<String> = "127.0.0.1" [kind: ValueKind::Host];
        /// Port the container exposes, for the transports `sse` and `streamable-http`
        target_port: Option<u16> [range: Some((1.0, 65535.0)), computed_default: Some("the port the image exposes")];
        /// Publish a container port on this machine
        ///
        /// It is published on the loopback address unless another is written before it. With the container's port
        /// alone, any free port of this machine is taken. An IPv6 address stands in brackets.
        publish: Vec<PublishSpec> [short: Some('p')];
        /// Network mode of the container: `host`, `bridge`, or a network by name
        network: Option<String> = "bridge" [placeholder: Some("NETWORK")];
        /// Isolate the container network from the host
        isolate_network: Option<bool> = "false";
        /// Let an isolated container connect to the container runtime's gateway addresses
        ///
        /// Applies only with `--isolate-network`. The addresses are two host-gateway hostnames and `172.17.0.1`. They
        /// are blocked otherwise, even when the permission profile has `insecure_allow_all`.
        allow_runtime_gateway: Option<bool> = "false";
        /// Environment variable for the server
        env: Vec<EnvVar> [short: Some('e')];
        /// Load environment variables from a file
        env_file: Option<PathBuf>;
        /// Load environment variables from all files in a folder
        env_file_dir: Option<PathBuf> [kind: ValueKind::Folder];
        /// Secret fetched from the secrets manager and set as an environment variable
        ///
        /// `NAME` is what `mcpm secret set` was told. With `file:` and an absolute path as the target, the server
        /// gets a file in its container instead; with `header:` and a name, a remote server gets that header with each
        /// request.
        secret: Vec<SecretRef>;
        /// Mount a file or folder of this machine into the container
        ///
        /// After the container's path come `ro` or `rw`, and `z` (shared) or `Z` (private) for SELinux relabelling,
        /// separated by commas. A relative path of this machine starts at the current folder.
        volume: Vec<VolumeSpec> [short: Some('v')];
        /// Permissions of the container
        permission_profile: Option<PermissionProfile> [
            computed_default: Some("that of the registry entry, else `network`"),
        ];
        /// Write a permission profile of what the server connects to, and nothing more, to a file
        ///
        /// The server runs isolated and may connect to everything public meanwhile.
        learn: Option<PathBuf> [
            addition: true, placeholder: Some("PROFILE.json"),
            conflicts_with: &["permission_profile", "network"],
        ];
        /// Run in the foreground until the container exits
        ///
        /// Of the command line alone: what a program starts through the library always runs within it.
        foreground: Option<bool> = "false" [short: Some('f'), allowed_with_from_config: true];
        /// Load the configuration from an exported file
        ///
        /// Of all other options, only `--name`, `--group`, `--proxy-port`, `--foreground` and `--debug` can be given beside
        /// it. They take precedence over the file.
        from_config: Option<PathBuf> [is_exclusive: true];
        /// Load global ignore patterns from `~/.config/mcpm/mcpmignore`
        ///
        /// What they match in mounted folders, and what the patterns of a `.mcpmignore` in a mounted folder match, is
        /// covered in the container by empty files and folders. Patterns are written as for Git.
        ignore_globally: Option<bool> = "true";
        /// Print the container paths that overlays of ignored files and folders resolve to
        ///
        /// Of the command line alone: a program finds them in the plan.
        print_resolved_overlays: Option<bool> = "false";
        /// Image verification mode
        ///
        /// The signature is looked for in the image's registry. It counts when it was made by whom the registry entry, or
        /// the options below, say; the digest that it signs is what runs.
        image_verification: Option<ImageVerification> = "warn";
        /// PEM file with the public key that the image must be signed with
        image_verification_key: Option<PathBuf> [
            addition: true,
            conflicts_with: &["certificate_identity", "certificate_oidc_issuer", "sigstore_trusted_root"],
        ];
        /// Name in the certificate of who must have signed the image: a mail address or a URI
        certificate_identity: Option<String> [
            placeholder: Some("IDENTITY"), computed_default: Some("what the registry entry says"), addition: true,
        ];
        /// Issuer that must vouch for the certificate identity
        certificate_oidc_issuer: Option<String> [
            kind: ValueKind::Url, computed_default: Some("what the registry entry says"), addition: true,
        ];
        /// Sigstore's `trusted_root.json`, with the certificates and logs that are believed
        sigstore_trusted_root: Option<PathBuf> [
            placeholder: Some("FILE"), computed_default: Some("that of Sigstore's public instance"), addition: true,
        ];
        /// Custom CA certificate file used for container builds
        ///
        /// The certificates in it are trusted while a package is built and by its server. A server from an image is
        /// offered them in a file, by the usual variables.
        ca_cert: Option<PathBuf>;
    }
    section "Workload and container" | "Proxy" for (run, proxy as addition) {
        /// CA certificate bundle for mcpm's own HTTP requests (JWKS, OIDC discovery, etc.)
        ///
        /// The certificates in it are trusted beside those of this machine: for remote servers and targets, registries of
        /// servers, image registries that signatures are read from, identity providers, token exchange and telemetry. What
        /// the engine pulls is the engine's own to trust.
        mcpm_ca_bundle: Option<PathBuf>;
    }
    section "Workload and container" for (run) {
        /// Base image for protocol schemes
        runtime_image: Option<String> [placeholder: Some("IMAGE")];
        /// Extra package to install in the builder and runtime stages
        runtime_add_package: Vec<String> [placeholder: Some("PACKAGE")];
        /// Path prefix prepended to SSE endpoint URLs
        endpoint_prefix: Option<String> [placeholder: Some("PREFIX")];
    }
    section "Workload and container" | "Proxy" for (run, proxy as addition) {
        /// Trust `X-Forwarded-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies
        trust_proxy_headers: Option<bool> = "false";
        /// Tools of the server that are let through, all others are hidden
        ///
        /// Names are those that clients see. `*` stands for any text and `?` for any one letter. With a `!` before it, a
        /// tool is hidden, whatever else lets it through; `!NAME` alone lets all others through.
        tools: List<String> [placeholder: Some("TOOL,...")];
        /// JSON file that overrides tool names and descriptions
        tools_override: Option<PathBuf>;
        /// Authorization configuration file
        ///
        /// In JSON or YAML, with policies in Cedar.
        authz_config: Option<PathBuf>;
        /// Audit configuration file
        ///
        /// In JSON or YAML; it turns audit logging on.
        audit_config: Option<PathBuf>;
        /// Enable audit logging with the default configuration
        ///
        /// Each request is then recorded as a line of JSON: that of a workload in its folder, that of a proxy alone on
        /// standard output.
        enable_audit: Option<bool> = "false";
    }
    section "Workload and container" for (run) {
        /// Enable debug mode
        ///
        /// Of the command line alone: the library's log goes where its program sends it.
        debug: Option<bool> = "false" [place: ArgumentPosition::Global, allowed_with_from_config: true];
        /// Container engine to run on
        runtime: Option<RuntimeChoice> = "auto" [addition: true];
        /// Command of the package that is the server, when the package has several
        package_command: Option<String> [placeholder: Some("COMMAND"), addition: true];
        /// Build the package's image again, with the newest version that its name stands for
        rebuild: Option<bool> = "false" [addition: true, conflicts_with: &["offline"]];
        /// Fetch nothing: the image must be on this machine
        offline: Option<bool> = "false" [addition: true];
    }
    section "Workload and container" | "Proxy" for (run, proxy) {
        /// Origins of browser pages that may call the proxy, beside its own
        allowed_origins: List<String> [placeholder: Some("ORIGIN,..."), addition: true];
        /// Host names that clients may call the proxy by, beside the one it listens on
        ///
        /// Without authentication, a request that names another host is refused, since a web page whose name was pointed
        /// here could send it. Addresses and loopback names need not be listed.
        allowed_hosts: List<String> [placeholder: Some("HOST,..."), addition: true];
    }
    section "Workload and container" for (run) {
        /// Registry that server names are looked up in: `embedded`, a file, or a URL
        ///
        /// A URL whose path ends in `.json` is that of a document, any other is the base of a registry's REST API.
        registry: Option<String> [
            placeholder: Some("REGISTRY"), computed_default: Some("that of the settings, else `embedded`"), addition: true,
        ];
    }
    section "Incoming authentication" for (run, proxy) {
        /// OIDC issuer URL
        ///
        /// Each request then needs a token of that issuer. It is compared letter for letter with what tokens say.
        oidc_issuer: Option<String> [kind: ValueKind::Url];
        /// Expected audience of the token
        oidc_audience: Option<String> [
            placeholder: Some("AUDIENCE"), computed_default: Some("the resource URL, else the URL of the proxy"),
        ];
        /// OIDC client ID
        ///
        /// With it, and with the client secret, the identity provider is asked about tokens that are not signed.
        oidc_client_id: Option<String> [placeholder: Some("ID")];
        /// OIDC client secret, for introspection
        oidc_client_secret: Option<Secret> [env: Some("MCPM_OIDC_CLIENT_SECRET")];
        /// Token introspection endpoint URL
        ///
        /// With an issuer or a JWKS URL beside it, signed tokens are checked with the keys, and only others are asked
        /// about.
        oidc_introspection_url: Option<String> [
            kind: ValueKind::Url, computed_default: Some("that of the issuer, with a client secret"),
        ];
        /// URL to fetch the JWKS from
        ///
        /// Without an issuer beside it, tokens that are signed with these keys are taken whatever issuer they name.
        oidc_jwks_url: Option<String> [kind: ValueKind::Url, computed_default: Some("that of the issuer")];
        /// OAuth scopes advertised in the well-known endpoint (RFC 9728)
        oidc_scopes: List<String> = "openid" [placeholder: Some("SCOPE,...")];
        /// OAuth scopes that a token must have
        oidc_required_scopes: List<String> [placeholder: Some("SCOPE,..."), addition: true];
    }
    section "Incoming authentication" for (run, proxy as addition) {
        /// Allow OIDC issuers without HTTPS, for local development and testing (insecure)
        oidc_insecure_allow_http: Option<bool> = "false";
        /// Allow JWKS and OIDC endpoints on private IP addresses
        jwks_allow_private_ip: Option<bool> = "false";
        /// File with a bearer token that authenticates JWKS and OIDC requests
        jwks_auth_token_file: Option<PathBuf>;
    }
    section "Outgoing authentication" for (run, proxy) {
        /// Enable OAuth/OIDC authentication to the remote server
        remote_auth: Option<bool> = "false" [unsupported: Some("outgoing authentication")];
        /// OAuth/OIDC issuer URL
        remote_auth_issuer: Option<String> [
            kind: ValueKind::Url, unsupported: Some("outgoing authentication"),
            conflicts_with: &["remote_auth_authorize_url", "remote_auth_token_url"],
        ];
        /// Authorization endpoint, in place of the issuer for OAuth without OIDC
        remote_auth_authorize_url: Option<String> [kind: ValueKind::Url, unsupported: Some("outgoing authentication")];
        /// Token endpoint, in place of the issuer for OAuth without OIDC
        remote_auth_token_url: Option<String> [kind: ValueKind::Url, unsupported: Some("outgoing authentication")];
        /// OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591)
        remote_auth_client_id: Option<String> [placeholder: Some("ID"), unsupported: Some("outgoing authentication")];
        /// OAuth client secret; not needed with dynamic client registration or PKCE
        ///
        /// It goes before `--remote-auth-client-secret-file`, which goes before the environment variable. Not for
        /// production: other users of the machine may see it in the list of processes.
        remote_auth_client_secret: Option<Secret> [
            env: Some("MCPM_REMOTE_OAUTH_CLIENT_SECRET"), unsupported: Some("outgoing authentication"),
        ];
        /// File with the OAuth client secret
        remote_auth_client_secret_file: Option<PathBuf> [unsupported: Some("outgoing authentication")];
        /// Bearer token for the remote server, in place of OAuth
        remote_auth_bearer_token: Option<Secret> [
            unsupported: Some("outgoing authentication"), conflicts_with: &["remote_auth_bearer_token_file"],
        ];
        /// File with the bearer token for the remote server
        remote_auth_bearer_token_file: Option<PathBuf> [unsupported: Some("outgoing authentication")];
        /// Scopes requested
        remote_auth_scopes: List<String> [
            placeholder: Some("SCOPE,..."), computed_default: Some("`openid,profile,email` with OIDC"),
            unsupported: Some("outgoing authentication"),
        ];
        /// OAuth 2.0 resource indicator (RFC 8707)
        remote_auth_resource: Option<String> [kind: ValueKind::Url, unsupported: Some("outgoing authentication")];
        /// Explicit resource URL for the OAuth discovery endpoint (RFC 9728)
        resource_url: Option<String> [kind: ValueKind::Url, computed_default: Some("where the proxy listens")];
        /// Port of the local OAuth callback server
        remote_auth_callback_port: Option<u16> = "8666" [unsupported: Some("outgoing authentication")];
        /// Do not open a browser for the OAuth flow
        remote_auth_skip_browser: Option<bool> = "false" [unsupported: Some("outgoing authentication")];
        /// Timeout of the OAuth flow, such as `30s` or `1m30s`
        remote_auth_timeout: Option<Duration> = "30s" [unsupported: Some("outgoing authentication")];
        /// Header added to requests to the remote server
        remote_forward_headers: Vec<Header> [unsupported: Some("outgoing authentication")];
        /// Header added to requests to the remote server, with its value from the secrets manager
        remote_forward_headers_secret: Vec<HeaderSecret> [unsupported: Some("outgoing authentication")];
    }
    section "Token exchange" for (run, proxy) {
        /// OAuth 2.0 token exchange endpoint; enables token exchange
        ///
        /// The token of each caller is exchanged there (RFC 8693) for one that goes to the server in its place. Callers
        /// must be asked who they are, with `--oidc-issuer`.
        token_exchange_url: Option<String> [kind: ValueKind::Url];
        /// Target audience of exchanged tokens
        token_exchange_audience: Option<String> [placeholder: Some("AUDIENCE")];
        /// Client ID for token exchange
        token_exchange_client_id: Option<String> [placeholder: Some("ID")];
        /// Client secret for token exchange
        ///
        /// It goes before the environment variable, as does a file. Not for production: other users of the machine may
        /// see it in the list of processes.
        token_exchange_client_secret: Option<Secret> [
            env: Some("MCPM_TOKEN_EXCHANGE_CLIENT_SECRET"), conflicts_with: &["token_exchange_client_secret_file"],
        ];
        /// File with the client secret for token exchange
        ///
        /// It is read for each exchange.
        token_exchange_client_secret_file: Option<PathBuf>;
        /// Scopes requested for exchanged tokens
        token_exchange_scopes: List<String> [placeholder: Some("SCOPE,...")];
        /// Kind of token that is exchanged
        ///
        /// With `id_token`, callers are let in with ID tokens too.
        token_exchange_subject_token_type: Option<SubjectTokenType> = "access_token" [placeholder: Some("TYPE")];
        /// Header that carries the exchanged token
        token_exchange_header_name: Option<String> [
            placeholder: Some("NAME"), computed_default: Some("it replaces `Authorization`"),
        ];
    }
    section "Telemetry" for (run, proxy as addition) {
        /// OTLP endpoint URL
        ///
        /// With OTLP over HTTP, `/v1/traces` and `/v1/metrics` are added to its path. Without a scheme it is `https`.
        otel_endpoint: Option<String> [kind: ValueKind::Url];
        /// Use HTTP instead of HTTPS for the OTLP endpoint
        otel_insecure: Option<bool> = "false";
        /// OTLP header
        otel_headers: Vec<Header> [placeholder: Some("key=value")];
        /// Service name
        otel_service_name: Option<String> [placeholder: Some("NAME"), computed_default: Some("`mcpm-<name>`")];
        /// Custom resource attributes
        otel_custom_attributes: Option<Attributes>;
        /// Names of environment variables to include in spans
        ///
        /// They are those of mcpm, not those of the server; `MCPM_*` is refused.
        otel_env_vars: List<String> [placeholder: Some("NAME,...")];
        /// Distributed tracing, effective with an OTLP endpoint
        otel_tracing_enabled: Option<bool> = "true";
        /// OTLP metrics export, effective with an OTLP endpoint
        otel_metrics_enabled: Option<bool> = "true";
        /// Trace sampling rate, from 0.0 to 1.0
        otel_sampling_rate: Option<f64> = "0.1" [range: Some((0.0, 1.0))];
        /// Serve `/metrics` on the main transport port
        ///
        /// With incoming authentication it takes a token as everything else does.
        otel_enable_prometheus_metrics_path: Option<bool> = "false";
        /// Emit legacy attribute names alongside the new semantic-convention names
        otel_use_legacy_attributes: Option<bool> = "true";
    }
    section "Telemetry" for (run, proxy) {
        /// Port of the loopback address on which `/metrics` is served without a token
        otel_prometheus_port: Option<u16> [range: Some((1.0, 65535.0)), addition: true];
        /// How OTLP is spoken
        otel_protocol: Option<OtlpProtocol> = "http" [addition: true];
    }
}
