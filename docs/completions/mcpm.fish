# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_mcpm_global_optspecs
    string join \n debug= h/help V/version
end

function __fish_mcpm_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_mcpm_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_mcpm_using_subcommand
    set -l cmd (__fish_mcpm_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c mcpm -n "__fish_mcpm_needs_command" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_needs_command" -s V -l version -d 'Print version'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "run" -d 'Run an MCP server as a managed workload'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "proxy" -d 'Start a transparent HTTP proxy in front of an MCP server'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "list" -d 'List workloads and their status'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "ls" -d 'List workloads and their status'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "status" -d 'Show one workload in detail'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "stop" -d 'Stop workloads'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "start" -d 'Start stopped workloads'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "restart" -d 'Restart workloads'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "rm" -d 'Stop workloads and remove their containers and records'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "logs" -d 'Show the output of a server'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "explain" -d 'Explain why a request was denied'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "export" -d 'Export a workload\'s configuration, without secrets'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "group" -d 'Manage groups of workloads'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "ignore" -d 'Manage ignore files'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "secret" -d 'Manage secrets for servers'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "registry" -d 'List and search the servers of a registry'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "completion" -d 'Print the completion script of a shell'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "man" -d 'Print the manual page, or write one page per command'
complete -c mcpm -n "__fish_mcpm_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l name -d 'Name of the MCP server [default: generated from the image]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l group -d 'Group the workload belongs to [default: default]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -s l -l label -d 'Label to add to the container' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l transport -d 'Transport mode of the server [default: from the registry entry, otherwise detected]' -r -f -a "sse\t'HTTP with server-sent events'
streamable-http\t'Streamable HTTP'
stdio\t'Standard input and output'"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l proxy-mode -d 'Proxy mode of a stdio server; `sse` is deprecated and will be removed [default: streamable-http]' -r -f -a "streamable-http\t'Streamable HTTP'
sse\t'HTTP with server-sent events; deprecated and will be removed'"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l host -d 'IP or hostname the HTTP proxy listens on [default: 127.0.0.1]' -r -f -a "(__fish_print_hostnames)"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l proxy-port -d 'Host port the HTTP proxy listens on; 0 picks a free one [default: a free port]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l target-host -d 'Host that traffic is forwarded to, for the transports `sse` and `streamable-http` [default: 127.0.0.1]' -r -f -a "(__fish_print_hostnames)"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l target-port -d 'Port the container exposes, for the transports `sse` and `streamable-http` [default: the port the image exposes]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -s p -l publish -d 'Publish a container port on the host' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l network -d 'Network mode of the container: `host`, `bridge`, or a network by name [default: bridge]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l isolate-network -d 'Isolate the container network from the host [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l allow-runtime-gateway -d 'Let an isolated container connect to the container runtime\'s gateway addresses [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -s e -l env -d 'Environment variable for the server' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l env-file -d 'Load environment variables from a file' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l env-file-dir -d 'Load environment variables from all files in a folder' -r -f -a "(__fish_complete_directories)"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l secret -d 'Secret fetched from the secrets manager and set as an environment variable' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -s v -l volume -d 'Mount a host file or folder into the container' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l permission-profile -d 'Permissions of the container [default: from the registry entry, otherwise `network`]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l learn -d 'Write a permission profile that allows exactly what the server connects to' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -s f -l foreground -d 'Run in the foreground until the container exits [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l from-config -d 'Load the configuration from an exported file' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l ignore-globally -d 'Load global ignore patterns from `~/.config/mcpm/mcpmignore` [default: true]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l print-resolved-overlays -d 'Print the container paths that overlays of ignored files and folders resolve to [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l image-verification -d 'Image verification mode [default: warn]' -r -f -a "warn\t'Warn and start'
enabled\t'Refuse to start'
disabled\t'Skip verification'"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l image-verification-key -d 'PEM file with the public key that must have signed the image' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l certificate-identity -d 'Required identity in the signer\'s certificate: an email address or a URI [default: from the registry entry]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l certificate-oidc-issuer -d 'Required OIDC issuer of the certificate identity [default: from the registry entry]' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l sigstore-trusted-root -d 'Sigstore `trusted_root.json` with the trusted certificate authorities and logs [default: Sigstore\'s public instance]' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l ca-cert -d 'Custom CA certificate file used for container builds' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l mcpm-ca-bundle -d 'CA certificate bundle for mcpm\'s own HTTP requests (JWKS, OIDC discovery, etc.)' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l runtime-image -d 'Base image for protocol schemes' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l runtime-add-package -d 'Extra package to install in the builder and runtime stages' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l endpoint-prefix -d 'Path prefix prepended to SSE endpoint URLs' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l trust-proxy-headers -d 'Trust `X-Forwarded-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l tools -d 'Tools to expose to clients; all others are hidden' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l tools-override -d 'JSON file that overrides tool names and descriptions' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l authz-config -d 'Authorization configuration file' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l audit-config -d 'Audit configuration file' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l enable-audit -d 'Enable audit logging with the default configuration [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l runtime -d 'Container engine to run on [default: auto]' -r -f -a "auto\t'The first engine that responds'
docker\t'Docker'
podman\t'Podman'"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l package-command -d 'Command of the package that starts the server, if the package has several' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l rebuild -d 'Rebuild the package\'s image with the newest version that its name refers to [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l offline -d 'Do not access the network to get the image; it must be present locally [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l allowed-origins -d 'Additional origins of web pages that may call the proxy' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l allowed-hosts -d 'Additional hostnames that clients may use to reach the proxy' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l registry -d 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: from the configuration, otherwise `embedded`]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l oidc-issuer -d 'OIDC issuer URL' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l oidc-audience -d 'Expected audience of the token [default: the resource URL, otherwise the URL of the proxy]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l oidc-client-id -d 'OIDC client ID' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l oidc-client-secret -d 'OIDC client secret, for introspection [env: MCPM_OIDC_CLIENT_SECRET]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l oidc-introspection-url -d 'Token introspection endpoint URL [default: from the issuer\'s metadata, with a client secret]' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l oidc-jwks-url -d 'URL to fetch the JWKS from [default: from the issuer\'s metadata]' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l oidc-scopes -d 'OAuth scopes advertised in the well-known endpoint (RFC 9728) [default: openid]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l oidc-required-scopes -d 'OAuth scopes that a token must have' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l oidc-insecure-allow-http -d 'Allow OIDC issuers without HTTPS, for local development and testing (insecure) [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l jwks-allow-private-ip -d 'Allow JWKS and OIDC endpoints on private IP addresses [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l jwks-auth-token-file -d 'File with a bearer token that authenticates JWKS and OIDC requests' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l remote-auth -d 'Enable OAuth/OIDC authentication to the remote server [default: false] [not supported yet]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l remote-auth-issuer -d 'OAuth/OIDC issuer URL [not supported yet]' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l remote-auth-authorize-url -d 'Authorization endpoint, instead of the issuer, for OAuth without OIDC [not supported yet]' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l remote-auth-token-url -d 'Token endpoint, instead of the issuer, for OAuth without OIDC [not supported yet]' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l remote-auth-client-id -d 'OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591) [not supported yet]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l remote-auth-client-secret -d 'OAuth client secret; not needed with dynamic client registration or PKCE [env: MCPM_REMOTE_OAUTH_CLIENT_SECRET] [not supported yet]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l remote-auth-client-secret-file -d 'File with the OAuth client secret [not supported yet]' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l remote-auth-bearer-token -d 'Bearer token for the remote server, instead of OAuth [not supported yet]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l remote-auth-bearer-token-file -d 'File with the bearer token for the remote server [not supported yet]' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l remote-auth-scopes -d 'Scopes to request [default: `openid,profile,email` with OIDC] [not supported yet]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l remote-auth-resource -d 'OAuth 2.0 resource indicator (RFC 8707) [not supported yet]' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l resource-url -d 'Explicit resource URL for the OAuth discovery endpoint (RFC 9728) [default: the URL the proxy listens on]' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l remote-auth-callback-port -d 'Port of the local OAuth callback server [default: 8666] [not supported yet]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l remote-auth-skip-browser -d 'Do not open a browser for the OAuth flow [default: false] [not supported yet]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l remote-auth-timeout -d 'Timeout of the OAuth flow, such as `30s` or `1m30s` [default: 30s] [not supported yet]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l remote-forward-headers -d 'Header added to requests to the remote server [not supported yet]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l remote-forward-headers-secret -d 'Header added to requests to the remote server, with its value from the secrets manager [not supported yet]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l token-exchange-url -d 'OAuth 2.0 token exchange endpoint; enables token exchange' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l token-exchange-audience -d 'Target audience of exchanged tokens' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l token-exchange-client-id -d 'Client ID for token exchange' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l token-exchange-client-secret -d 'Client secret for token exchange [env: MCPM_TOKEN_EXCHANGE_CLIENT_SECRET]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l token-exchange-client-secret-file -d 'File with the client secret for token exchange' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l token-exchange-scopes -d 'Scopes to request for exchanged tokens' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l token-exchange-subject-token-type -d 'Type of the token that is exchanged [default: access_token]' -r -f -a "access_token\t'An access token'
id_token\t'An ID token, which some identity providers\' security token service requires'"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l token-exchange-header-name -d 'Header that carries the exchanged token [default: `Authorization`, whose value it replaces]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l otel-endpoint -d 'OTLP endpoint URL' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l otel-insecure -d 'Use HTTP instead of HTTPS for the OTLP endpoint [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l otel-headers -d 'Header to add to OTLP requests' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l otel-service-name -d 'Service name [default: `mcpm-<name>`]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l otel-custom-attributes -d 'Additional resource attributes' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l otel-env-vars -d 'Names of environment variables to include in spans' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l otel-tracing-enabled -d 'Distributed tracing; requires an OTLP endpoint [default: true]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l otel-metrics-enabled -d 'OTLP metrics export; requires an OTLP endpoint [default: true]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l otel-sampling-rate -d 'Trace sampling rate, from 0.0 to 1.0 [default: 0.1]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l otel-enable-prometheus-metrics-path -d 'Serve `/metrics` on the main transport port [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l otel-use-legacy-attributes -d 'Emit legacy attribute names alongside the new semantic-convention names [default: true]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l otel-prometheus-port -d 'Loopback port on which `/metrics` is served without a token' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l otel-protocol -d 'OTLP transport [default: http]' -r -f -a "http\t'Protobuf over HTTP'
grpc\t'gRPC'"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -l plan -d 'Show what would be started and the origin of each value, without starting it'
complete -c mcpm -n "__fish_mcpm_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l target-uri -d 'URI of the target MCP server' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l host -d 'IP or hostname the HTTP proxy listens on [default: 127.0.0.1]' -r -f -a "(__fish_print_hostnames)"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l port -d 'Host port the proxy listens on; 0 picks a free one [default: a free port]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l mcpm-ca-bundle -d 'CA certificate bundle for mcpm\'s own HTTP requests (JWKS, OIDC discovery, etc.)' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l trust-proxy-headers -d 'Trust `X-Forwarded-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l tools -d 'Tools to expose to clients; all others are hidden' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l tools-override -d 'JSON file that overrides tool names and descriptions' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l authz-config -d 'Authorization configuration file' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l audit-config -d 'Audit configuration file' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l enable-audit -d 'Enable audit logging with the default configuration [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l allowed-origins -d 'Additional origins of web pages that may call the proxy' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l allowed-hosts -d 'Additional hostnames that clients may use to reach the proxy' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l oidc-issuer -d 'OIDC issuer URL' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l oidc-audience -d 'Expected audience of the token [default: the resource URL, otherwise the URL of the proxy]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l oidc-client-id -d 'OIDC client ID' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l oidc-client-secret -d 'OIDC client secret, for introspection [env: MCPM_OIDC_CLIENT_SECRET]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l oidc-introspection-url -d 'Token introspection endpoint URL [default: from the issuer\'s metadata, with a client secret]' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l oidc-jwks-url -d 'URL to fetch the JWKS from [default: from the issuer\'s metadata]' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l oidc-scopes -d 'OAuth scopes advertised in the well-known endpoint (RFC 9728) [default: openid]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l oidc-required-scopes -d 'OAuth scopes that a token must have' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l oidc-insecure-allow-http -d 'Allow OIDC issuers without HTTPS, for local development and testing (insecure) [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l jwks-allow-private-ip -d 'Allow JWKS and OIDC endpoints on private IP addresses [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l jwks-auth-token-file -d 'File with a bearer token that authenticates JWKS and OIDC requests' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l remote-auth -d 'Enable OAuth/OIDC authentication to the remote server [default: false] [not supported yet]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l remote-auth-issuer -d 'OAuth/OIDC issuer URL [not supported yet]' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l remote-auth-authorize-url -d 'Authorization endpoint, instead of the issuer, for OAuth without OIDC [not supported yet]' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l remote-auth-token-url -d 'Token endpoint, instead of the issuer, for OAuth without OIDC [not supported yet]' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l remote-auth-client-id -d 'OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591) [not supported yet]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l remote-auth-client-secret -d 'OAuth client secret; not needed with dynamic client registration or PKCE [env: MCPM_REMOTE_OAUTH_CLIENT_SECRET] [not supported yet]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l remote-auth-client-secret-file -d 'File with the OAuth client secret [not supported yet]' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l remote-auth-bearer-token -d 'Bearer token for the remote server, instead of OAuth [not supported yet]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l remote-auth-bearer-token-file -d 'File with the bearer token for the remote server [not supported yet]' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l remote-auth-scopes -d 'Scopes to request [default: `openid,profile,email` with OIDC] [not supported yet]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l remote-auth-resource -d 'OAuth 2.0 resource indicator (RFC 8707) [not supported yet]' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l resource-url -d 'Explicit resource URL for the OAuth discovery endpoint (RFC 9728) [default: the URL the proxy listens on]' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l remote-auth-callback-port -d 'Port of the local OAuth callback server [default: 8666] [not supported yet]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l remote-auth-skip-browser -d 'Do not open a browser for the OAuth flow [default: false] [not supported yet]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l remote-auth-timeout -d 'Timeout of the OAuth flow, such as `30s` or `1m30s` [default: 30s] [not supported yet]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l remote-forward-headers -d 'Header added to requests to the remote server [not supported yet]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l remote-forward-headers-secret -d 'Header added to requests to the remote server, with its value from the secrets manager [not supported yet]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l token-exchange-url -d 'OAuth 2.0 token exchange endpoint; enables token exchange' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l token-exchange-audience -d 'Target audience of exchanged tokens' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l token-exchange-client-id -d 'Client ID for token exchange' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l token-exchange-client-secret -d 'Client secret for token exchange [env: MCPM_TOKEN_EXCHANGE_CLIENT_SECRET]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l token-exchange-client-secret-file -d 'File with the client secret for token exchange' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l token-exchange-scopes -d 'Scopes to request for exchanged tokens' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l token-exchange-subject-token-type -d 'Type of the token that is exchanged [default: access_token]' -r -f -a "access_token\t'An access token'
id_token\t'An ID token, which some identity providers\' security token service requires'"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l token-exchange-header-name -d 'Header that carries the exchanged token [default: `Authorization`, whose value it replaces]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l otel-endpoint -d 'OTLP endpoint URL' -r -f
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l otel-insecure -d 'Use HTTP instead of HTTPS for the OTLP endpoint [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l otel-headers -d 'Header to add to OTLP requests' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l otel-service-name -d 'Service name [default: `mcpm-<name>`]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l otel-custom-attributes -d 'Additional resource attributes' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l otel-env-vars -d 'Names of environment variables to include in spans' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l otel-tracing-enabled -d 'Distributed tracing; requires an OTLP endpoint [default: true]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l otel-metrics-enabled -d 'OTLP metrics export; requires an OTLP endpoint [default: true]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l otel-sampling-rate -d 'Trace sampling rate, from 0.0 to 1.0 [default: 0.1]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l otel-enable-prometheus-metrics-path -d 'Serve `/metrics` on the main transport port [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l otel-use-legacy-attributes -d 'Emit legacy attribute names alongside the new semantic-convention names [default: true]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l otel-prometheus-port -d 'Loopback port on which `/metrics` is served without a token' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -l otel-protocol -d 'OTLP transport [default: http]' -r -f -a "http\t'Protobuf over HTTP'
grpc\t'gRPC'"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -a "stdio" -d 'Serve a workload or a URL on standard input and output'
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -a "tunnel" -d 'Make a workload or a URL reachable through a tunnel'
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and not __fish_seen_subcommand_from stdio tunnel help" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and __fish_seen_subcommand_from stdio" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and __fish_seen_subcommand_from stdio" -l transport -d 'Transport of the server; `sse` is deprecated [default: that of the workload, otherwise `streamable-http`]' -r -f -a "streamable-http\t''
sse\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and __fish_seen_subcommand_from stdio" -l remote-forward-headers -d 'Header added to requests to the server' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and __fish_seen_subcommand_from stdio" -l remote-forward-headers-secret -d 'Header added to requests to the server, with its value from the secrets manager' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and __fish_seen_subcommand_from stdio" -l mcpm-ca-bundle -d 'CA certificate bundle that is trusted in addition to the system\'s' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and __fish_seen_subcommand_from stdio" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and __fish_seen_subcommand_from tunnel" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and __fish_seen_subcommand_from tunnel" -l tunnel-provider -d 'What holds the tunnel: OpenSSH\'s client, ngrok\'s agent, or any command' -r -f -a "ssh\t''
ngrok\t''
command\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and __fish_seen_subcommand_from tunnel" -l provider-args -d 'Arguments of the provider, a JSON object' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and __fish_seen_subcommand_from tunnel" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and __fish_seen_subcommand_from tunnel" -l allow-unauthenticated -d 'Also make a target reachable that anyone can use without authentication'
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and __fish_seen_subcommand_from tunnel" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and __fish_seen_subcommand_from help" -f -a "stdio" -d 'Serve a workload or a URL on standard input and output'
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and __fish_seen_subcommand_from help" -f -a "tunnel" -d 'Make a workload or a URL reachable through a tunnel'
complete -c mcpm -n "__fish_mcpm_using_subcommand proxy; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mcpm -n "__fish_mcpm_using_subcommand list" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand list" -l group -d 'Only workloads of this group' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand list" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''
mcp-json\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand ls" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand ls" -l group -d 'Only workloads of this group' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand ls" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''
mcp-json\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand status" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand status" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand stop" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand stop" -l group -d 'All workloads of a group' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand stop" -l timeout -d 'Seconds to wait before the server is killed [default: 10]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand stop" -l all -d 'All workloads'
complete -c mcpm -n "__fish_mcpm_using_subcommand stop" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand start" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand start" -l group -d 'All workloads of a group' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand start" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand start" -l all -d 'All workloads'
complete -c mcpm -n "__fish_mcpm_using_subcommand start" -s f -l foreground -d 'Run in the foreground until the container exits; for one workload'
complete -c mcpm -n "__fish_mcpm_using_subcommand start" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand restart" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand restart" -l group -d 'All workloads of a group' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand restart" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand restart" -l timeout -d 'Seconds to wait before the server is killed [default: 10]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand restart" -l all -d 'All workloads'
complete -c mcpm -n "__fish_mcpm_using_subcommand restart" -s f -l foreground -d 'Run in the foreground until the container exits; for one workload'
complete -c mcpm -n "__fish_mcpm_using_subcommand restart" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand rm" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand rm" -l group -d 'All workloads of a group' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand rm" -l timeout -d 'Seconds to wait before the server is killed [default: 10]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand rm" -l all -d 'All workloads'
complete -c mcpm -n "__fish_mcpm_using_subcommand rm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand logs" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand logs" -l tail -d 'Number of lines to show from the end' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand logs" -s f -l follow -d 'Follow until the server exits'
complete -c mcpm -n "__fish_mcpm_using_subcommand logs" -l proxy -d 'Show the log of the workload\'s proxy instead'
complete -c mcpm -n "__fish_mcpm_using_subcommand logs" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand explain" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand explain" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand export" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and not __fish_seen_subcommand_from create list ls rm help" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and not __fish_seen_subcommand_from create list ls rm help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and not __fish_seen_subcommand_from create list ls rm help" -f -a "create" -d 'Create a group'
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and not __fish_seen_subcommand_from create list ls rm help" -f -a "list" -d 'List groups'
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and not __fish_seen_subcommand_from create list ls rm help" -f -a "ls" -d 'List groups'
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and not __fish_seen_subcommand_from create list ls rm help" -f -a "rm" -d 'Remove a group'
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and not __fish_seen_subcommand_from create list ls rm help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and __fish_seen_subcommand_from create" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and __fish_seen_subcommand_from list" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and __fish_seen_subcommand_from list" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and __fish_seen_subcommand_from ls" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and __fish_seen_subcommand_from ls" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and __fish_seen_subcommand_from rm" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and __fish_seen_subcommand_from rm" -l with-workloads -d 'Also remove its workloads; otherwise only an empty group is removed'
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and __fish_seen_subcommand_from rm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and __fish_seen_subcommand_from help" -f -a "create" -d 'Create a group'
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and __fish_seen_subcommand_from help" -f -a "list" -d 'List groups'
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and __fish_seen_subcommand_from help" -f -a "rm" -d 'Remove a group'
complete -c mcpm -n "__fish_mcpm_using_subcommand group; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mcpm -n "__fish_mcpm_using_subcommand ignore; and not __fish_seen_subcommand_from accept help" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand ignore; and not __fish_seen_subcommand_from accept help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand ignore; and not __fish_seen_subcommand_from accept help" -f -a "accept" -d 'Accept the current ignore files of a folder, and list those that changed'
complete -c mcpm -n "__fish_mcpm_using_subcommand ignore; and not __fish_seen_subcommand_from accept help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mcpm -n "__fish_mcpm_using_subcommand ignore; and __fish_seen_subcommand_from accept" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand ignore; and __fish_seen_subcommand_from accept" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand ignore; and __fish_seen_subcommand_from help" -f -a "accept" -d 'Accept the current ignore files of a folder, and list those that changed'
complete -c mcpm -n "__fish_mcpm_using_subcommand ignore; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and not __fish_seen_subcommand_from set get list ls rm provider help" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and not __fish_seen_subcommand_from set get list ls rm provider help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and not __fish_seen_subcommand_from set get list ls rm provider help" -f -a "set" -d 'Store a secret, read from stdin or prompted for'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and not __fish_seen_subcommand_from set get list ls rm provider help" -f -a "get" -d 'Print a secret'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and not __fish_seen_subcommand_from set get list ls rm provider help" -f -a "list" -d 'List the names of the secrets, and the sources of their values'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and not __fish_seen_subcommand_from set get list ls rm provider help" -f -a "ls" -d 'List the names of the secrets, and the sources of their values'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and not __fish_seen_subcommand_from set get list ls rm provider help" -f -a "rm" -d 'Remove secrets'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and not __fish_seen_subcommand_from set get list ls rm provider help" -f -a "provider" -d 'Show or select the secret store'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and not __fish_seen_subcommand_from set get list ls rm provider help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from set" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from get" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from get" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from list" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from list" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from ls" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from ls" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from rm" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from rm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from provider" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from provider" -l password-in-keyring -d 'For `encrypted`: save the password in the keyring after it was entered'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from provider" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from help" -f -a "set" -d 'Store a secret, read from stdin or prompted for'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from help" -f -a "get" -d 'Print a secret'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the names of the secrets, and the sources of their values'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from help" -f -a "rm" -d 'Remove secrets'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from help" -f -a "provider" -d 'Show or select the secret store'
complete -c mcpm -n "__fish_mcpm_using_subcommand secret; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and not __fish_seen_subcommand_from list ls search info help" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and not __fish_seen_subcommand_from list ls search info help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and not __fish_seen_subcommand_from list ls search info help" -f -a "list" -d 'List all servers'
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and not __fish_seen_subcommand_from list ls search info help" -f -a "ls" -d 'List all servers'
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and not __fish_seen_subcommand_from list ls search info help" -f -a "search" -d 'List the servers whose name, description or tags contain all words'
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and not __fish_seen_subcommand_from list ls search info help" -f -a "info" -d 'Show one server in detail'
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and not __fish_seen_subcommand_from list ls search info help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from list" -l registry -d 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: from the configuration, otherwise `embedded`]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from list" -l mcpm-ca-bundle -d 'CA certificate bundle for mcpm\'s own HTTP requests (JWKS, OIDC discovery, etc.)' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from list" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from list" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from ls" -l registry -d 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: from the configuration, otherwise `embedded`]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from ls" -l mcpm-ca-bundle -d 'CA certificate bundle for mcpm\'s own HTTP requests (JWKS, OIDC discovery, etc.)' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from ls" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from ls" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from search" -l registry -d 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: from the configuration, otherwise `embedded`]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from search" -l mcpm-ca-bundle -d 'CA certificate bundle for mcpm\'s own HTTP requests (JWKS, OIDC discovery, etc.)' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from search" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from search" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from search" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from info" -l registry -d 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: from the configuration, otherwise `embedded`]' -r
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from info" -l mcpm-ca-bundle -d 'CA certificate bundle for mcpm\'s own HTTP requests (JWKS, OIDC discovery, etc.)' -r -F
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from info" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from info" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from info" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from help" -f -a "list" -d 'List all servers'
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from help" -f -a "search" -d 'List the servers whose name, description or tags contain all words'
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from help" -f -a "info" -d 'Show one server in detail'
complete -c mcpm -n "__fish_mcpm_using_subcommand registry; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mcpm -n "__fish_mcpm_using_subcommand completion" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand completion" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand man" -l debug -d 'Enable debug mode [default: false]' -r -f -a "true\t''
false\t''"
complete -c mcpm -n "__fish_mcpm_using_subcommand man" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and not __fish_seen_subcommand_from run proxy list status stop start restart rm logs explain export group ignore secret registry completion man help" -f -a "run" -d 'Run an MCP server as a managed workload'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and not __fish_seen_subcommand_from run proxy list status stop start restart rm logs explain export group ignore secret registry completion man help" -f -a "proxy" -d 'Start a transparent HTTP proxy in front of an MCP server'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and not __fish_seen_subcommand_from run proxy list status stop start restart rm logs explain export group ignore secret registry completion man help" -f -a "list" -d 'List workloads and their status'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and not __fish_seen_subcommand_from run proxy list status stop start restart rm logs explain export group ignore secret registry completion man help" -f -a "status" -d 'Show one workload in detail'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and not __fish_seen_subcommand_from run proxy list status stop start restart rm logs explain export group ignore secret registry completion man help" -f -a "stop" -d 'Stop workloads'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and not __fish_seen_subcommand_from run proxy list status stop start restart rm logs explain export group ignore secret registry completion man help" -f -a "start" -d 'Start stopped workloads'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and not __fish_seen_subcommand_from run proxy list status stop start restart rm logs explain export group ignore secret registry completion man help" -f -a "restart" -d 'Restart workloads'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and not __fish_seen_subcommand_from run proxy list status stop start restart rm logs explain export group ignore secret registry completion man help" -f -a "rm" -d 'Stop workloads and remove their containers and records'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and not __fish_seen_subcommand_from run proxy list status stop start restart rm logs explain export group ignore secret registry completion man help" -f -a "logs" -d 'Show the output of a server'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and not __fish_seen_subcommand_from run proxy list status stop start restart rm logs explain export group ignore secret registry completion man help" -f -a "explain" -d 'Explain why a request was denied'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and not __fish_seen_subcommand_from run proxy list status stop start restart rm logs explain export group ignore secret registry completion man help" -f -a "export" -d 'Export a workload\'s configuration, without secrets'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and not __fish_seen_subcommand_from run proxy list status stop start restart rm logs explain export group ignore secret registry completion man help" -f -a "group" -d 'Manage groups of workloads'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and not __fish_seen_subcommand_from run proxy list status stop start restart rm logs explain export group ignore secret registry completion man help" -f -a "ignore" -d 'Manage ignore files'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and not __fish_seen_subcommand_from run proxy list status stop start restart rm logs explain export group ignore secret registry completion man help" -f -a "secret" -d 'Manage secrets for servers'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and not __fish_seen_subcommand_from run proxy list status stop start restart rm logs explain export group ignore secret registry completion man help" -f -a "registry" -d 'List and search the servers of a registry'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and not __fish_seen_subcommand_from run proxy list status stop start restart rm logs explain export group ignore secret registry completion man help" -f -a "completion" -d 'Print the completion script of a shell'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and not __fish_seen_subcommand_from run proxy list status stop start restart rm logs explain export group ignore secret registry completion man help" -f -a "man" -d 'Print the manual page, or write one page per command'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and not __fish_seen_subcommand_from run proxy list status stop start restart rm logs explain export group ignore secret registry completion man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and __fish_seen_subcommand_from proxy" -f -a "stdio" -d 'Serve a workload or a URL on standard input and output'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and __fish_seen_subcommand_from proxy" -f -a "tunnel" -d 'Make a workload or a URL reachable through a tunnel'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and __fish_seen_subcommand_from group" -f -a "create" -d 'Create a group'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and __fish_seen_subcommand_from group" -f -a "list" -d 'List groups'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and __fish_seen_subcommand_from group" -f -a "rm" -d 'Remove a group'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and __fish_seen_subcommand_from ignore" -f -a "accept" -d 'Accept the current ignore files of a folder, and list those that changed'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and __fish_seen_subcommand_from secret" -f -a "set" -d 'Store a secret, read from stdin or prompted for'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and __fish_seen_subcommand_from secret" -f -a "get" -d 'Print a secret'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and __fish_seen_subcommand_from secret" -f -a "list" -d 'List the names of the secrets, and the sources of their values'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and __fish_seen_subcommand_from secret" -f -a "rm" -d 'Remove secrets'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and __fish_seen_subcommand_from secret" -f -a "provider" -d 'Show or select the secret store'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and __fish_seen_subcommand_from registry" -f -a "list" -d 'List all servers'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and __fish_seen_subcommand_from registry" -f -a "search" -d 'List the servers whose name, description or tags contain all words'
complete -c mcpm -n "__fish_mcpm_using_subcommand help; and __fish_seen_subcommand_from registry" -f -a "info" -d 'Show one server in detail'
