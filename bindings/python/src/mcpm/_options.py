"""Options as keyword arguments. Generated from the option table by tests/generated.rs; do not edit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _values
from ._native import mcpm as _native

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from datetime import timedelta
    from typing import Literal

    from typing_extensions import TypedDict

    from ._secret import Secret

    class WorkloadKeywords(TypedDict, total=False):
        """The options of `mcpm run`."""

        args: Iterable[str]
        """Arguments passed to the MCP server."""
        name: str
        """Name of the workload."""
        group: str
        """Group the workload belongs to."""
        label: Mapping[str, str] | Iterable[_native.KeyValue]
        """Label to add to the container."""
        transport: _native.Transport | Literal["sse", "streamable-http", "stdio"]
        """Transport mode of the server."""
        proxy_mode: _native.ProxyMode | Literal["streamable-http", "sse"]
        """Transport that the proxy of a stdio server offers; `sse` is deprecated and will be removed."""
        host: str
        """IP address or hostname that the HTTP proxy listens on."""
        proxy_port: int
        """Host port the HTTP proxy listens on; 0 picks a free one."""
        target_host: str
        """Host that traffic is forwarded to, for the transports `sse` and `streamable-http`."""
        target_port: int
        """Port the container exposes, for the transports `sse` and `streamable-http`."""
        publish: Iterable[_native.PublishSpec]
        """Publish a container port on the host."""
        network: str
        """Network mode of the container: `bridge`, `host`, `none`, `container:NAME`, or the name of a network."""
        isolate_network: bool
        """Isolate the container network from the host."""
        allow_runtime_gateway: bool
        """Let an isolated container connect to the container runtime's gateway addresses."""
        env: Mapping[str, str] | Iterable[_native.EnvVar]
        """Environment variable for the server."""
        env_file: str | os.PathLike[str]
        """Load environment variables from a file."""
        env_file_dir: str | os.PathLike[str]
        """Load environment variables from all files in a folder, except hidden files."""
        secret: Mapping[str, str] | Iterable[_native.SecretRef]
        """Secret from the secret store, passed to the server as an environment variable."""
        volume: Iterable[_native.VolumeSpec]
        """Mount a host file or folder into the container."""
        permission_profile: str | os.PathLike[str] | _native.PermissionProfile
        """Files and networks that the server may use."""
        learn: str | os.PathLike[str]
        """Write a permission profile that allows the hosts that the server connects to or looks up."""
        foreground: bool
        """Run in the foreground until the server exits."""
        from_config: str | os.PathLike[str]
        """Load the configuration from a file that `mcpm export` has written."""
        ignore_globally: bool
        """Load global ignore patterns from `mcpmignore` in the configuration folder."""
        print_resolved_overlays: bool
        """Print the container paths of the overlays that hide ignored files and folders."""
        image_verification: _native.ImageVerification | Literal["warn", "enabled", "disabled"]
        """What to do if the signature of the image is missing or invalid."""
        image_verification_key: str | os.PathLike[str]
        """PEM file with the public key of the required signer of the image."""
        certificate_identity: str
        """Required identity in the signer's certificate: an email address or a URI."""
        certificate_oidc_issuer: str
        """Required OIDC issuer in the signer's certificate."""
        sigstore_trusted_root: str | os.PathLike[str]
        """Sigstore `trusted_root.json` with the trusted certificate authorities and logs."""
        ca_cert: str | os.PathLike[str]
        """Custom CA certificate file for container builds and for servers in containers."""
        mcpm_ca_bundle: str | os.PathLike[str]
        """CA certificate bundle for mcpm's own HTTP requests (JWKS, OIDC discovery, etc.)."""
        runtime_image: str
        """Base image for packages, and for local scripts, projects and MCP bundles."""
        runtime_add_package: Iterable[str]
        """Additional Linux package to install in the builder and runtime stages of the image."""
        endpoint_prefix: str
        """Path prefix prepended to URLs that the proxy sends to clients, such as SSE endpoint URLs."""
        trust_proxy_headers: bool
        """Trust `X-Forwarded-For`, `-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies."""
        tools: Iterable[str]
        """Tools to expose to clients; all others are hidden."""
        tools_override: str | os.PathLike[str]
        """JSON file that overrides tool names and descriptions."""
        authz_config: str | os.PathLike[str]
        """Authorization configuration file."""
        audit_config: str | os.PathLike[str]
        """Audit configuration file."""
        enable_audit: bool
        """Enable audit logging with the default configuration."""
        debug: bool
        """Enable debug mode."""
        runtime: _native.RuntimeChoice | Literal["auto", "docker", "podman", "builtin"]
        """Container runtime to use."""
        package_command: str
        """Which command of the package starts the server, if the package has more than one command."""
        with_package: Iterable[str]
        """Additional package to install together with a Python or Node.js package, project or script."""
        config: Mapping[str, str] | Iterable[_native.KeyValue]
        """Value for a key of an MCP bundle; the bundle's manifest defines the keys."""
        rebuild: bool
        """Rebuild the package's image with the newest matching version of the package."""
        offline: bool
        """Use an image that is present locally; do not pull or build one."""
        restart: _native.RestartMode | Literal["no", "on-failure", "always"]
        """Whether a server that has exited is started again: never, only after a failure, or always."""
        start_timeout: timedelta | float
        """How long a server may take to become ready, such as `90s` or `5m`."""
        allowed_origins: Iterable[str]
        """Additional origins of web pages that may call the proxy."""
        allowed_hosts: Iterable[str]
        """Additional hostnames that clients may use to reach the proxy."""
        registry: str
        """Registry that server names are looked up in: `embedded`, a file, or a URL."""
        oidc_issuer: str
        """OIDC issuer URL."""
        oidc_audience: str
        """Expected audience of the token."""
        oidc_client_id: str
        """OIDC client ID."""
        oidc_client_secret: Secret | str
        """OIDC client secret, for introspection."""
        oidc_introspection_url: str
        """Token introspection endpoint URL."""
        oidc_jwks_url: str
        """URL to fetch the JWKS from."""
        oidc_scopes: Iterable[str]
        """OAuth scopes that the protected resource metadata advertises (RFC 9728)."""
        oidc_required_scopes: Iterable[str]
        """OAuth scopes that a token must have."""
        oidc_insecure_allow_http: bool
        """Allow OIDC and token exchange URLs without HTTPS, for development and testing (insecure)."""
        jwks_allow_private_ip: bool
        """Allow JWKS, OIDC and token exchange endpoints on private IP addresses."""
        jwks_auth_token_file: str | os.PathLike[str]
        """File with a bearer token that authenticates JWKS and OIDC requests."""
        remote_auth: bool
        """Log in to the remote server with OAuth/OIDC, even if its responses do not ask for it."""
        remote_auth_issuer: str
        """OAuth/OIDC issuer URL."""
        remote_auth_authorize_url: str
        """Authorization endpoint, instead of the issuer, for an authorization server without metadata."""
        remote_auth_token_url: str
        """Token endpoint, instead of the issuer, for an authorization server without metadata."""
        remote_auth_client_id: str
        """OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591)."""
        remote_auth_client_metadata_url: str
        """URL of a client ID metadata document, for authorization servers that support such documents."""
        remote_auth_client_secret: Secret | str
        """OAuth client secret, if the authorization server has issued one for `--remote-auth-client-id`."""
        remote_auth_client_secret_file: str | os.PathLike[str]
        """File with the OAuth client secret."""
        remote_auth_bearer_token: Secret | str
        """Bearer token for the remote server, instead of OAuth."""
        remote_auth_bearer_token_file: str | os.PathLike[str]
        """File with the bearer token for the remote server."""
        remote_auth_scopes: Iterable[str]
        """Scopes to request."""
        remote_auth_resource: str
        """OAuth 2.0 resource indicator (RFC 8707)."""
        resource_url: str
        """Resource identifier in the protected resource metadata (RFC 9728)."""
        remote_auth_callback_port: int
        """Port of the local OAuth callback server."""
        remote_auth_skip_browser: bool
        """Do not open a browser for the OAuth flow."""
        remote_auth_timeout: timedelta | float
        """Timeout of the OAuth flow, such as `30s` or `1m30s`."""
        remote_forward_headers: Mapping[str, Secret | str] | Iterable[_native.Header]
        """Header added to requests to the remote server."""
        remote_forward_headers_secret: Mapping[str, str] | Iterable[_native.HeaderSecret]
        """Header added to requests to the remote server, with a secret from the secret store as its value."""
        token_exchange_url: str
        """OAuth 2.0 token exchange endpoint; enables token exchange."""
        token_exchange_audience: str
        """Audience to request for the new token."""
        token_exchange_client_id: str
        """Client ID for token exchange."""
        token_exchange_client_secret: Secret | str
        """Client secret for token exchange."""
        token_exchange_client_secret_file: str | os.PathLike[str]
        """File with the client secret for token exchange."""
        token_exchange_scopes: Iterable[str]
        """Scopes to request for the new token."""
        token_exchange_subject_token_type: _native.SubjectTokenType | Literal["access_token", "id_token"]
        """Type of the token that is exchanged."""
        token_exchange_header_name: str
        """Header in which the new token is sent to the server."""
        otel_endpoint: str
        """OTLP endpoint URL."""
        otel_insecure: bool
        """Use HTTP instead of HTTPS for the OTLP endpoint."""
        otel_headers: Mapping[str, Secret | str] | Iterable[_native.Header]
        """Header to add to OTLP requests."""
        otel_service_name: str
        """Service name in traces and metrics."""
        otel_custom_attributes: Mapping[str, str] | _native.Attributes
        """Additional resource attributes in traces and metrics."""
        otel_env_vars: Iterable[str]
        """Names of environment variables to include in spans."""
        otel_tracing_enabled: bool
        """Export traces; requires an OTLP endpoint."""
        otel_metrics_enabled: bool
        """Export metrics with OTLP; requires an OTLP endpoint."""
        otel_sampling_rate: float
        """Trace sampling rate, from 0.0 to 1.0."""
        otel_enable_prometheus_metrics_path: bool
        """Serve Prometheus metrics at `/metrics` on the port of the proxy."""
        otel_use_legacy_attributes: bool
        """Emit legacy attribute names alongside the new semantic-convention names."""
        otel_prometheus_port: int
        """Loopback port on which `/metrics` is served without a token."""
        otel_protocol: _native.OtlpProtocol | Literal["http", "grpc"]
        """OTLP transport."""

    class ProxyKeywords(TypedDict, total=False):
        """The options of `mcpm proxy`."""

        host: str
        """IP address or hostname that the HTTP proxy listens on."""
        port: int
        """Host port the proxy listens on; 0 picks a free one."""
        debug: bool
        """Enable debug mode."""
        mcpm_ca_bundle: str | os.PathLike[str]
        """CA certificate bundle for mcpm's own HTTP requests (JWKS, OIDC discovery, etc.)."""
        trust_proxy_headers: bool
        """Trust `X-Forwarded-For`, `-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies."""
        tools: Iterable[str]
        """Tools to expose to clients; all others are hidden."""
        tools_override: str | os.PathLike[str]
        """JSON file that overrides tool names and descriptions."""
        authz_config: str | os.PathLike[str]
        """Authorization configuration file."""
        audit_config: str | os.PathLike[str]
        """Audit configuration file."""
        enable_audit: bool
        """Enable audit logging with the default configuration."""
        allowed_origins: Iterable[str]
        """Additional origins of web pages that may call the proxy."""
        allowed_hosts: Iterable[str]
        """Additional hostnames that clients may use to reach the proxy."""
        oidc_issuer: str
        """OIDC issuer URL."""
        oidc_audience: str
        """Expected audience of the token."""
        oidc_client_id: str
        """OIDC client ID."""
        oidc_client_secret: Secret | str
        """OIDC client secret, for introspection."""
        oidc_introspection_url: str
        """Token introspection endpoint URL."""
        oidc_jwks_url: str
        """URL to fetch the JWKS from."""
        oidc_scopes: Iterable[str]
        """OAuth scopes that the protected resource metadata advertises (RFC 9728)."""
        oidc_required_scopes: Iterable[str]
        """OAuth scopes that a token must have."""
        oidc_insecure_allow_http: bool
        """Allow OIDC and token exchange URLs without HTTPS, for development and testing (insecure)."""
        jwks_allow_private_ip: bool
        """Allow JWKS, OIDC and token exchange endpoints on private IP addresses."""
        jwks_auth_token_file: str | os.PathLike[str]
        """File with a bearer token that authenticates JWKS and OIDC requests."""
        remote_auth: bool
        """Log in to the remote server with OAuth/OIDC, even if its responses do not ask for it."""
        remote_auth_issuer: str
        """OAuth/OIDC issuer URL."""
        remote_auth_authorize_url: str
        """Authorization endpoint, instead of the issuer, for an authorization server without metadata."""
        remote_auth_token_url: str
        """Token endpoint, instead of the issuer, for an authorization server without metadata."""
        remote_auth_client_id: str
        """OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591)."""
        remote_auth_client_metadata_url: str
        """URL of a client ID metadata document, for authorization servers that support such documents."""
        remote_auth_client_secret: Secret | str
        """OAuth client secret, if the authorization server has issued one for `--remote-auth-client-id`."""
        remote_auth_client_secret_file: str | os.PathLike[str]
        """File with the OAuth client secret."""
        remote_auth_bearer_token: Secret | str
        """Bearer token for the remote server, instead of OAuth."""
        remote_auth_bearer_token_file: str | os.PathLike[str]
        """File with the bearer token for the remote server."""
        remote_auth_scopes: Iterable[str]
        """Scopes to request."""
        remote_auth_resource: str
        """OAuth 2.0 resource indicator (RFC 8707)."""
        resource_url: str
        """Resource identifier in the protected resource metadata (RFC 9728)."""
        remote_auth_callback_port: int
        """Port of the local OAuth callback server."""
        remote_auth_skip_browser: bool
        """Do not open a browser for the OAuth flow."""
        remote_auth_timeout: timedelta | float
        """Timeout of the OAuth flow, such as `30s` or `1m30s`."""
        remote_forward_headers: Mapping[str, Secret | str] | Iterable[_native.Header]
        """Header added to requests to the remote server."""
        remote_forward_headers_secret: Mapping[str, str] | Iterable[_native.HeaderSecret]
        """Header added to requests to the remote server, with a secret from the secret store as its value."""
        token_exchange_url: str
        """OAuth 2.0 token exchange endpoint; enables token exchange."""
        token_exchange_audience: str
        """Audience to request for the new token."""
        token_exchange_client_id: str
        """Client ID for token exchange."""
        token_exchange_client_secret: Secret | str
        """Client secret for token exchange."""
        token_exchange_client_secret_file: str | os.PathLike[str]
        """File with the client secret for token exchange."""
        token_exchange_scopes: Iterable[str]
        """Scopes to request for the new token."""
        token_exchange_subject_token_type: _native.SubjectTokenType | Literal["access_token", "id_token"]
        """Type of the token that is exchanged."""
        token_exchange_header_name: str
        """Header in which the new token is sent to the server."""
        otel_endpoint: str
        """OTLP endpoint URL."""
        otel_insecure: bool
        """Use HTTP instead of HTTPS for the OTLP endpoint."""
        otel_headers: Mapping[str, Secret | str] | Iterable[_native.Header]
        """Header to add to OTLP requests."""
        otel_service_name: str
        """Service name in traces and metrics."""
        otel_custom_attributes: Mapping[str, str] | _native.Attributes
        """Additional resource attributes in traces and metrics."""
        otel_env_vars: Iterable[str]
        """Names of environment variables to include in spans."""
        otel_tracing_enabled: bool
        """Export traces; requires an OTLP endpoint."""
        otel_metrics_enabled: bool
        """Export metrics with OTLP; requires an OTLP endpoint."""
        otel_sampling_rate: float
        """Trace sampling rate, from 0.0 to 1.0."""
        otel_enable_prometheus_metrics_path: bool
        """Serve Prometheus metrics at `/metrics` on the port of the proxy."""
        otel_use_legacy_attributes: bool
        """Emit legacy attribute names alongside the new semantic-convention names."""
        otel_prometheus_port: int
        """Loopback port on which `/metrics` is served without a token."""
        otel_protocol: _native.OtlpProtocol | Literal["http", "grpc"]
        """OTLP transport."""


WORKLOAD: dict[str, _values.Conversion] = {
    "server": _values.plain,
    "args": _values.texts,
    "name": _values.plain,
    "group": _values.plain,
    "label": _values.pairs(_native.KeyValue, "key", "value"),
    "transport": _values.choice(_native.Transport),
    "proxy_mode": _values.choice(_native.ProxyMode),
    "host": _values.plain,
    "proxy_port": _values.plain,
    "target_host": _values.plain,
    "target_port": _values.plain,
    "publish": _values.records,
    "network": _values.plain,
    "isolate_network": _values.plain,
    "allow_runtime_gateway": _values.plain,
    "env": _values.pairs(_native.EnvVar, "name", "value"),
    "env_file": _values.path,
    "env_file_dir": _values.path,
    "secret": _values.pairs(_native.SecretRef, "name", "target"),
    "volume": _values.records,
    "permission_profile": _values.profile,
    "learn": _values.path,
    "foreground": _values.plain,
    "from_config": _values.path,
    "ignore_globally": _values.plain,
    "print_resolved_overlays": _values.plain,
    "image_verification": _values.choice(_native.ImageVerification),
    "image_verification_key": _values.path,
    "certificate_identity": _values.plain,
    "certificate_oidc_issuer": _values.plain,
    "sigstore_trusted_root": _values.path,
    "ca_cert": _values.path,
    "mcpm_ca_bundle": _values.path,
    "runtime_image": _values.plain,
    "runtime_add_package": _values.texts,
    "endpoint_prefix": _values.plain,
    "trust_proxy_headers": _values.plain,
    "tools": _values.texts,
    "tools_override": _values.path,
    "authz_config": _values.path,
    "audit_config": _values.path,
    "enable_audit": _values.plain,
    "debug": _values.plain,
    "runtime": _values.choice(_native.RuntimeChoice),
    "package_command": _values.plain,
    "with_package": _values.texts,
    "config": _values.pairs(_native.KeyValue, "key", "value"),
    "rebuild": _values.plain,
    "offline": _values.plain,
    "restart": _values.choice(_native.RestartMode),
    "start_timeout": _values.duration,
    "allowed_origins": _values.texts,
    "allowed_hosts": _values.texts,
    "registry": _values.plain,
    "oidc_issuer": _values.plain,
    "oidc_audience": _values.plain,
    "oidc_client_id": _values.plain,
    "oidc_client_secret": _values.plain,
    "oidc_introspection_url": _values.plain,
    "oidc_jwks_url": _values.plain,
    "oidc_scopes": _values.texts,
    "oidc_required_scopes": _values.texts,
    "oidc_insecure_allow_http": _values.plain,
    "jwks_allow_private_ip": _values.plain,
    "jwks_auth_token_file": _values.path,
    "remote_auth": _values.plain,
    "remote_auth_issuer": _values.plain,
    "remote_auth_authorize_url": _values.plain,
    "remote_auth_token_url": _values.plain,
    "remote_auth_client_id": _values.plain,
    "remote_auth_client_metadata_url": _values.plain,
    "remote_auth_client_secret": _values.plain,
    "remote_auth_client_secret_file": _values.path,
    "remote_auth_bearer_token": _values.plain,
    "remote_auth_bearer_token_file": _values.path,
    "remote_auth_scopes": _values.texts,
    "remote_auth_resource": _values.plain,
    "resource_url": _values.plain,
    "remote_auth_callback_port": _values.plain,
    "remote_auth_skip_browser": _values.plain,
    "remote_auth_timeout": _values.duration,
    "remote_forward_headers": _values.pairs(_native.Header, "name", "value"),
    "remote_forward_headers_secret": _values.pairs(_native.HeaderSecret, "name", "secret"),
    "token_exchange_url": _values.plain,
    "token_exchange_audience": _values.plain,
    "token_exchange_client_id": _values.plain,
    "token_exchange_client_secret": _values.plain,
    "token_exchange_client_secret_file": _values.path,
    "token_exchange_scopes": _values.texts,
    "token_exchange_subject_token_type": _values.choice(_native.SubjectTokenType),
    "token_exchange_header_name": _values.plain,
    "otel_endpoint": _values.plain,
    "otel_insecure": _values.plain,
    "otel_headers": _values.pairs(_native.Header, "name", "value"),
    "otel_service_name": _values.plain,
    "otel_custom_attributes": _values.attributes,
    "otel_env_vars": _values.texts,
    "otel_tracing_enabled": _values.plain,
    "otel_metrics_enabled": _values.plain,
    "otel_sampling_rate": _values.plain,
    "otel_enable_prometheus_metrics_path": _values.plain,
    "otel_use_legacy_attributes": _values.plain,
    "otel_prometheus_port": _values.plain,
    "otel_protocol": _values.choice(_native.OtlpProtocol),
}


PROXY: dict[str, _values.Conversion] = {
    "server_name": _values.plain,
    "target_uri": _values.plain,
    "host": _values.plain,
    "port": _values.plain,
    "debug": _values.plain,
    "mcpm_ca_bundle": _values.path,
    "trust_proxy_headers": _values.plain,
    "tools": _values.texts,
    "tools_override": _values.path,
    "authz_config": _values.path,
    "audit_config": _values.path,
    "enable_audit": _values.plain,
    "allowed_origins": _values.texts,
    "allowed_hosts": _values.texts,
    "oidc_issuer": _values.plain,
    "oidc_audience": _values.plain,
    "oidc_client_id": _values.plain,
    "oidc_client_secret": _values.plain,
    "oidc_introspection_url": _values.plain,
    "oidc_jwks_url": _values.plain,
    "oidc_scopes": _values.texts,
    "oidc_required_scopes": _values.texts,
    "oidc_insecure_allow_http": _values.plain,
    "jwks_allow_private_ip": _values.plain,
    "jwks_auth_token_file": _values.path,
    "remote_auth": _values.plain,
    "remote_auth_issuer": _values.plain,
    "remote_auth_authorize_url": _values.plain,
    "remote_auth_token_url": _values.plain,
    "remote_auth_client_id": _values.plain,
    "remote_auth_client_metadata_url": _values.plain,
    "remote_auth_client_secret": _values.plain,
    "remote_auth_client_secret_file": _values.path,
    "remote_auth_bearer_token": _values.plain,
    "remote_auth_bearer_token_file": _values.path,
    "remote_auth_scopes": _values.texts,
    "remote_auth_resource": _values.plain,
    "resource_url": _values.plain,
    "remote_auth_callback_port": _values.plain,
    "remote_auth_skip_browser": _values.plain,
    "remote_auth_timeout": _values.duration,
    "remote_forward_headers": _values.pairs(_native.Header, "name", "value"),
    "remote_forward_headers_secret": _values.pairs(_native.HeaderSecret, "name", "secret"),
    "token_exchange_url": _values.plain,
    "token_exchange_audience": _values.plain,
    "token_exchange_client_id": _values.plain,
    "token_exchange_client_secret": _values.plain,
    "token_exchange_client_secret_file": _values.path,
    "token_exchange_scopes": _values.texts,
    "token_exchange_subject_token_type": _values.choice(_native.SubjectTokenType),
    "token_exchange_header_name": _values.plain,
    "otel_endpoint": _values.plain,
    "otel_insecure": _values.plain,
    "otel_headers": _values.pairs(_native.Header, "name", "value"),
    "otel_service_name": _values.plain,
    "otel_custom_attributes": _values.attributes,
    "otel_env_vars": _values.texts,
    "otel_tracing_enabled": _values.plain,
    "otel_metrics_enabled": _values.plain,
    "otel_sampling_rate": _values.plain,
    "otel_enable_prometheus_metrics_path": _values.plain,
    "otel_use_legacy_attributes": _values.plain,
    "otel_prometheus_port": _values.plain,
    "otel_protocol": _values.choice(_native.OtlpProtocol),
}


def workload_options(server: str | None, options: Mapping[str, Any]) -> _native.WorkloadOptions:
    """Returns the options of a workload."""
    all_options: dict[str, Any] = {"server": server, **options}
    record: _native.WorkloadOptions = _values.record(_native.WorkloadOptions, WORKLOAD, all_options)
    return record


def proxy_options(
    server_name: str | None, target_uri: str | None, options: Mapping[str, Any]
) -> _native.ProxyOptions:
    """Returns the options of a proxy."""
    all_options: dict[str, Any] = {"server_name": server_name, "target_uri": target_uri, **options}
    record: _native.ProxyOptions = _values.record(_native.ProxyOptions, PROXY, all_options)
    return record
