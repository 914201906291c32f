
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
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the workloads and how they are')
            [CompletionResult]::new('ls', 'ls', [CompletionResultType]::ParameterValue, 'Show the workloads and how they are')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show how a workload is')
            [CompletionResult]::new('stop', 'stop', [CompletionResultType]::ParameterValue, 'Stop workloads')
            [CompletionResult]::new('start', 'start', [CompletionResultType]::ParameterValue, 'Start workloads that were stopped')
            [CompletionResult]::new('restart', 'restart', [CompletionResultType]::ParameterValue, 'Stop workloads and start them again')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Stop workloads and remove their containers and records')
            [CompletionResult]::new('logs', 'logs', [CompletionResultType]::ParameterValue, 'Show what a server wrote')
            [CompletionResult]::new('explain', 'explain', [CompletionResultType]::ParameterValue, 'Explain why something was refused')
            [CompletionResult]::new('export', 'export', [CompletionResultType]::ParameterValue, 'Export a workload''s configuration; secrets are left out')
            [CompletionResult]::new('group', 'group', [CompletionResultType]::ParameterValue, 'Manage groups of workloads')
            [CompletionResult]::new('ignore', 'ignore', [CompletionResultType]::ParameterValue, 'Manage ignore files')
            [CompletionResult]::new('secret', 'secret', [CompletionResultType]::ParameterValue, 'Manage the secrets that servers get')
            [CompletionResult]::new('registry', 'registry', [CompletionResultType]::ParameterValue, 'Show the servers of a registry')
            [CompletionResult]::new('completion', 'completion', [CompletionResultType]::ParameterValue, 'Print the completion script of a shell')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Print the manual page, or write one page per command')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mcpm;run' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--name', '--name', [CompletionResultType]::ParameterName, 'Name of the MCP server [default: generated from the image]')
            [CompletionResult]::new('--group', '--group', [CompletionResultType]::ParameterName, 'Group the workload belongs to [default: default]')
            [CompletionResult]::new('-l', '-l', [CompletionResultType]::ParameterName, 'Label on the container')
            [CompletionResult]::new('--label', '--label', [CompletionResultType]::ParameterName, 'Label on the container')
            [CompletionResult]::new('--transport', '--transport', [CompletionResultType]::ParameterName, 'Transport mode of the server [default: that of the registry entry, or found out]')
            [CompletionResult]::new('--proxy-mode', '--proxy-mode', [CompletionResultType]::ParameterName, 'Proxy mode of a stdio server; `sse` is deprecated and will be removed [default: streamable-http]')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'IP or hostname the HTTP proxy listens on [default: 127.0.0.1]')
            [CompletionResult]::new('--proxy-port', '--proxy-port', [CompletionResultType]::ParameterName, 'Port of this machine the HTTP proxy listens on; 0 picks a free one [default: a free port]')
            [CompletionResult]::new('--target-host', '--target-host', [CompletionResultType]::ParameterName, 'Host that traffic is forwarded to, for the transports `sse` and `streamable-http` [default: 127.0.0.1]')
            [CompletionResult]::new('--target-port', '--target-port', [CompletionResultType]::ParameterName, 'Port the container exposes, for the transports `sse` and `streamable-http` [default: the port the image exposes]')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Publish a container port on this machine')
            [CompletionResult]::new('--publish', '--publish', [CompletionResultType]::ParameterName, 'Publish a container port on this machine')
            [CompletionResult]::new('--network', '--network', [CompletionResultType]::ParameterName, 'Network mode of the container: `host`, `bridge`, or a network by name [default: bridge]')
            [CompletionResult]::new('--isolate-network', '--isolate-network', [CompletionResultType]::ParameterName, 'Isolate the container network from the host [default: false]')
            [CompletionResult]::new('--allow-runtime-gateway', '--allow-runtime-gateway', [CompletionResultType]::ParameterName, 'Let an isolated container connect to the container runtime''s gateway addresses [default: false]')
            [CompletionResult]::new('-e', '-e', [CompletionResultType]::ParameterName, 'Environment variable for the server')
            [CompletionResult]::new('--env', '--env', [CompletionResultType]::ParameterName, 'Environment variable for the server')
            [CompletionResult]::new('--env-file', '--env-file', [CompletionResultType]::ParameterName, 'Load environment variables from a file')
            [CompletionResult]::new('--env-file-dir', '--env-file-dir', [CompletionResultType]::ParameterName, 'Load environment variables from all files in a folder')
            [CompletionResult]::new('--secret', '--secret', [CompletionResultType]::ParameterName, 'Secret fetched from the secrets manager and set as an environment variable')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Mount a file or folder of this machine into the container')
            [CompletionResult]::new('--volume', '--volume', [CompletionResultType]::ParameterName, 'Mount a file or folder of this machine into the container')
            [CompletionResult]::new('--permission-profile', '--permission-profile', [CompletionResultType]::ParameterName, 'Permissions of the container [default: that of the registry entry, else `network`]')
            [CompletionResult]::new('--learn', '--learn', [CompletionResultType]::ParameterName, 'Write a permission profile of what the server connects to, and nothing more, to a file')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Run in the foreground until the container exits [default: false]')
            [CompletionResult]::new('--foreground', '--foreground', [CompletionResultType]::ParameterName, 'Run in the foreground until the container exits [default: false]')
            [CompletionResult]::new('--from-config', '--from-config', [CompletionResultType]::ParameterName, 'Load the configuration from an exported file')
            [CompletionResult]::new('--ignore-globally', '--ignore-globally', [CompletionResultType]::ParameterName, 'Load global ignore patterns from `~/.config/mcpm/mcpmignore` [default: true]')
            [CompletionResult]::new('--print-resolved-overlays', '--print-resolved-overlays', [CompletionResultType]::ParameterName, 'Print the container paths that overlays of ignored files and folders resolve to [default: false]')
            [CompletionResult]::new('--image-verification', '--image-verification', [CompletionResultType]::ParameterName, 'Image verification mode [default: warn]')
            [CompletionResult]::new('--image-verification-key', '--image-verification-key', [CompletionResultType]::ParameterName, 'PEM file with the public key that the image must be signed with')
            [CompletionResult]::new('--certificate-identity', '--certificate-identity', [CompletionResultType]::ParameterName, 'Name in the certificate of who must have signed the image: a mail address or a URI [default: what the registry entry says]')
            [CompletionResult]::new('--certificate-oidc-issuer', '--certificate-oidc-issuer', [CompletionResultType]::ParameterName, 'Issuer that must vouch for the certificate identity [default: what the registry entry says]')
            [CompletionResult]::new('--sigstore-trusted-root', '--sigstore-trusted-root', [CompletionResultType]::ParameterName, 'Sigstore''s `trusted_root.json`, with the certificates and logs that are believed [default: that of Sigstore''s public instance]')
            [CompletionResult]::new('--ca-cert', '--ca-cert', [CompletionResultType]::ParameterName, 'Custom CA certificate file used for container builds')
            [CompletionResult]::new('--mcpm-ca-bundle', '--mcpm-ca-bundle', [CompletionResultType]::ParameterName, 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)')
            [CompletionResult]::new('--runtime-image', '--runtime-image', [CompletionResultType]::ParameterName, 'Base image for protocol schemes')
            [CompletionResult]::new('--runtime-add-package', '--runtime-add-package', [CompletionResultType]::ParameterName, 'Extra package to install in the builder and runtime stages')
            [CompletionResult]::new('--endpoint-prefix', '--endpoint-prefix', [CompletionResultType]::ParameterName, 'Path prefix prepended to SSE endpoint URLs')
            [CompletionResult]::new('--trust-proxy-headers', '--trust-proxy-headers', [CompletionResultType]::ParameterName, 'Trust `X-Forwarded-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies [default: false]')
            [CompletionResult]::new('--tools', '--tools', [CompletionResultType]::ParameterName, 'Tools of the server that are let through, all others are hidden')
            [CompletionResult]::new('--tools-override', '--tools-override', [CompletionResultType]::ParameterName, 'JSON file that overrides tool names and descriptions')
            [CompletionResult]::new('--authz-config', '--authz-config', [CompletionResultType]::ParameterName, 'Authorization configuration file')
            [CompletionResult]::new('--audit-config', '--audit-config', [CompletionResultType]::ParameterName, 'Audit configuration file')
            [CompletionResult]::new('--enable-audit', '--enable-audit', [CompletionResultType]::ParameterName, 'Enable audit logging with the default configuration [default: false]')
            [CompletionResult]::new('--runtime', '--runtime', [CompletionResultType]::ParameterName, 'Container engine to run on [default: auto]')
            [CompletionResult]::new('--package-command', '--package-command', [CompletionResultType]::ParameterName, 'Command of the package that is the server, when the package has several')
            [CompletionResult]::new('--rebuild', '--rebuild', [CompletionResultType]::ParameterName, 'Build the package''s image again, with the newest version that its name stands for [default: false]')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Fetch nothing: the image must be on this machine [default: false]')
            [CompletionResult]::new('--allowed-origins', '--allowed-origins', [CompletionResultType]::ParameterName, 'Origins of browser pages that may call the proxy, beside its own')
            [CompletionResult]::new('--allowed-hosts', '--allowed-hosts', [CompletionResultType]::ParameterName, 'Host names that clients may call the proxy by, beside the one it listens on')
            [CompletionResult]::new('--registry', '--registry', [CompletionResultType]::ParameterName, 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: that of the settings, else `embedded`]')
            [CompletionResult]::new('--oidc-issuer', '--oidc-issuer', [CompletionResultType]::ParameterName, 'OIDC issuer URL')
            [CompletionResult]::new('--oidc-audience', '--oidc-audience', [CompletionResultType]::ParameterName, 'Expected audience of the token [default: the resource URL, else the URL of the proxy]')
            [CompletionResult]::new('--oidc-client-id', '--oidc-client-id', [CompletionResultType]::ParameterName, 'OIDC client ID')
            [CompletionResult]::new('--oidc-client-secret', '--oidc-client-secret', [CompletionResultType]::ParameterName, 'OIDC client secret, for introspection [env: MCPM_OIDC_CLIENT_SECRET]')
            [CompletionResult]::new('--oidc-introspection-url', '--oidc-introspection-url', [CompletionResultType]::ParameterName, 'Token introspection endpoint URL [default: that of the issuer, with a client secret]')
            [CompletionResult]::new('--oidc-jwks-url', '--oidc-jwks-url', [CompletionResultType]::ParameterName, 'URL to fetch the JWKS from [default: that of the issuer]')
            [CompletionResult]::new('--oidc-scopes', '--oidc-scopes', [CompletionResultType]::ParameterName, 'OAuth scopes advertised in the well-known endpoint (RFC 9728) [default: openid]')
            [CompletionResult]::new('--oidc-required-scopes', '--oidc-required-scopes', [CompletionResultType]::ParameterName, 'OAuth scopes that a token must have')
            [CompletionResult]::new('--oidc-insecure-allow-http', '--oidc-insecure-allow-http', [CompletionResultType]::ParameterName, 'Allow OIDC issuers without HTTPS, for local development and testing (insecure) [default: false]')
            [CompletionResult]::new('--jwks-allow-private-ip', '--jwks-allow-private-ip', [CompletionResultType]::ParameterName, 'Allow JWKS and OIDC endpoints on private IP addresses [default: false]')
            [CompletionResult]::new('--jwks-auth-token-file', '--jwks-auth-token-file', [CompletionResultType]::ParameterName, 'File with a bearer token that authenticates JWKS and OIDC requests')
            [CompletionResult]::new('--remote-auth', '--remote-auth', [CompletionResultType]::ParameterName, 'Enable OAuth/OIDC authentication to the remote server [default: false] [not supported yet]')
            [CompletionResult]::new('--remote-auth-issuer', '--remote-auth-issuer', [CompletionResultType]::ParameterName, 'OAuth/OIDC issuer URL [not supported yet]')
            [CompletionResult]::new('--remote-auth-authorize-url', '--remote-auth-authorize-url', [CompletionResultType]::ParameterName, 'Authorization endpoint, in place of the issuer for OAuth without OIDC [not supported yet]')
            [CompletionResult]::new('--remote-auth-token-url', '--remote-auth-token-url', [CompletionResultType]::ParameterName, 'Token endpoint, in place of the issuer for OAuth without OIDC [not supported yet]')
            [CompletionResult]::new('--remote-auth-client-id', '--remote-auth-client-id', [CompletionResultType]::ParameterName, 'OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591) [not supported yet]')
            [CompletionResult]::new('--remote-auth-client-secret', '--remote-auth-client-secret', [CompletionResultType]::ParameterName, 'OAuth client secret; not needed with dynamic client registration or PKCE [env: MCPM_REMOTE_OAUTH_CLIENT_SECRET] [not supported yet]')
            [CompletionResult]::new('--remote-auth-client-secret-file', '--remote-auth-client-secret-file', [CompletionResultType]::ParameterName, 'File with the OAuth client secret [not supported yet]')
            [CompletionResult]::new('--remote-auth-bearer-token', '--remote-auth-bearer-token', [CompletionResultType]::ParameterName, 'Bearer token for the remote server, in place of OAuth [not supported yet]')
            [CompletionResult]::new('--remote-auth-bearer-token-file', '--remote-auth-bearer-token-file', [CompletionResultType]::ParameterName, 'File with the bearer token for the remote server [not supported yet]')
            [CompletionResult]::new('--remote-auth-scopes', '--remote-auth-scopes', [CompletionResultType]::ParameterName, 'Scopes requested [default: `openid,profile,email` with OIDC] [not supported yet]')
            [CompletionResult]::new('--remote-auth-resource', '--remote-auth-resource', [CompletionResultType]::ParameterName, 'OAuth 2.0 resource indicator (RFC 8707) [not supported yet]')
            [CompletionResult]::new('--resource-url', '--resource-url', [CompletionResultType]::ParameterName, 'Explicit resource URL for the OAuth discovery endpoint (RFC 9728) [default: where the proxy listens]')
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
            [CompletionResult]::new('--token-exchange-scopes', '--token-exchange-scopes', [CompletionResultType]::ParameterName, 'Scopes requested for exchanged tokens')
            [CompletionResult]::new('--token-exchange-subject-token-type', '--token-exchange-subject-token-type', [CompletionResultType]::ParameterName, 'Kind of token that is exchanged [default: access_token]')
            [CompletionResult]::new('--token-exchange-header-name', '--token-exchange-header-name', [CompletionResultType]::ParameterName, 'Header that carries the exchanged token [default: it replaces `Authorization`]')
            [CompletionResult]::new('--otel-endpoint', '--otel-endpoint', [CompletionResultType]::ParameterName, 'OTLP endpoint URL')
            [CompletionResult]::new('--otel-insecure', '--otel-insecure', [CompletionResultType]::ParameterName, 'Use HTTP instead of HTTPS for the OTLP endpoint [default: false]')
            [CompletionResult]::new('--otel-headers', '--otel-headers', [CompletionResultType]::ParameterName, 'OTLP header')
            [CompletionResult]::new('--otel-service-name', '--otel-service-name', [CompletionResultType]::ParameterName, 'Service name [default: `mcpm-<name>`]')
            [CompletionResult]::new('--otel-custom-attributes', '--otel-custom-attributes', [CompletionResultType]::ParameterName, 'Custom resource attributes')
            [CompletionResult]::new('--otel-env-vars', '--otel-env-vars', [CompletionResultType]::ParameterName, 'Names of environment variables to include in spans')
            [CompletionResult]::new('--otel-tracing-enabled', '--otel-tracing-enabled', [CompletionResultType]::ParameterName, 'Distributed tracing, effective with an OTLP endpoint [default: true]')
            [CompletionResult]::new('--otel-metrics-enabled', '--otel-metrics-enabled', [CompletionResultType]::ParameterName, 'OTLP metrics export, effective with an OTLP endpoint [default: true]')
            [CompletionResult]::new('--otel-sampling-rate', '--otel-sampling-rate', [CompletionResultType]::ParameterName, 'Trace sampling rate, from 0.0 to 1.0 [default: 0.1]')
            [CompletionResult]::new('--otel-enable-prometheus-metrics-path', '--otel-enable-prometheus-metrics-path', [CompletionResultType]::ParameterName, 'Serve `/metrics` on the main transport port [default: false]')
            [CompletionResult]::new('--otel-use-legacy-attributes', '--otel-use-legacy-attributes', [CompletionResultType]::ParameterName, 'Emit legacy attribute names alongside the new semantic-convention names [default: true]')
            [CompletionResult]::new('--otel-prometheus-port', '--otel-prometheus-port', [CompletionResultType]::ParameterName, 'Port of the loopback address on which `/metrics` is served without a token')
            [CompletionResult]::new('--otel-protocol', '--otel-protocol', [CompletionResultType]::ParameterName, 'How OTLP is spoken [default: http]')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--plan', '--plan', [CompletionResultType]::ParameterName, 'Show what would be started, and where each value comes from, and start nothing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;proxy' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--target-uri', '--target-uri', [CompletionResultType]::ParameterName, 'URI of the target MCP server')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'IP or hostname the HTTP proxy listens on [default: 127.0.0.1]')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'Port of this machine the proxy listens on; 0 picks a free one [default: a free port]')
            [CompletionResult]::new('--mcpm-ca-bundle', '--mcpm-ca-bundle', [CompletionResultType]::ParameterName, 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)')
            [CompletionResult]::new('--trust-proxy-headers', '--trust-proxy-headers', [CompletionResultType]::ParameterName, 'Trust `X-Forwarded-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies [default: false]')
            [CompletionResult]::new('--tools', '--tools', [CompletionResultType]::ParameterName, 'Tools of the server that are let through, all others are hidden')
            [CompletionResult]::new('--tools-override', '--tools-override', [CompletionResultType]::ParameterName, 'JSON file that overrides tool names and descriptions')
            [CompletionResult]::new('--authz-config', '--authz-config', [CompletionResultType]::ParameterName, 'Authorization configuration file')
            [CompletionResult]::new('--audit-config', '--audit-config', [CompletionResultType]::ParameterName, 'Audit configuration file')
            [CompletionResult]::new('--enable-audit', '--enable-audit', [CompletionResultType]::ParameterName, 'Enable audit logging with the default configuration [default: false]')
            [CompletionResult]::new('--allowed-origins', '--allowed-origins', [CompletionResultType]::ParameterName, 'Origins of browser pages that may call the proxy, beside its own')
            [CompletionResult]::new('--allowed-hosts', '--allowed-hosts', [CompletionResultType]::ParameterName, 'Host names that clients may call the proxy by, beside the one it listens on')
            [CompletionResult]::new('--oidc-issuer', '--oidc-issuer', [CompletionResultType]::ParameterName, 'OIDC issuer URL')
            [CompletionResult]::new('--oidc-audience', '--oidc-audience', [CompletionResultType]::ParameterName, 'Expected audience of the token [default: the resource URL, else the URL of the proxy]')
            [CompletionResult]::new('--oidc-client-id', '--oidc-client-id', [CompletionResultType]::ParameterName, 'OIDC client ID')
            [CompletionResult]::new('--oidc-client-secret', '--oidc-client-secret', [CompletionResultType]::ParameterName, 'OIDC client secret, for introspection [env: MCPM_OIDC_CLIENT_SECRET]')
            [CompletionResult]::new('--oidc-introspection-url', '--oidc-introspection-url', [CompletionResultType]::ParameterName, 'Token introspection endpoint URL [default: that of the issuer, with a client secret]')
            [CompletionResult]::new('--oidc-jwks-url', '--oidc-jwks-url', [CompletionResultType]::ParameterName, 'URL to fetch the JWKS from [default: that of the issuer]')
            [CompletionResult]::new('--oidc-scopes', '--oidc-scopes', [CompletionResultType]::ParameterName, 'OAuth scopes advertised in the well-known endpoint (RFC 9728) [default: openid]')
            [CompletionResult]::new('--oidc-required-scopes', '--oidc-required-scopes', [CompletionResultType]::ParameterName, 'OAuth scopes that a token must have')
            [CompletionResult]::new('--oidc-insecure-allow-http', '--oidc-insecure-allow-http', [CompletionResultType]::ParameterName, 'Allow OIDC issuers without HTTPS, for local development and testing (insecure) [default: false]')
            [CompletionResult]::new('--jwks-allow-private-ip', '--jwks-allow-private-ip', [CompletionResultType]::ParameterName, 'Allow JWKS and OIDC endpoints on private IP addresses [default: false]')
            [CompletionResult]::new('--jwks-auth-token-file', '--jwks-auth-token-file', [CompletionResultType]::ParameterName, 'File with a bearer token that authenticates JWKS and OIDC requests')
            [CompletionResult]::new('--remote-auth', '--remote-auth', [CompletionResultType]::ParameterName, 'Enable OAuth/OIDC authentication to the remote server [default: false] [not supported yet]')
            [CompletionResult]::new('--remote-auth-issuer', '--remote-auth-issuer', [CompletionResultType]::ParameterName, 'OAuth/OIDC issuer URL [not supported yet]')
            [CompletionResult]::new('--remote-auth-authorize-url', '--remote-auth-authorize-url', [CompletionResultType]::ParameterName, 'Authorization endpoint, in place of the issuer for OAuth without OIDC [not supported yet]')
            [CompletionResult]::new('--remote-auth-token-url', '--remote-auth-token-url', [CompletionResultType]::ParameterName, 'Token endpoint, in place of the issuer for OAuth without OIDC [not supported yet]')
            [CompletionResult]::new('--remote-auth-client-id', '--remote-auth-client-id', [CompletionResultType]::ParameterName, 'OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591) [not supported yet]')
            [CompletionResult]::new('--remote-auth-client-secret', '--remote-auth-client-secret', [CompletionResultType]::ParameterName, 'OAuth client secret; not needed with dynamic client registration or PKCE [env: MCPM_REMOTE_OAUTH_CLIENT_SECRET] [not supported yet]')
            [CompletionResult]::new('--remote-auth-client-secret-file', '--remote-auth-client-secret-file', [CompletionResultType]::ParameterName, 'File with the OAuth client secret [not supported yet]')
            [CompletionResult]::new('--remote-auth-bearer-token', '--remote-auth-bearer-token', [CompletionResultType]::ParameterName, 'Bearer token for the remote server, in place of OAuth [not supported yet]')
            [CompletionResult]::new('--remote-auth-bearer-token-file', '--remote-auth-bearer-token-file', [CompletionResultType]::ParameterName, 'File with the bearer token for the remote server [not supported yet]')
            [CompletionResult]::new('--remote-auth-scopes', '--remote-auth-scopes', [CompletionResultType]::ParameterName, 'Scopes requested [default: `openid,profile,email` with OIDC] [not supported yet]')
            [CompletionResult]::new('--remote-auth-resource', '--remote-auth-resource', [CompletionResultType]::ParameterName, 'OAuth 2.0 resource indicator (RFC 8707) [not supported yet]')
            [CompletionResult]::new('--resource-url', '--resource-url', [CompletionResultType]::ParameterName, 'Explicit resource URL for the OAuth discovery endpoint (RFC 9728) [default: where the proxy listens]')
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
            [CompletionResult]::new('--token-exchange-scopes', '--token-exchange-scopes', [CompletionResultType]::ParameterName, 'Scopes requested for exchanged tokens')
            [CompletionResult]::new('--token-exchange-subject-token-type', '--token-exchange-subject-token-type', [CompletionResultType]::ParameterName, 'Kind of token that is exchanged [default: access_token]')
            [CompletionResult]::new('--token-exchange-header-name', '--token-exchange-header-name', [CompletionResultType]::ParameterName, 'Header that carries the exchanged token [default: it replaces `Authorization`]')
            [CompletionResult]::new('--otel-endpoint', '--otel-endpoint', [CompletionResultType]::ParameterName, 'OTLP endpoint URL')
            [CompletionResult]::new('--otel-insecure', '--otel-insecure', [CompletionResultType]::ParameterName, 'Use HTTP instead of HTTPS for the OTLP endpoint [default: false]')
            [CompletionResult]::new('--otel-headers', '--otel-headers', [CompletionResultType]::ParameterName, 'OTLP header')
            [CompletionResult]::new('--otel-service-name', '--otel-service-name', [CompletionResultType]::ParameterName, 'Service name [default: `mcpm-<name>`]')
            [CompletionResult]::new('--otel-custom-attributes', '--otel-custom-attributes', [CompletionResultType]::ParameterName, 'Custom resource attributes')
            [CompletionResult]::new('--otel-env-vars', '--otel-env-vars', [CompletionResultType]::ParameterName, 'Names of environment variables to include in spans')
            [CompletionResult]::new('--otel-tracing-enabled', '--otel-tracing-enabled', [CompletionResultType]::ParameterName, 'Distributed tracing, effective with an OTLP endpoint [default: true]')
            [CompletionResult]::new('--otel-metrics-enabled', '--otel-metrics-enabled', [CompletionResultType]::ParameterName, 'OTLP metrics export, effective with an OTLP endpoint [default: true]')
            [CompletionResult]::new('--otel-sampling-rate', '--otel-sampling-rate', [CompletionResultType]::ParameterName, 'Trace sampling rate, from 0.0 to 1.0 [default: 0.1]')
            [CompletionResult]::new('--otel-enable-prometheus-metrics-path', '--otel-enable-prometheus-metrics-path', [CompletionResultType]::ParameterName, 'Serve `/metrics` on the main transport port [default: false]')
            [CompletionResult]::new('--otel-use-legacy-attributes', '--otel-use-legacy-attributes', [CompletionResultType]::ParameterName, 'Emit legacy attribute names alongside the new semantic-convention names [default: true]')
            [CompletionResult]::new('--otel-prometheus-port', '--otel-prometheus-port', [CompletionResultType]::ParameterName, 'Port of the loopback address on which `/metrics` is served without a token')
            [CompletionResult]::new('--otel-protocol', '--otel-protocol', [CompletionResultType]::ParameterName, 'How OTLP is spoken [default: http]')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;list' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--group', '--group', [CompletionResultType]::ParameterName, 'Only those of a group')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;ls' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--group', '--group', [CompletionResultType]::ParameterName, 'Only those of a group')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;status' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;stop' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--group', '--group', [CompletionResultType]::ParameterName, 'All workloads of a group')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'How long a server may take to end by itself [default: 10]')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'All workloads')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;start' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--group', '--group', [CompletionResultType]::ParameterName, 'All workloads of a group')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the result')
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
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'How long a server may take to end by itself [default: 10]')
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
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'How long a server may take to end by itself [default: 10]')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'All workloads')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;logs' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--tail', '--tail', [CompletionResultType]::ParameterName, 'Only that many last lines')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Go on until the server ends')
            [CompletionResult]::new('--follow', '--follow', [CompletionResultType]::ParameterName, 'Go on until the server ends')
            [CompletionResult]::new('--proxy', '--proxy', [CompletionResultType]::ParameterName, 'The log of the workload''s proxy instead')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;explain' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the result')
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
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Make a group')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the groups')
            [CompletionResult]::new('ls', 'ls', [CompletionResultType]::ParameterValue, 'Show the groups')
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
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;group;ls' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;group;rm' {
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('--with-workloads', '--with-workloads', [CompletionResultType]::ParameterName, 'Remove its workloads too; without it, a group that has some stays')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;group;help' {
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Make a group')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the groups')
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
            [CompletionResult]::new('accept', 'accept', [CompletionResultType]::ParameterValue, 'Let the ignore files of a folder count as they are now, and show those that changed')
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
            [CompletionResult]::new('accept', 'accept', [CompletionResultType]::ParameterValue, 'Let the ignore files of a folder count as they are now, and show those that changed')
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
            [CompletionResult]::new('set', 'set', [CompletionResultType]::ParameterValue, 'Keep a value, which is read from standard input, or asked for on a terminal')
            [CompletionResult]::new('get', 'get', [CompletionResultType]::ParameterValue, 'Print a value')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the names of the secrets, and where their values come from')
            [CompletionResult]::new('ls', 'ls', [CompletionResultType]::ParameterValue, 'Show the names of the secrets, and where their values come from')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Forget values')
            [CompletionResult]::new('provider', 'provider', [CompletionResultType]::ParameterValue, 'Show or choose where secrets are kept')
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
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;secret;ls' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the result')
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
            [CompletionResult]::new('--password-in-keyring', '--password-in-keyring', [CompletionResultType]::ParameterName, 'For `encrypted`: let the keyring keep the password, once it was asked for')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;secret;help' {
            [CompletionResult]::new('set', 'set', [CompletionResultType]::ParameterValue, 'Keep a value, which is read from standard input, or asked for on a terminal')
            [CompletionResult]::new('get', 'get', [CompletionResultType]::ParameterValue, 'Print a value')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the names of the secrets, and where their values come from')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Forget values')
            [CompletionResult]::new('provider', 'provider', [CompletionResultType]::ParameterValue, 'Show or choose where secrets are kept')
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
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show all servers')
            [CompletionResult]::new('ls', 'ls', [CompletionResultType]::ParameterValue, 'Show all servers')
            [CompletionResult]::new('search', 'search', [CompletionResultType]::ParameterValue, 'Show the servers that have all words in their names, descriptions or tags')
            [CompletionResult]::new('info', 'info', [CompletionResultType]::ParameterValue, 'Show one server')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mcpm;registry;list' {
            [CompletionResult]::new('--registry', '--registry', [CompletionResultType]::ParameterName, 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: that of the settings, else `embedded`]')
            [CompletionResult]::new('--mcpm-ca-bundle', '--mcpm-ca-bundle', [CompletionResultType]::ParameterName, 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;registry;ls' {
            [CompletionResult]::new('--registry', '--registry', [CompletionResultType]::ParameterName, 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: that of the settings, else `embedded`]')
            [CompletionResult]::new('--mcpm-ca-bundle', '--mcpm-ca-bundle', [CompletionResultType]::ParameterName, 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;registry;search' {
            [CompletionResult]::new('--registry', '--registry', [CompletionResultType]::ParameterName, 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: that of the settings, else `embedded`]')
            [CompletionResult]::new('--mcpm-ca-bundle', '--mcpm-ca-bundle', [CompletionResultType]::ParameterName, 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;registry;info' {
            [CompletionResult]::new('--registry', '--registry', [CompletionResultType]::ParameterName, 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: that of the settings, else `embedded`]')
            [CompletionResult]::new('--mcpm-ca-bundle', '--mcpm-ca-bundle', [CompletionResultType]::ParameterName, 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the result')
            [CompletionResult]::new('--debug', '--debug', [CompletionResultType]::ParameterName, 'Enable debug mode [default: false]')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'mcpm;registry;help' {
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show all servers')
            [CompletionResult]::new('search', 'search', [CompletionResultType]::ParameterValue, 'Show the servers that have all words in their names, descriptions or tags')
            [CompletionResult]::new('info', 'info', [CompletionResultType]::ParameterValue, 'Show one server')
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
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the workloads and how they are')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show how a workload is')
            [CompletionResult]::new('stop', 'stop', [CompletionResultType]::ParameterValue, 'Stop workloads')
            [CompletionResult]::new('start', 'start', [CompletionResultType]::ParameterValue, 'Start workloads that were stopped')
            [CompletionResult]::new('restart', 'restart', [CompletionResultType]::ParameterValue, 'Stop workloads and start them again')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Stop workloads and remove their containers and records')
            [CompletionResult]::new('logs', 'logs', [CompletionResultType]::ParameterValue, 'Show what a server wrote')
            [CompletionResult]::new('explain', 'explain', [CompletionResultType]::ParameterValue, 'Explain why something was refused')
            [CompletionResult]::new('export', 'export', [CompletionResultType]::ParameterValue, 'Export a workload''s configuration; secrets are left out')
            [CompletionResult]::new('group', 'group', [CompletionResultType]::ParameterValue, 'Manage groups of workloads')
            [CompletionResult]::new('ignore', 'ignore', [CompletionResultType]::ParameterValue, 'Manage ignore files')
            [CompletionResult]::new('secret', 'secret', [CompletionResultType]::ParameterValue, 'Manage the secrets that servers get')
            [CompletionResult]::new('registry', 'registry', [CompletionResultType]::ParameterValue, 'Show the servers of a registry')
            [CompletionResult]::new('completion', 'completion', [CompletionResultType]::ParameterValue, 'Print the completion script of a shell')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Print the manual page, or write one page per command')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'mcpm;help;run' {
            break
        }
        'mcpm;help;proxy' {
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
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Make a group')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the groups')
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
            [CompletionResult]::new('accept', 'accept', [CompletionResultType]::ParameterValue, 'Let the ignore files of a folder count as they are now, and show those that changed')
            break
        }
        'mcpm;help;ignore;accept' {
            break
        }
        'mcpm;help;secret' {
            [CompletionResult]::new('set', 'set', [CompletionResultType]::ParameterValue, 'Keep a value, which is read from standard input, or asked for on a terminal')
            [CompletionResult]::new('get', 'get', [CompletionResultType]::ParameterValue, 'Print a value')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show the names of the secrets, and where their values come from')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Forget values')
            [CompletionResult]::new('provider', 'provider', [CompletionResultType]::ParameterValue, 'Show or choose where secrets are kept')
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
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Show all servers')
            [CompletionResult]::new('search', 'search', [CompletionResultType]::ParameterValue, 'Show the servers that have all words in their names, descriptions or tags')
            [CompletionResult]::new('info', 'info', [CompletionResultType]::ParameterValue, 'Show one server')
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
