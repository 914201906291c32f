
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'mcpm' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'mcpm'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'mcpm' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run an MCP server as a managed workload')
            [CompletionResult]::new('proxy', 'proxy', [CompletionResultType]::ParameterValue, 'Start a transparent HTTP proxy in front of an MCP server')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List workloads and their status')
            [CompletionResult]::new('ls', 'ls', [CompletionResultType]::ParameterValue, 'List workloads and their status')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show one workload in detail')
            [CompletionResult]::new('stop', 'stop', [CompletionResultType]::ParameterValue, 'Stop workloads')
            [CompletionResult]::new('start', 'start', [CompletionResultType]::ParameterValue, 'Start stopped workloads')
            [CompletionResult]::new('restart', 'restart', [CompletionResultType]::ParameterValue, 'Restart workloads')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Stop workloads and remove their containers and records')
            [CompletionResult]::new('logs', 'logs', [CompletionResultType]::ParameterValue, 'Show the output of a server')
            [CompletionResult]::new('explain', 'explain', [CompletionResultType]::ParameterValue, 'Explain why a request was denied')
            [CompletionResult]::new('export', 'export', [CompletionResultType]::ParameterValue, 'Export a workload''s configuration, without secrets')
            [CompletionResult]::new('group', 'group', [CompletionResultType]::ParameterValue, 'Manage groups of workloads')
            [CompletionResult]::new('ignore', 'ignore', [CompletionResultType]::ParameterValue, 'Manage ignore files')
            [CompletionResult]::new('secret', 'secret', [CompletionResultType]::ParameterValue, 'Manage secrets for servers')
            [CompletionResult]::new('registry', 'registry', [CompletionResultType]::ParameterValue, 'List and search the servers of a registry')
            [CompletionResult]::new('completion', 'completion', [CompletionResultType]::ParameterValue, 'Print the completion script of a shell')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Print the manual page, or write one page per command')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mcpm;run' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--name', '--name', [CompletionResultType]::ParameterName, 'Name of the MCP server [default: generated from the image]')
            [CompletionResult]::new('--group', '--group', [CompletionResultType]::ParameterName, 'Group the workload belongs to [default: default]')
            [CompletionResult]::new('-l', '-l', [CompletionResultType]::ParameterName, 'Label to add to the container')
            [CompletionResult]::new('--label', '--label', [CompletionResultType]::ParameterName, 'Label to add to the container')
            [CompletionResult]::new('--transport', '--transport', [CompletionResultType]::ParameterName, 'Transport mode of the server [default: from the registry entry, otherwise detected]')
            [CompletionResult]::new('--proxy-mode', '--proxy-mode', [CompletionResultType]::ParameterName, 'Proxy mode of a stdio server; `sse` is deprecated and will be removed [default: streamable-http]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'IP or hostname the HTTP proxy listens on [default: 127.0.0.1]')
            [CompletionResult]::new('--proxy-port', '--proxy-port', [CompletionResultType]::ParameterName, 'Host port the HTTP proxy listens on; 0 picks a free one [default: a free port]')
            [CompletionResult]::new('--target-host', '--target-host', [CompletionResultType]::ParameterName, 'Host that traffic is forwarded to, for the transports `sse` and `streamable-http` [default: 127.0.0.1]')
            [CompletionResult]::new('--target-port', '--target-port', [CompletionResultType]::ParameterName, 'Port the container exposes, for the transports `sse` and `streamable-http` [default: the port the image exposes]')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Publish a container port on the host')
            [CompletionResult]::new('--publish', '--publish', [CompletionResultType]::ParameterName, 'Publish a container port on the host')
            [CompletionResult]::new('--network', '--network', [CompletionResultType]::ParameterName, 'Network mode of the container: `host`, `bridge`, or a network by name [default: bridge]')
            [CompletionResult]::new('--isolate-network', '--isolate-network', [CompletionResultType]::ParameterName, 'Isolate the container network from the host [default: false]')
            [CompletionResult]::new('--allow-runtime-gateway', '--allow-runtime-gateway', [CompletionResultType]::ParameterName, 'Let an isolated container connect to the container runtime''s gateway addresses [default: false]')
            [CompletionResult]::new('-e', '-e', [CompletionResultType]::ParameterName, 'Environment variable for the server')
            [CompletionResult]::new('--env', '--env', [CompletionResultType]::ParameterName, 'Environment variable for the server')
            [CompletionResult]::new('--env-file', '--env-file', [CompletionResultType]::ParameterName, 'Load environment variables from a file')
            [CompletionResult]::new('--env-file-dir', '--env-file-dir', [CompletionResultType]::ParameterName, 'Load environment variables from all files in a folder')
            [CompletionResult]::new('--secret', '--secret', [CompletionResultType]::ParameterName, 'Secret fetched from the secrets manager and set as an environment variable')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Mount a host file or folder into the container')
            [CompletionResult]::new('--volume', '--volume', [CompletionResultType]::ParameterName, 'Mount a host file or folder into the container')
            [CompletionResult]::new('--permission-profile', '--permission-profile', [CompletionResultType]::ParameterName, 'Permissions of the container [default: from the registry entry, otherwise `network`]')
            [CompletionResult]::new('--learn', '--learn', [CompletionResultType]::ParameterName, 'Write a permission profile that allows exactly what the server connects to')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Run in the foreground until the container exits [default: false]')
            [CompletionResult]::new('--foreground', '--foreground', [CompletionResultType]::ParameterName, 'Run in the foreground until the container exits [default: false]')
            [CompletionResult]::new('--from-config', '--from-config', [CompletionResultType]::ParameterName, 'Load the configuration from an exported file')
            [CompletionResult]::new('--ignore-globally', '--ignore-globally', [CompletionResultType]::ParameterName, 'Load global ignore patterns from `~/.config/mcpm/mcpmignore` [default: true]')
            [CompletionResult]::new('--print-resolved-overlays', '--print-resolved-overlays', [CompletionResultType]::ParameterName, 'Print the container paths that overlays of ignored files and folders resolve to [default: false]')
            [CompletionResult]::new('--image-verification', '--image-verification', [CompletionResultType]::ParameterName, 'Image verification mode [default: warn]')
            [CompletionResult]::new('--image-verification-key', '--image-verification-key', [CompletionResultType]::ParameterName, 'PEM file with the public key that must have signed the image')
            [CompletionResult]::new('--certificate-identity', '--certificate-identity', [CompletionResultType]::ParameterName, 'Required identity in the signer''s certificate: an email address or a URI [default: from the registry entry]')
            [CompletionResult]::new('--certificate-oidc-issuer', '--certificate-oidc-issuer', [CompletionResultType]::ParameterName, 'Required OIDC issuer of the certificate identity [default: from the registry entry]')
            [CompletionResult]::new('--sigstore-trusted-root', '--sigstore-trusted-root', [CompletionResultType]::ParameterName, 'Sigstore `trusted_root.json` with the trusted certificate authorities and logs [default: Sigstore''s public instance]')
            [CompletionResult]::new('--ca-cert', '--ca-cert', [CompletionResultType]::ParameterName, 'Custom CA certificate file used for container builds')
            [CompletionResult]::new('--mcpm-ca-bundle', '--mcpm-ca-bundle', [CompletionResultType]::ParameterName, 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)')
            [CompletionResult]::new('--runtime-image', '--runtime-image', [CompletionResultType]::ParameterName, 'Base image for protocol schemes')
            [CompletionResult]::new('--runtime-add-package', '--runtime-add-package', [CompletionResultType]::ParameterName, 'Extra package to install in the builder and runtime stages')
            [CompletionResult]::new('--endpoint-prefix', '--endpoint-prefix', [CompletionResultType]::ParameterName, 'Path prefix prepended to SSE endpoint URLs')
            [CompletionResult]::new('--trust-proxy-headers', '--trust-proxy-headers', [CompletionResultType]::ParameterName, 'Trust `X-Forwarded-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies [default: false]')
            [CompletionResult]::new('--tools', '--tools', [CompletionResultType]::ParameterName, 'Tools to expose to clients; all others are hidden')
            [CompletionResult]::new('--tools-override', '--tools-override', [CompletionResultType]::ParameterName, 'JSON file that overrides tool names and descriptions')
            [CompletionResult]::new('--authz-config', '--authz-config', [CompletionResultType]::ParameterName, 'Authorization configuration file')
            [CompletionResult]::new('--audit-config', '--audit-config', [CompletionResultType]::ParameterName, 'Audit configuration file')
            [CompletionResult]::new('--enable-audit', '--enable-audit', [CompletionResultType]::ParameterName, 'Enable audit logging with the default configuration [default: false]')
            [CompletionResult]::new('--runtime', '--runtime', [CompletionResultType]::ParameterName, 'Container engine to run on [default: auto]')
            [CompletionResult]::new('--package-command', '--package-command', [CompletionResultType]::ParameterName, 'Command of the package that starts the server, if the package has several')
            [CompletionResult]::new('--rebuild', '--rebuild', [CompletionResultType]::ParameterName, 'Rebuild the package''s image with the newest version that its name refers to [default: false]')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Do not access the network to get the image; it must be present locally [default: false]')
            [CompletionResult]::new('--allowed-origins', '--allowed-origins', [CompletionResultType]::ParameterName, 'Additional origins of web pages that may call the proxy')
            [CompletionResult]::new('--allowed-hosts', '--allowed-hosts', [CompletionResultType]::ParameterName, 'Additional hostnames that clients may use to reach the proxy')
            [CompletionResult]::new('--registry', '--registry', [CompletionResultType]::ParameterName, 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: from the configuration, otherwise `embedded`]')
            [CompletionResult]::new('--oidc-issuer', '--oidc-issuer', [CompletionResultType]::ParameterName, 'OIDC issuer URL')
            [CompletionResult]::new('--oidc-audience', '--oidc-audience', [CompletionResultType]::ParameterName, 'Expected audience of the token [default: the resource URL, otherwise the URL of the proxy]')
            [CompletionResult]::new('--oidc-client-id', '--oidc-client-id', [CompletionResultType]::ParameterName, 'OIDC client ID')
            [CompletionResult]::new('--oidc-client-secret', '--oidc-client-secret', [CompletionResultType]::ParameterName, 'OIDC client secret, for introspection [env: MCPM_OIDC_CLIENT_SECRET]')
            [CompletionResult]::new('--oidc-introspection-url', '--oidc-introspection-url', [CompletionResultType]::ParameterName, 'Token introspection endpoint URL [default: from the issuer''s metadata, with a client secret]')
            [CompletionResult]::new('--oidc-jwks-url', '--oidc-jwks-url', [CompletionResultType]::ParameterName, 'URL to fetch the JWKS from [default: from the issuer''s metadata]')
            [CompletionResult]::new('--oidc-scopes', '--oidc-scopes', [CompletionResultType]::ParameterName, 'OAuth scopes advertised in the well-known endpoint (RFC 9728) [default: openid]')
            [CompletionResult]::new('--oidc-required-scopes', '--oidc-required-scopes', [CompletionResultType]::ParameterName, 'OAuth scopes that a token must have')
            [CompletionResult]::new('--oidc-insecure-allow-http', '--oidc-insecure-allow-http', [CompletionResultType]::ParameterName, 'Allow OIDC issuers without HTTPS, for local development and testing (insecure) [default: false]')
            [CompletionResult]::new('--jwks-allow-private-ip', '--jwks-allow-private-ip', [CompletionResultType]::ParameterName, 'Allow JWKS and OIDC endpoints on private IP addresses [default: false]')
            [CompletionResult]::new('--jwks-auth-token-file', '--jwks-auth-token-file', [CompletionResultType]::ParameterName, 'File with a bearer token that authenticates JWKS and OIDC requests')
            [CompletionResult]::new('--remote-auth', '--remote-auth', [CompletionResultType]::ParameterName, 'Enable OAuth/OIDC authentication to the remote server [default: false] [not supported yet]')
            [CompletionResult]::new('--remote-auth-issuer', '--remote-auth-issuer', [CompletionResultType]::ParameterName, 'OAuth/OIDC issuer URL [not supported yet]')
            [CompletionResult]::new('--remote-auth-authorize-url', '--remote-auth-authorize-url', [CompletionResultType]::ParameterName, 'Authorization endpoint, instead of the issuer, for OAuth without OIDC [not supported yet]')
            [CompletionResult]::new('--remote-auth-token-url', '--remote-auth-token-url', [CompletionResultType]::ParameterName, 'Token endpoint, instead of the issuer, for OAuth without OIDC [not supported yet]')
            [CompletionResult]::new('--remote-auth-client-id', '--remote-auth-client-id', [CompletionResultType]::ParameterName, 'OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591) [not supported yet]')
            [CompletionResult]::new('--remote-auth-client-secret', '--remote-auth-client-secret', [CompletionResultType]::ParameterName, 'OAuth client secret; not needed with dynamic client registration or PKCE [env: MCPM_REMOTE_OAUTH_CLIENT_SECRET] [not supported yet]')
            [CompletionResult]::new('--remote-auth-client-secret-file', '--remote-auth-client-secret-file', [CompletionResultType]::ParameterName, 'File with the OAuth client secret [not supported yet]')
            [CompletionResult]::new('--remote-auth-bearer-token', '--remote-auth-bearer-token', [CompletionResultType]::ParameterName, 'Bearer token for the remote server, instead of OAuth [not supported yet]')
            [CompletionResult]::new('--remote-auth-bearer-token-file', '--remote-auth-bearer-token-file', [CompletionResultType]::ParameterName, 'File with the bearer token for the remote server [not supported yet]')
            [CompletionResult]::new('--remote-auth-scopes', '--remote-auth-scopes', [CompletionResultType]::ParameterName, 'Scopes to request [default: `openid,profile,email` with OIDC] [not supported yet]')
            [CompletionResult]::new('--remote-auth-resource', '--remote-auth-resource', [CompletionResultType]::ParameterName, 'OAuth 2.0 resource indicator (RFC 8707) [not supported yet]')
            [CompletionResult]::new('--resource-url', '--resource-url', [CompletionResultType]::ParameterName, 'Explicit resource URL for the OAuth discovery endpoint (RFC 9728) [default: the URL the proxy listens on]')
            [CompletionResult]::new('--remote-auth-callback-port', '--remote-auth-callback-port', [CompletionResultType]::ParameterName, 'Port of the local OAuth callback server [default: 8666] [not supported yet]')
            [CompletionResult]::new('--remote-auth-skip-browser', '--remote-auth-skip-browser', [CompletionResultType]::ParameterName, 'Do not open a browser for the OAuth flow [default: false] [not supported yet]')
            [CompletionResult]::new('--remote-auth-timeout', '--remote-auth-timeout', [CompletionResultType]::ParameterName, 'Timeout of the OAuth flow, such as `30s` or `1m30s` [default: 30s] [not supported yet]')
            [CompletionResult]::new('--remote-forward-headers', '--remote-forward-headers', [CompletionResultType]::ParameterName, 'Header added to requests to the remote server [not supported yet]')
            [CompletionResult]::new('--remote-forward-headers-secret', '--remote-forward-headers-secret', [CompletionResultType]::ParameterName, 'Header added to requests to the remote server, with its value from the secrets manager [not supported yet]')
            [CompletionResult]::new('--token-exchange-url', '--token-exchange-url', [CompletionResultType]::ParameterName, 'OAuth 2.0 token exchange endpoint; enables token exchange')
            [CompletionResult]::new('--token-exchange-audience', '--token-exchange-audience', [CompletionResultType]::ParameterName, 'Target audience of exchanged tokens')
            [CompletionResult]::new('--token-exchange-client-id', '--token-exchange-client-id', [CompletionResultType]::ParameterName, 'Client ID for token exchange')
            [CompletionResult]::new('--token-exchange-client-secret', '--token-exchange-client-secret', [CompletionResultType]::ParameterName, 'Client secret for token exchange [env: MCPM_TOKEN_EXCHANGE_CLIENT_SECRET]')
            [CompletionResult]::new('--token-exchange-client-secret-file', '--token-exchange-client-secret-file', [CompletionResultType]::ParameterName, 'File with the client secret for token exchange')
            [CompletionResult]::new('--token-exchange-scopes', '--token-exchange-scopes', [CompletionResultType]::ParameterName, 'Scopes to request for exchanged tokens')
            [CompletionResult]::new('--token-exchange-subject-token-type', '--token-exchange-subject-token-type', [CompletionResultType]::ParameterName, 'Type of the token that is exchanged [default: access_token]')
            [CompletionResult]::new('--token-exchange-header-name', '--token-exchange-header-name', [CompletionResultType]::ParameterName, 'Header that carries the exchanged token [default: `Authorization`, whose value it replaces]')
            [CompletionResult]::new('--otel-endpoint', '--otel-endpoint', [CompletionResultType]::ParameterName, 'OTLP endpoint URL')
            [CompletionResult]::new('--otel-insecure', '--otel-insecure', [CompletionResultType]::ParameterName, 'Use HTTP instead of HTTPS for the OTLP endpoint [default: false]')
            [CompletionResult]::new('--otel-headers', '--otel-headers', [CompletionResultType]::ParameterName, 'Header to add to OTLP requests')
            [CompletionResult]::new('--otel-service-name', '--otel-service-name', [CompletionResultType]::ParameterName, 'Service name [default: `mcpm-<name>`]')
            [CompletionResult]::new('--otel-custom-attributes', '--otel-custom-attributes', [CompletionResultType]::ParameterName, 'Additional resource attributes')
            [CompletionResult]::new('--otel-env-vars', '--otel-env-vars', [CompletionResultType]::ParameterName, 'Names of environment variables to include in spans')
            [CompletionResult]::new('--otel-tracing-enabled', '--otel-tracing-enabled', [CompletionResultType]::ParameterName, 'Distributed tracing; requires an OTLP endpoint [default: true]')
            [CompletionResult]::new('--otel-metrics-enabled', '--otel-metrics-enabled', [CompletionResultType]::ParameterName, 'OTLP metrics export; requires an OTLP endpoint [default: true]')
            [CompletionResult]::new('--otel-sampling-rate', '--otel-sampling-rate', [CompletionResultType]::ParameterName, 'Trace sampling rate, from 0.0 to 1.0 [default: 0.1]')
            [CompletionResult]::new('--otel-enable-prometheus-metrics-path', '--otel-enable-prometheus-metrics-path', [CompletionResultType]::ParameterName, 'Serve `/metrics` on the main transport port [default: false]')
            [CompletionResult]::new('--otel-use-legacy-attributes', '--otel-use-legacy-attributes', [CompletionResultType]::ParameterName, 'Emit legacy attribute names alongside the new semantic-convention names [default: true]')
            [CompletionResult]::new('--otel-prometheus-port', '--otel-prometheus-port', [CompletionResultType]::ParameterName, 'Loopback port on which `/metrics` is served without a token')
            [CompletionResult]::new('--otel-protocol', '--otel-protocol', [CompletionResultType]::ParameterName, 'OTLP transport [default: http]')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--plan', '--plan', [CompletionResultType]::ParameterName, 'Show what would be started and the origin of each value, without starting it')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;proxy' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--target-uri', '--target-uri', [CompletionResultType]::ParameterName, 'URI of the target MCP server')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'IP or hostname the HTTP proxy listens on [default: 127.0.0.1]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'Host port the proxy listens on; 0 picks a free one [default: a free port]')
            [CompletionResult]::new('--mcpm-ca-bundle', '--mcpm-ca-bundle', [CompletionResultType]::ParameterName, 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)')
            [CompletionResult]::new('--trust-proxy-headers', '--trust-proxy-headers', [CompletionResultType]::ParameterName, 'Trust `X-Forwarded-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies [default: false]')
            [CompletionResult]::new('--tools', '--tools', [CompletionResultType]::ParameterName, 'Tools to expose to clients; all others are hidden')
            [CompletionResult]::new('--tools-override', '--tools-override', [CompletionResultType]::ParameterName, 'JSON file that overrides tool names and descriptions')
            [CompletionResult]::new('--authz-config', '--authz-config', [CompletionResultType]::ParameterName, 'Authorization configuration file')
            [CompletionResult]::new('--audit-config', '--audit-config', [CompletionResultType]::ParameterName, 'Audit configuration file')
            [CompletionResult]::new('--enable-audit', '--enable-audit', [CompletionResultType]::ParameterName, 'Enable audit logging with the default configuration [default: false]')
            [CompletionResult]::new('--allowed-origins', '--allowed-origins', [CompletionResultType]::ParameterName, 'Additional origins of web pages that may call the proxy')
            [CompletionResult]::new('--allowed-hosts', '--allowed-hosts', [CompletionResultType]::ParameterName, 'Additional hostnames that clients may use to reach the proxy')
            [CompletionResult]::new('--oidc-issuer', '--oidc-issuer', [CompletionResultType]::ParameterName, 'OIDC issuer URL')
            [CompletionResult]::new('--oidc-audience', '--oidc-audience', [CompletionResultType]::ParameterName, 'Expected audience of the token [default: the resource URL, otherwise the URL of the proxy]')
            [CompletionResult]::new('--oidc-client-id', '--oidc-client-id', [CompletionResultType]::ParameterName, 'OIDC client ID')
            [CompletionResult]::new('--oidc-client-secret', '--oidc-client-secret', [CompletionResultType]::ParameterName, 'OIDC client secret, for introspection [env: MCPM_OIDC_CLIENT_SECRET]')
            [CompletionResult]::new('--oidc-introspection-url', '--oidc-introspection-url', [CompletionResultType]::ParameterName, 'Token introspection endpoint URL [default: from the issuer''s metadata, with a client secret]')
            [CompletionResult]::new('--oidc-jwks-url', '--oidc-jwks-url', [CompletionResultType]::ParameterName, 'URL to fetch the JWKS from [default: from the issuer''s metadata]')
            [CompletionResult]::new('--oidc-scopes', '--oidc-scopes', [CompletionResultType]::ParameterName, 'OAuth scopes advertised in the well-known endpoint (RFC 9728) [default: openid]')
            [CompletionResult]::new('--oidc-required-scopes', '--oidc-required-scopes', [CompletionResultType]::ParameterName, 'OAuth scopes that a token must have')
            [CompletionResult]::new('--oidc-insecure-allow-http', '--oidc-insecure-allow-http', [CompletionResultType]::ParameterName, 'Allow OIDC issuers without HTTPS, for local development and testing (insecure) [default: false]')
            [CompletionResult]::new('--jwks-allow-private-ip', '--jwks-allow-private-ip', [CompletionResultType]::ParameterName, 'Allow JWKS and OIDC endpoints on private IP addresses [default: false]')
            [CompletionResult]::new('--jwks-auth-token-file', '--jwks-auth-token-file', [CompletionResultType]::ParameterName, 'File with a bearer token that authenticates JWKS and OIDC requests')
            [CompletionResult]::new('--remote-auth', '--remote-auth', [CompletionResultType]::ParameterName, 'Enable OAuth/OIDC authentication to the remote server [default: false] [not supported yet]')
            [CompletionResult]::new('--remote-auth-issuer', '--remote-auth-issuer', [CompletionResultType]::ParameterName, 'OAuth/OIDC issuer URL [not supported yet]')
            [CompletionResult]::new('--remote-auth-authorize-url', '--remote-auth-authorize-url', [CompletionResultType]::ParameterName, 'Authorization endpoint, instead of the issuer, for OAuth without OIDC [not supported yet]')
            [CompletionResult]::new('--remote-auth-token-url', '--remote-auth-token-url', [CompletionResultType]::ParameterName, 'Token endpoint, instead of the issuer, for OAuth without OIDC [not supported yet]')
            [CompletionResult]::new('--remote-auth-client-id', '--remote-auth-client-id', [CompletionResultType]::ParameterName, 'OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591) [not supported yet]')
            [CompletionResult]::new('--remote-auth-client-secret', '--remote-auth-client-secret', [CompletionResultType]::ParameterName, 'OAuth client secret; not needed with dynamic client registration or PKCE [env: MCPM_REMOTE_OAUTH_CLIENT_SECRET] [not supported yet]')
            [CompletionResult]::new('--remote-auth-client-secret-file', '--remote-auth-client-secret-file', [CompletionResultType]::ParameterName, 'File with the OAuth client secret [not supported yet]')
            [CompletionResult]::new('--remote-auth-bearer-token', '--remote-auth-bearer-token', [CompletionResultType]::ParameterName, 'Bearer token for the remote server, instead of OAuth [not supported yet]')
            [CompletionResult]::new('--remote-auth-bearer-token-file', '--remote-auth-bearer-token-file', [CompletionResultType]::ParameterName, 'File with the bearer token for the remote server [not supported yet]')
            [CompletionResult]::new('--remote-auth-scopes', '--remote-auth-scopes', [CompletionResultType]::ParameterName, 'Scopes to request [default: `openid,profile,email` with OIDC] [not supported yet]')
            [CompletionResult]::new('--remote-auth-resource', '--remote-auth-resource', [CompletionResultType]::ParameterName, 'OAuth 2.0 resource indicator (RFC 8707) [not supported yet]')
            [CompletionResult]::new('--resource-url', '--resource-url', [CompletionResultType]::ParameterName, 'Explicit resource URL for the OAuth discovery endpoint (RFC 9728) [default: the URL the proxy listens on]')
            [CompletionResult]::new('--remote-auth-callback-port', '--remote-auth-callback-port', [CompletionResultType]::ParameterName, 'Port of the local OAuth callback server [default: 8666] [not supported yet]')
            [CompletionResult]::new('--remote-auth-skip-browser', '--remote-auth-skip-browser', [CompletionResultType]::ParameterName, 'Do not open a browser for the OAuth flow [default: false] [not supported yet]')
            [CompletionResult]::new('--remote-auth-timeout', '--remote-auth-timeout', [CompletionResultType]::ParameterName, 'Timeout of the OAuth flow, such as `30s` or `1m30s` [default: 30s] [not supported yet]')
            [CompletionResult]::new('--remote-forward-headers', '--remote-forward-headers', [CompletionResultType]::ParameterName, 'Header added to requests to the remote server [not supported yet]')
            [CompletionResult]::new('--remote-forward-headers-secret', '--remote-forward-headers-secret', [CompletionResultType]::ParameterName, 'Header added to requests to the remote server, with its value from the secrets manager [not supported yet]')
            [CompletionResult]::new('--token-exchange-url', '--token-exchange-url', [CompletionResultType]::ParameterName, 'OAuth 2.0 token exchange endpoint; enables token exchange')
            [CompletionResult]::new('--token-exchange-audience', '--token-exchange-audience', [CompletionResultType]::ParameterName, 'Target audience of exchanged tokens')
            [CompletionResult]::new('--token-exchange-client-id', '--token-exchange-client-id', [CompletionResultType]::ParameterName, 'Client ID for token exchange')
            [CompletionResult]::new('--token-exchange-client-secret', '--token-exchange-client-secret', [CompletionResultType]::ParameterName, 'Client secret for token exchange [env: MCPM_TOKEN_EXCHANGE_CLIENT_SECRET]')
            [CompletionResult]::new('--token-exchange-client-secret-file', '--token-exchange-client-secret-file', [CompletionResultType]::ParameterName, 'File with the client secret for token exchange')
            [CompletionResult]::new('--token-exchange-scopes', '--token-exchange-scopes', [CompletionResultType]::ParameterName, 'Scopes to request for exchanged tokens')
            [CompletionResult]::new('--token-exchange-subject-token-type', '--token-exchange-subject-token-type', [CompletionResultType]::ParameterName, 'Type of the token that is exchanged [default: access_token]')
            [CompletionResult]::new('--token-exchange-header-name', '--token-exchange-header-name', [CompletionResultType]::ParameterName, 'Header that carries the exchanged token [default: `Authorization`, whose value it replaces]')
            [CompletionResult]::new('--otel-endpoint', '--otel-endpoint', [CompletionResultType]::ParameterName, 'OTLP endpoint URL')
            [CompletionResult]::new('--otel-insecure', '--otel-insecure', [CompletionResultType]::ParameterName, 'Use HTTP instead of HTTPS for the OTLP endpoint [default: false]')
            [CompletionResult]::new('--otel-headers', '--otel-headers', [CompletionResultType]::ParameterName, 'Header to add to OTLP requests')
            [CompletionResult]::new('--otel-service-name', '--otel-service-name', [CompletionResultType]::ParameterName, 'Service name [default: `mcpm-<name>`]')
            [CompletionResult]::new('--otel-custom-attributes', '--otel-custom-attributes', [CompletionResultType]::ParameterName, 'Additional resource attributes')
            [CompletionResult]::new('--otel-env-vars', '--otel-env-vars', [CompletionResultType]::ParameterName, 'Names of environment variables to include in spans')
            [CompletionResult]::new('--otel-tracing-enabled', '--otel-tracing-enabled', [CompletionResultType]::ParameterName, 'Distributed tracing; requires an OTLP endpoint [default: true]')
            [CompletionResult]::new('--otel-metrics-enabled', '--otel-metrics-enabled', [CompletionResultType]::ParameterName, 'OTLP metrics export; requires an OTLP endpoint [default: true]')
            [CompletionResult]::new('--otel-sampling-rate', '--otel-sampling-rate', [CompletionResultType]::ParameterName, 'Trace sampling rate, from 0.0 to 1.0 [default: 0.1]')
            [CompletionResult]::new('--otel-enable-prometheus-metrics-path', '--otel-enable-prometheus-metrics-path', [CompletionResultType]::ParameterName, 'Serve `/metrics` on the main transport port [default: false]')
            [CompletionResult]::new('--otel-use-legacy-attributes', '--otel-use-legacy-attributes', [CompletionResultType]::ParameterName, 'Emit legacy attribute names alongside the new semantic-convention names [default: true]')
            [CompletionResult]::new('--otel-prometheus-port', '--otel-prometheus-port', [CompletionResultType]::ParameterName, 'Loopback port on which `/metrics` is served without a token')
            [CompletionResult]::new('--otel-protocol', '--otel-protocol', [CompletionResultType]::ParameterName, 'OTLP transport [default: http]')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('stdio', 'stdio', [CompletionResultType]::ParameterValue, 'Serve a workload or a URL on standard input and output')
            [CompletionResult]::new('tunnel', 'tunnel', [CompletionResultType]::ParameterValue, 'Make a workload or a URL reachable through a tunnel')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mcpm;proxy;stdio' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--transport', '--transport', [CompletionResultType]::ParameterName, 'Transport of the server; `sse` is deprecated [default: that of the workload, otherwise `streamable-http`]')
            [CompletionResult]::new('--remote-forward-headers', '--remote-forward-headers', [CompletionResultType]::ParameterName, 'Header added to requests to the server')
            [CompletionResult]::new('--remote-forward-headers-secret', '--remote-forward-headers-secret', [CompletionResultType]::ParameterName, 'Header added to requests to the server, with its value from the secrets manager')
            [CompletionResult]::new('--mcpm-ca-bundle', '--mcpm-ca-bundle', [CompletionResultType]::ParameterName, 'CA certificate bundle that is trusted in addition to the system''s')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;proxy;tunnel' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--tunnel-provider', '--tunnel-provider', [CompletionResultType]::ParameterName, 'What holds the tunnel: OpenSSH''s client, ngrok''s agent, or any command')
            [CompletionResult]::new('--provider-args', '--provider-args', [CompletionResultType]::ParameterName, 'Arguments of the provider, a JSON object')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--allow-unauthenticated', '--allow-unauthenticated', [CompletionResultType]::ParameterName, 'Also make a target reachable that anyone can use without authentication')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;proxy;help' {
            [CompletionResult]::new('stdio', 'stdio', [CompletionResultType]::ParameterValue, 'Serve a workload or a URL on standard input and output')
            [CompletionResult]::new('tunnel', 'tunnel', [CompletionResultType]::ParameterValue, 'Make a workload or a URL reachable through a tunnel')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mcpm;proxy;help;stdio' {
            break
        }
        'mcpm;proxy;help;tunnel' {
            break
        }
        'mcpm;proxy;help;help' {
            break
        }
        'mcpm;list' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--group', '--group', [CompletionResultType]::ParameterName, 'Only workloads of this group')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;ls' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--group', '--group', [CompletionResultType]::ParameterName, 'Only workloads of this group')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;status' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;stop' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--group', '--group', [CompletionResultType]::ParameterName, 'All workloads of a group')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Seconds to wait before the server is killed [default: 10]')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'All workloads')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;start' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--group', '--group', [CompletionResultType]::ParameterName, 'All workloads of a group')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'All workloads')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Run in the foreground until the container exits; for one workload')
            [CompletionResult]::new('--foreground', '--foreground', [CompletionResultType]::ParameterName, 'Run in the foreground until the container exits; for one workload')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;restart' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--group', '--group', [CompletionResultType]::ParameterName, 'All workloads of a group')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Seconds to wait before the server is killed [default: 10]')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'All workloads')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Run in the foreground until the container exits; for one workload')
            [CompletionResult]::new('--foreground', '--foreground', [CompletionResultType]::ParameterName, 'Run in the foreground until the container exits; for one workload')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;rm' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--group', '--group', [CompletionResultType]::ParameterName, 'All workloads of a group')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Seconds to wait before the server is killed [default: 10]')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'All workloads')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;logs' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--tail', '--tail', [CompletionResultType]::ParameterName, 'Number of lines to show from the end')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Follow until the server exits')
            [CompletionResult]::new('--follow', '--follow', [CompletionResultType]::ParameterName, 'Follow until the server exits')
            [CompletionResult]::new('--proxy', '--proxy', [CompletionResultType]::ParameterName, 'Show the log of the workload''s proxy instead')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;explain' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;export' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;group' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Create a group')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List groups')
            [CompletionResult]::new('ls', 'ls', [CompletionResultType]::ParameterValue, 'List groups')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Remove a group')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mcpm;group;create' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;group;list' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;group;ls' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;group;rm' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--with-workloads', '--with-workloads', [CompletionResultType]::ParameterName, 'Also remove its workloads; otherwise only an empty group is removed')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;group;help' {
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Create a group')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List groups')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Remove a group')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mcpm;group;help;create' {
            break
        }
        'mcpm;group;help;list' {
            break
        }
        'mcpm;group;help;rm' {
            break
        }
        'mcpm;group;help;help' {
            break
        }
        'mcpm;ignore' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('accept', 'accept', [CompletionResultType]::ParameterValue, 'Accept the current ignore files of a folder, and list those that changed')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mcpm;ignore;accept' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;ignore;help' {
            [CompletionResult]::new('accept', 'accept', [CompletionResultType]::ParameterValue, 'Accept the current ignore files of a folder, and list those that changed')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mcpm;ignore;help;accept' {
            break
        }
        'mcpm;ignore;help;help' {
            break
        }
        'mcpm;secret' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('set', 'set', [CompletionResultType]::ParameterValue, 'Store a secret, read from stdin or prompted for')
            [CompletionResult]::new('get', 'get', [CompletionResultType]::ParameterValue, 'Print a secret')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List the names of the secrets, and the sources of their values')
            [CompletionResult]::new('ls', 'ls', [CompletionResultType]::ParameterValue, 'List the names of the secrets, and the sources of their values')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Remove secrets')
            [CompletionResult]::new('provider', 'provider', [CompletionResultType]::ParameterValue, 'Show or select the secret store')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mcpm;secret;set' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;secret;get' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;secret;list' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;secret;ls' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;secret;rm' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;secret;provider' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--password-in-keyring', '--password-in-keyring', [CompletionResultType]::ParameterName, 'For `encrypted`: save the password in the keyring after it was entered')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;secret;help' {
            [CompletionResult]::new('set', 'set', [CompletionResultType]::ParameterValue, 'Store a secret, read from stdin or prompted for')
            [CompletionResult]::new('get', 'get', [CompletionResultType]::ParameterValue, 'Print a secret')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List the names of the secrets, and the sources of their values')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Remove secrets')
            [CompletionResult]::new('provider', 'provider', [CompletionResultType]::ParameterValue, 'Show or select the secret store')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mcpm;secret;help;set' {
            break
        }
        'mcpm;secret;help;get' {
            break
        }
        'mcpm;secret;help;list' {
            break
        }
        'mcpm;secret;help;rm' {
            break
        }
        'mcpm;secret;help;provider' {
            break
        }
        'mcpm;secret;help;help' {
            break
        }
        'mcpm;registry' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List all servers')
            [CompletionResult]::new('ls', 'ls', [CompletionResultType]::ParameterValue, 'List all servers')
            [CompletionResult]::new('search', 'search', [CompletionResultType]::ParameterValue, 'List the servers whose name, description or tags contain all words')
            [CompletionResult]::new('info', 'info', [CompletionResultType]::ParameterValue, 'Show one server in detail')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mcpm;registry;list' {
            [CompletionResult]::new('--registry', '--registry', [CompletionResultType]::ParameterName, 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: from the configuration, otherwise `embedded`]')
            [CompletionResult]::new('--mcpm-ca-bundle', '--mcpm-ca-bundle', [CompletionResultType]::ParameterName, 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;registry;ls' {
            [CompletionResult]::new('--registry', '--registry', [CompletionResultType]::ParameterName, 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: from the configuration, otherwise `embedded`]')
            [CompletionResult]::new('--mcpm-ca-bundle', '--mcpm-ca-bundle', [CompletionResultType]::ParameterName, 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;registry;search' {
            [CompletionResult]::new('--registry', '--registry', [CompletionResultType]::ParameterName, 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: from the configuration, otherwise `embedded`]')
            [CompletionResult]::new('--mcpm-ca-bundle', '--mcpm-ca-bundle', [CompletionResultType]::ParameterName, 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;registry;info' {
            [CompletionResult]::new('--registry', '--registry', [CompletionResultType]::ParameterName, 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: from the configuration, otherwise `embedded`]')
            [CompletionResult]::new('--mcpm-ca-bundle', '--mcpm-ca-bundle', [CompletionResultType]::ParameterName, 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;registry;help' {
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List all servers')
            [CompletionResult]::new('search', 'search', [CompletionResultType]::ParameterValue, 'List the servers whose name, description or tags contain all words')
            [CompletionResult]::new('info', 'info', [CompletionResultType]::ParameterValue, 'Show one server in detail')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mcpm;registry;help;list' {
            break
        }
        'mcpm;registry;help;search' {
            break
        }
        'mcpm;registry;help;info' {
            break
        }
        'mcpm;registry;help;help' {
            break
        }
        'mcpm;completion' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;man' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;help' {
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run an MCP server as a managed workload')
            [CompletionResult]::new('proxy', 'proxy', [CompletionResultType]::ParameterValue, 'Start a transparent HTTP proxy in front of an MCP server')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List workloads and their status')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show one workload in detail')
            [CompletionResult]::new('stop', 'stop', [CompletionResultType]::ParameterValue, 'Stop workloads')
            [CompletionResult]::new('start', 'start', [CompletionResultType]::ParameterValue, 'Start stopped workloads')
            [CompletionResult]::new('restart', 'restart', [CompletionResultType]::ParameterValue, 'Restart workloads')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Stop workloads and remove their containers and records')
            [CompletionResult]::new('logs', 'logs', [CompletionResultType]::ParameterValue, 'Show the output of a server')
            [CompletionResult]::new('explain', 'explain', [CompletionResultType]::ParameterValue, 'Explain why a request was denied')
            [CompletionResult]::new('export', 'export', [CompletionResultType]::ParameterValue, 'Export a workload''s configuration, without secrets')
            [CompletionResult]::new('group', 'group', [CompletionResultType]::ParameterValue, 'Manage groups of workloads')
            [CompletionResult]::new('ignore', 'ignore', [CompletionResultType]::ParameterValue, 'Manage ignore files')
            [CompletionResult]::new('secret', 'secret', [CompletionResultType]::ParameterValue, 'Manage secrets for servers')
            [CompletionResult]::new('registry', 'registry', [CompletionResultType]::ParameterValue, 'List and search the servers of a registry')
            [CompletionResult]::new('completion', 'completion', [CompletionResultType]::ParameterValue, 'Print the completion script of a shell')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Print the manual page, or write one page per command')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mcpm;help;run' {
            break
        }
        'mcpm;help;proxy' {
            [CompletionResult]::new('stdio', 'stdio', [CompletionResultType]::ParameterValue, 'Serve a workload or a URL on standard input and output')
            [CompletionResult]::new('tunnel', 'tunnel', [CompletionResultType]::ParameterValue, 'Make a workload or a URL reachable through a tunnel')
            break
        }
        'mcpm;help;proxy;stdio' {
            break
        }
        'mcpm;help;proxy;tunnel' {
            break
        }
        'mcpm;help;list' {
            break
        }
        'mcpm;help;status' {
            break
        }
        'mcpm;help;stop' {
            break
        }
        'mcpm;help;start' {
            break
        }
        'mcpm;help;restart' {
            break
        }
        'mcpm;help;rm' {
            break
        }
        'mcpm;help;logs' {
            break
        }
        'mcpm;help;explain' {
            break
        }
        'mcpm;help;export' {
            break
        }
        'mcpm;help;group' {
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Create a group')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List groups')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Remove a group')
            break
        }
        'mcpm;help;group;create' {
            break
        }
        'mcpm;help;group;list' {
            break
        }
        'mcpm;help;group;rm' {
            break
        }
        'mcpm;help;ignore' {
            [CompletionResult]::new('accept', 'accept', [CompletionResultType]::ParameterValue, 'Accept the current ignore files of a folder, and list those that changed')
            break
        }
        'mcpm;help;ignore;accept' {
            break
        }
        'mcpm;help;secret' {
            [CompletionResult]::new('set', 'set', [CompletionResultType]::ParameterValue, 'Store a secret, read from stdin or prompted for')
            [CompletionResult]::new('get', 'get', [CompletionResultType]::ParameterValue, 'Print a secret')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List the names of the secrets, and the sources of their values')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Remove secrets')
            [CompletionResult]::new('provider', 'provider', [CompletionResultType]::ParameterValue, 'Show or select the secret store')
            break
        }
        'mcpm;help;secret;set' {
            break
        }
        'mcpm;help;secret;get' {
            break
        }
        'mcpm;help;secret;list' {
            break
        }
        'mcpm;help;secret;rm' {
            break
        }
        'mcpm;help;secret;provider' {
            break
        }
        'mcpm;help;registry' {
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List all servers')
            [CompletionResult]::new('search', 'search', [CompletionResultType]::ParameterValue, 'List the servers whose name, description or tags contain all words')
            [CompletionResult]::new('info', 'info', [CompletionResultType]::ParameterValue, 'Show one server in detail')
            break
        }
        'mcpm;help;registry;list' {
            break
        }
        'mcpm;help;registry;search' {
            break
        }
        'mcpm;help;registry;info' {
            break
        }
        'mcpm;help;completion' {
            break
        }
        'mcpm;help;man' {
            break
        }
        'mcpm;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
