
use builtin;
use str;

set edit:completion:arg-completer[mcpm] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'mcpm'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'mcpm'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
            cand run 'Run an MCP server as a managed workload'
            cand proxy 'Start a transparent HTTP proxy in front of an MCP server'
            cand list 'List workloads and their status'
            cand ls 'List workloads and their status'
            cand status 'Show one workload in detail'
            cand stop 'Stop workloads'
            cand start 'Start stopped workloads'
            cand restart 'Restart workloads'
            cand rm 'Stop workloads and remove their containers and records'
            cand logs 'Show the output of a server'
            cand explain 'Explain why a request was denied'
            cand export 'Export a workload''s configuration, without secrets'
            cand group 'Manage groups of workloads'
            cand ignore 'Manage ignore files'
            cand secret 'Manage secrets for servers'
            cand registry 'List and search the servers of a registry'
            cand completion 'Print the completion script of a shell'
            cand man 'Print the manual page, or write one page per command'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mcpm;run'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --name 'Name of the MCP server [default: generated from the image]'
            cand --group 'Group the workload belongs to [default: default]'
            cand -l 'Label to add to the container'
            cand --label 'Label to add to the container'
            cand --transport 'Transport mode of the server [default: from the registry entry, otherwise detected]'
            cand --proxy-mode 'Proxy mode of a stdio server; `sse` is deprecated and will be removed [default: streamable-http]'
            cand --host 'IP or hostname the HTTP proxy listens on [default: 127.0.0.1]'
            cand --proxy-port 'Host port the HTTP proxy listens on; 0 picks a free one [default: a free port]'
            cand --target-host 'Host that traffic is forwarded to, for the transports `sse` and `streamable-http` [default: 127.0.0.1]'
            cand --target-port 'Port the container exposes, for the transports `sse` and `streamable-http` [default: the port the image exposes]'
            cand -p 'Publish a container port on the host'
            cand --publish 'Publish a container port on the host'
            cand --network 'Network mode of the container: `host`, `bridge`, or a network by name [default: bridge]'
            cand --isolate-network 'Isolate the container network from the host [default: false]'
            cand --allow-runtime-gateway 'Let an isolated container connect to the container runtime''s gateway addresses [default: false]'
            cand -e 'Environment variable for the server'
            cand --env 'Environment variable for the server'
            cand --env-file 'Load environment variables from a file'
            cand --env-file-dir 'Load environment variables from all files in a folder'
            cand --secret 'Secret fetched from the secrets manager and set as an environment variable'
            cand -v 'Mount a host file or folder into the container'
            cand --volume 'Mount a host file or folder into the container'
            cand --permission-profile 'Permissions of the container [default: from the registry entry, otherwise `network`]'
            cand --learn 'Write a permission profile that allows exactly what the server connects to'
            cand -f 'Run in the foreground until the container exits [default: false]'
            cand --foreground 'Run in the foreground until the container exits [default: false]'
            cand --from-config 'Load the configuration from an exported file'
            cand --ignore-globally 'Load global ignore patterns from `~/.config/mcpm/mcpmignore` [default: true]'
            cand --print-resolved-overlays 'Print the container paths that overlays of ignored files and folders resolve to [default: false]'
            cand --image-verification 'Image verification mode [default: warn]'
            cand --image-verification-key 'PEM file with the public key that must have signed the image'
            cand --certificate-identity 'Required identity in the signer''s certificate: an email address or a URI [default: from the registry entry]'
            cand --certificate-oidc-issuer 'Required OIDC issuer of the certificate identity [default: from the registry entry]'
            cand --sigstore-trusted-root 'Sigstore `trusted_root.json` with the trusted certificate authorities and logs [default: Sigstore''s public instance]'
            cand --ca-cert 'Custom CA certificate file used for container builds'
            cand --mcpm-ca-bundle 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)'
            cand --runtime-image 'Base image for protocol schemes'
            cand --runtime-add-package 'Extra package to install in the builder and runtime stages'
            cand --endpoint-prefix 'Path prefix prepended to SSE endpoint URLs'
            cand --trust-proxy-headers 'Trust `X-Forwarded-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies [default: false]'
            cand --tools 'Tools to expose to clients; all others are hidden'
            cand --tools-override 'JSON file that overrides tool names and descriptions'
            cand --authz-config 'Authorization configuration file'
            cand --audit-config 'Audit configuration file'
            cand --enable-audit 'Enable audit logging with the default configuration [default: false]'
            cand --runtime 'Container engine to run on [default: auto]'
            cand --package-command 'Command of the package that starts the server, if the package has several'
            cand --rebuild 'Rebuild the package''s image with the newest version that its name refers to [default: false]'
            cand --offline 'Do not access the network to get the image; it must be present locally [default: false]'
            cand --allowed-origins 'Additional origins of web pages that may call the proxy'
            cand --allowed-hosts 'Additional hostnames that clients may use to reach the proxy'
            cand --registry 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: from the configuration, otherwise `embedded`]'
            cand --oidc-issuer 'OIDC issuer URL'
            cand --oidc-audience 'Expected audience of the token [default: the resource URL, otherwise the URL of the proxy]'
            cand --oidc-client-id 'OIDC client ID'
            cand --oidc-client-secret 'OIDC client secret, for introspection [env: MCPM_OIDC_CLIENT_SECRET]'
            cand --oidc-introspection-url 'Token introspection endpoint URL [default: from the issuer''s metadata, with a client secret]'
            cand --oidc-jwks-url 'URL to fetch the JWKS from [default: from the issuer''s metadata]'
            cand --oidc-scopes 'OAuth scopes advertised in the well-known endpoint (RFC 9728) [default: openid]'
            cand --oidc-required-scopes 'OAuth scopes that a token must have'
            cand --oidc-insecure-allow-http 'Allow OIDC issuers without HTTPS, for local development and testing (insecure) [default: false]'
            cand --jwks-allow-private-ip 'Allow JWKS and OIDC endpoints on private IP addresses [default: false]'
            cand --jwks-auth-token-file 'File with a bearer token that authenticates JWKS and OIDC requests'
            cand --remote-auth 'Enable OAuth/OIDC authentication to the remote server [default: false] [not supported yet]'
            cand --remote-auth-issuer 'OAuth/OIDC issuer URL [not supported yet]'
            cand --remote-auth-authorize-url 'Authorization endpoint, instead of the issuer, for OAuth without OIDC [not supported yet]'
            cand --remote-auth-token-url 'Token endpoint, instead of the issuer, for OAuth without OIDC [not supported yet]'
            cand --remote-auth-client-id 'OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591) [not supported yet]'
            cand --remote-auth-client-secret 'OAuth client secret; not needed with dynamic client registration or PKCE [env: MCPM_REMOTE_OAUTH_CLIENT_SECRET] [not supported yet]'
            cand --remote-auth-client-secret-file 'File with the OAuth client secret [not supported yet]'
            cand --remote-auth-bearer-token 'Bearer token for the remote server, instead of OAuth [not supported yet]'
            cand --remote-auth-bearer-token-file 'File with the bearer token for the remote server [not supported yet]'
            cand --remote-auth-scopes 'Scopes to request [default: `openid,profile,email` with OIDC] [not supported yet]'
            cand --remote-auth-resource 'OAuth 2.0 resource indicator (RFC 8707) [not supported yet]'
            cand --resource-url 'Explicit resource URL for the OAuth discovery endpoint (RFC 9728) [default: the URL the proxy listens on]'
            cand --remote-auth-callback-port 'Port of the local OAuth callback server [default: 8666] [not supported yet]'
            cand --remote-auth-skip-browser 'Do not open a browser for the OAuth flow [default: false] [not supported yet]'
            cand --remote-auth-timeout 'Timeout of the OAuth flow, such as `30s` or `1m30s` [default: 30s] [not supported yet]'
            cand --remote-forward-headers 'Header added to requests to the remote server [not supported yet]'
            cand --remote-forward-headers-secret 'Header added to requests to the remote server, with its value from the secrets manager [not supported yet]'
            cand --token-exchange-url 'OAuth 2.0 token exchange endpoint; enables token exchange'
            cand --token-exchange-audience 'Target audience of exchanged tokens'
            cand --token-exchange-client-id 'Client ID for token exchange'
            cand --token-exchange-client-secret 'Client secret for token exchange [env: MCPM_TOKEN_EXCHANGE_CLIENT_SECRET]'
            cand --token-exchange-client-secret-file 'File with the client secret for token exchange'
            cand --token-exchange-scopes 'Scopes to request for exchanged tokens'
            cand --token-exchange-subject-token-type 'Type of the token that is exchanged [default: access_token]'
            cand --token-exchange-header-name 'Header that carries the exchanged token [default: `Authorization`, whose value it replaces]'
            cand --otel-endpoint 'OTLP endpoint URL'
            cand --otel-insecure 'Use HTTP instead of HTTPS for the OTLP endpoint [default: false]'
            cand --otel-headers 'Header to add to OTLP requests'
            cand --otel-service-name 'Service name [default: `mcpm-<name>`]'
            cand --otel-custom-attributes 'Additional resource attributes'
            cand --otel-env-vars 'Names of environment variables to include in spans'
            cand --otel-tracing-enabled 'Distributed tracing; requires an OTLP endpoint [default: true]'
            cand --otel-metrics-enabled 'OTLP metrics export; requires an OTLP endpoint [default: true]'
            cand --otel-sampling-rate 'Trace sampling rate, from 0.0 to 1.0 [default: 0.1]'
            cand --otel-enable-prometheus-metrics-path 'Serve `/metrics` on the main transport port [default: false]'
            cand --otel-use-legacy-attributes 'Emit legacy attribute names alongside the new semantic-convention names [default: true]'
            cand --otel-prometheus-port 'Loopback port on which `/metrics` is served without a token'
            cand --otel-protocol 'OTLP transport [default: http]'
            cand -o 'Output format'
            cand --output 'Output format'
            cand --plan 'Show what would be started and the origin of each value, without starting it'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;proxy'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --target-uri 'URI of the target MCP server'
            cand --host 'IP or hostname the HTTP proxy listens on [default: 127.0.0.1]'
            cand --port 'Host port the proxy listens on; 0 picks a free one [default: a free port]'
            cand --mcpm-ca-bundle 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)'
            cand --trust-proxy-headers 'Trust `X-Forwarded-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies [default: false]'
            cand --tools 'Tools to expose to clients; all others are hidden'
            cand --tools-override 'JSON file that overrides tool names and descriptions'
            cand --authz-config 'Authorization configuration file'
            cand --audit-config 'Audit configuration file'
            cand --enable-audit 'Enable audit logging with the default configuration [default: false]'
            cand --allowed-origins 'Additional origins of web pages that may call the proxy'
            cand --allowed-hosts 'Additional hostnames that clients may use to reach the proxy'
            cand --oidc-issuer 'OIDC issuer URL'
            cand --oidc-audience 'Expected audience of the token [default: the resource URL, otherwise the URL of the proxy]'
            cand --oidc-client-id 'OIDC client ID'
            cand --oidc-client-secret 'OIDC client secret, for introspection [env: MCPM_OIDC_CLIENT_SECRET]'
            cand --oidc-introspection-url 'Token introspection endpoint URL [default: from the issuer''s metadata, with a client secret]'
            cand --oidc-jwks-url 'URL to fetch the JWKS from [default: from the issuer''s metadata]'
            cand --oidc-scopes 'OAuth scopes advertised in the well-known endpoint (RFC 9728) [default: openid]'
            cand --oidc-required-scopes 'OAuth scopes that a token must have'
            cand --oidc-insecure-allow-http 'Allow OIDC issuers without HTTPS, for local development and testing (insecure) [default: false]'
            cand --jwks-allow-private-ip 'Allow JWKS and OIDC endpoints on private IP addresses [default: false]'
            cand --jwks-auth-token-file 'File with a bearer token that authenticates JWKS and OIDC requests'
            cand --remote-auth 'Enable OAuth/OIDC authentication to the remote server [default: false] [not supported yet]'
            cand --remote-auth-issuer 'OAuth/OIDC issuer URL [not supported yet]'
            cand --remote-auth-authorize-url 'Authorization endpoint, instead of the issuer, for OAuth without OIDC [not supported yet]'
            cand --remote-auth-token-url 'Token endpoint, instead of the issuer, for OAuth without OIDC [not supported yet]'
            cand --remote-auth-client-id 'OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591) [not supported yet]'
            cand --remote-auth-client-secret 'OAuth client secret; not needed with dynamic client registration or PKCE [env: MCPM_REMOTE_OAUTH_CLIENT_SECRET] [not supported yet]'
            cand --remote-auth-client-secret-file 'File with the OAuth client secret [not supported yet]'
            cand --remote-auth-bearer-token 'Bearer token for the remote server, instead of OAuth [not supported yet]'
            cand --remote-auth-bearer-token-file 'File with the bearer token for the remote server [not supported yet]'
            cand --remote-auth-scopes 'Scopes to request [default: `openid,profile,email` with OIDC] [not supported yet]'
            cand --remote-auth-resource 'OAuth 2.0 resource indicator (RFC 8707) [not supported yet]'
            cand --resource-url 'Explicit resource URL for the OAuth discovery endpoint (RFC 9728) [default: the URL the proxy listens on]'
            cand --remote-auth-callback-port 'Port of the local OAuth callback server [default: 8666] [not supported yet]'
            cand --remote-auth-skip-browser 'Do not open a browser for the OAuth flow [default: false] [not supported yet]'
            cand --remote-auth-timeout 'Timeout of the OAuth flow, such as `30s` or `1m30s` [default: 30s] [not supported yet]'
            cand --remote-forward-headers 'Header added to requests to the remote server [not supported yet]'
            cand --remote-forward-headers-secret 'Header added to requests to the remote server, with its value from the secrets manager [not supported yet]'
            cand --token-exchange-url 'OAuth 2.0 token exchange endpoint; enables token exchange'
            cand --token-exchange-audience 'Target audience of exchanged tokens'
            cand --token-exchange-client-id 'Client ID for token exchange'
            cand --token-exchange-client-secret 'Client secret for token exchange [env: MCPM_TOKEN_EXCHANGE_CLIENT_SECRET]'
            cand --token-exchange-client-secret-file 'File with the client secret for token exchange'
            cand --token-exchange-scopes 'Scopes to request for exchanged tokens'
            cand --token-exchange-subject-token-type 'Type of the token that is exchanged [default: access_token]'
            cand --token-exchange-header-name 'Header that carries the exchanged token [default: `Authorization`, whose value it replaces]'
            cand --otel-endpoint 'OTLP endpoint URL'
            cand --otel-insecure 'Use HTTP instead of HTTPS for the OTLP endpoint [default: false]'
            cand --otel-headers 'Header to add to OTLP requests'
            cand --otel-service-name 'Service name [default: `mcpm-<name>`]'
            cand --otel-custom-attributes 'Additional resource attributes'
            cand --otel-env-vars 'Names of environment variables to include in spans'
            cand --otel-tracing-enabled 'Distributed tracing; requires an OTLP endpoint [default: true]'
            cand --otel-metrics-enabled 'OTLP metrics export; requires an OTLP endpoint [default: true]'
            cand --otel-sampling-rate 'Trace sampling rate, from 0.0 to 1.0 [default: 0.1]'
            cand --otel-enable-prometheus-metrics-path 'Serve `/metrics` on the main transport port [default: false]'
            cand --otel-use-legacy-attributes 'Emit legacy attribute names alongside the new semantic-convention names [default: true]'
            cand --otel-prometheus-port 'Loopback port on which `/metrics` is served without a token'
            cand --otel-protocol 'OTLP transport [default: http]'
            cand -o 'Output format'
            cand --output 'Output format'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand stdio 'Serve a workload or a URL on standard input and output'
            cand tunnel 'Make a workload or a URL reachable through a tunnel'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mcpm;proxy;stdio'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --transport 'Transport of the server; `sse` is deprecated [default: that of the workload, otherwise `streamable-http`]'
            cand --remote-forward-headers 'Header added to requests to the server'
            cand --remote-forward-headers-secret 'Header added to requests to the server, with its value from the secrets manager'
            cand --mcpm-ca-bundle 'CA certificate bundle that is trusted in addition to the system''s'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;proxy;tunnel'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --tunnel-provider 'What holds the tunnel: OpenSSH''s client, ngrok''s agent, or any command'
            cand --provider-args 'Arguments of the provider, a JSON object'
            cand -o 'Output format'
            cand --output 'Output format'
            cand --allow-unauthenticated 'Also make a target reachable that anyone can use without authentication'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;proxy;help'= {
            cand stdio 'Serve a workload or a URL on standard input and output'
            cand tunnel 'Make a workload or a URL reachable through a tunnel'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mcpm;proxy;help;stdio'= {
        }
        &'mcpm;proxy;help;tunnel'= {
        }
        &'mcpm;proxy;help;help'= {
        }
        &'mcpm;list'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --group 'Only workloads of this group'
            cand -o 'Output format'
            cand --output 'Output format'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;ls'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --group 'Only workloads of this group'
            cand -o 'Output format'
            cand --output 'Output format'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;status'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -o 'Output format'
            cand --output 'Output format'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;stop'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --group 'All workloads of a group'
            cand --timeout 'Seconds to wait before the server is killed [default: 10]'
            cand --all 'All workloads'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;start'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --group 'All workloads of a group'
            cand -o 'Output format'
            cand --output 'Output format'
            cand --all 'All workloads'
            cand -f 'Run in the foreground until the container exits; for one workload'
            cand --foreground 'Run in the foreground until the container exits; for one workload'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;restart'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --group 'All workloads of a group'
            cand -o 'Output format'
            cand --output 'Output format'
            cand --timeout 'Seconds to wait before the server is killed [default: 10]'
            cand --all 'All workloads'
            cand -f 'Run in the foreground until the container exits; for one workload'
            cand --foreground 'Run in the foreground until the container exits; for one workload'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;rm'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --group 'All workloads of a group'
            cand --timeout 'Seconds to wait before the server is killed [default: 10]'
            cand --all 'All workloads'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;logs'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --tail 'Number of lines to show from the end'
            cand -f 'Follow until the server exits'
            cand --follow 'Follow until the server exits'
            cand --proxy 'Show the log of the workload''s proxy instead'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;explain'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -o 'Output format'
            cand --output 'Output format'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;export'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;group'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand create 'Create a group'
            cand list 'List groups'
            cand ls 'List groups'
            cand rm 'Remove a group'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mcpm;group;create'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;group;list'= {
            cand -o 'Output format'
            cand --output 'Output format'
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;group;ls'= {
            cand -o 'Output format'
            cand --output 'Output format'
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;group;rm'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --with-workloads 'Also remove its workloads; otherwise only an empty group is removed'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;group;help'= {
            cand create 'Create a group'
            cand list 'List groups'
            cand rm 'Remove a group'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mcpm;group;help;create'= {
        }
        &'mcpm;group;help;list'= {
        }
        &'mcpm;group;help;rm'= {
        }
        &'mcpm;group;help;help'= {
        }
        &'mcpm;ignore'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand accept 'Accept the current ignore files of a folder, and list those that changed'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mcpm;ignore;accept'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;ignore;help'= {
            cand accept 'Accept the current ignore files of a folder, and list those that changed'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mcpm;ignore;help;accept'= {
        }
        &'mcpm;ignore;help;help'= {
        }
        &'mcpm;secret'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand set 'Store a secret, read from stdin or prompted for'
            cand get 'Print a secret'
            cand list 'List the names of the secrets, and the sources of their values'
            cand ls 'List the names of the secrets, and the sources of their values'
            cand rm 'Remove secrets'
            cand provider 'Show or select the secret store'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mcpm;secret;set'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;secret;get'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;secret;list'= {
            cand -o 'Output format'
            cand --output 'Output format'
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;secret;ls'= {
            cand -o 'Output format'
            cand --output 'Output format'
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;secret;rm'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;secret;provider'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --password-in-keyring 'For `encrypted`: save the password in the keyring after it was entered'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;secret;help'= {
            cand set 'Store a secret, read from stdin or prompted for'
            cand get 'Print a secret'
            cand list 'List the names of the secrets, and the sources of their values'
            cand rm 'Remove secrets'
            cand provider 'Show or select the secret store'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mcpm;secret;help;set'= {
        }
        &'mcpm;secret;help;get'= {
        }
        &'mcpm;secret;help;list'= {
        }
        &'mcpm;secret;help;rm'= {
        }
        &'mcpm;secret;help;provider'= {
        }
        &'mcpm;secret;help;help'= {
        }
        &'mcpm;registry'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand list 'List all servers'
            cand ls 'List all servers'
            cand search 'List the servers whose name, description or tags contain all words'
            cand info 'Show one server in detail'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mcpm;registry;list'= {
            cand --registry 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: from the configuration, otherwise `embedded`]'
            cand --mcpm-ca-bundle 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)'
            cand -o 'Output format'
            cand --output 'Output format'
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;registry;ls'= {
            cand --registry 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: from the configuration, otherwise `embedded`]'
            cand --mcpm-ca-bundle 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)'
            cand -o 'Output format'
            cand --output 'Output format'
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;registry;search'= {
            cand --registry 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: from the configuration, otherwise `embedded`]'
            cand --mcpm-ca-bundle 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)'
            cand -o 'Output format'
            cand --output 'Output format'
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;registry;info'= {
            cand --registry 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: from the configuration, otherwise `embedded`]'
            cand --mcpm-ca-bundle 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)'
            cand -o 'Output format'
            cand --output 'Output format'
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;registry;help'= {
            cand list 'List all servers'
            cand search 'List the servers whose name, description or tags contain all words'
            cand info 'Show one server in detail'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mcpm;registry;help;list'= {
        }
        &'mcpm;registry;help;search'= {
        }
        &'mcpm;registry;help;info'= {
        }
        &'mcpm;registry;help;help'= {
        }
        &'mcpm;completion'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;man'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;help'= {
            cand run 'Run an MCP server as a managed workload'
            cand proxy 'Start a transparent HTTP proxy in front of an MCP server'
            cand list 'List workloads and their status'
            cand status 'Show one workload in detail'
            cand stop 'Stop workloads'
            cand start 'Start stopped workloads'
            cand restart 'Restart workloads'
            cand rm 'Stop workloads and remove their containers and records'
            cand logs 'Show the output of a server'
            cand explain 'Explain why a request was denied'
            cand export 'Export a workload''s configuration, without secrets'
            cand group 'Manage groups of workloads'
            cand ignore 'Manage ignore files'
            cand secret 'Manage secrets for servers'
            cand registry 'List and search the servers of a registry'
            cand completion 'Print the completion script of a shell'
            cand man 'Print the manual page, or write one page per command'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mcpm;help;run'= {
        }
        &'mcpm;help;proxy'= {
            cand stdio 'Serve a workload or a URL on standard input and output'
            cand tunnel 'Make a workload or a URL reachable through a tunnel'
        }
        &'mcpm;help;proxy;stdio'= {
        }
        &'mcpm;help;proxy;tunnel'= {
        }
        &'mcpm;help;list'= {
        }
        &'mcpm;help;status'= {
        }
        &'mcpm;help;stop'= {
        }
        &'mcpm;help;start'= {
        }
        &'mcpm;help;restart'= {
        }
        &'mcpm;help;rm'= {
        }
        &'mcpm;help;logs'= {
        }
        &'mcpm;help;explain'= {
        }
        &'mcpm;help;export'= {
        }
        &'mcpm;help;group'= {
            cand create 'Create a group'
            cand list 'List groups'
            cand rm 'Remove a group'
        }
        &'mcpm;help;group;create'= {
        }
        &'mcpm;help;group;list'= {
        }
        &'mcpm;help;group;rm'= {
        }
        &'mcpm;help;ignore'= {
            cand accept 'Accept the current ignore files of a folder, and list those that changed'
        }
        &'mcpm;help;ignore;accept'= {
        }
        &'mcpm;help;secret'= {
            cand set 'Store a secret, read from stdin or prompted for'
            cand get 'Print a secret'
            cand list 'List the names of the secrets, and the sources of their values'
            cand rm 'Remove secrets'
            cand provider 'Show or select the secret store'
        }
        &'mcpm;help;secret;set'= {
        }
        &'mcpm;help;secret;get'= {
        }
        &'mcpm;help;secret;list'= {
        }
        &'mcpm;help;secret;rm'= {
        }
        &'mcpm;help;secret;provider'= {
        }
        &'mcpm;help;registry'= {
            cand list 'List all servers'
            cand search 'List the servers whose name, description or tags contain all words'
            cand info 'Show one server in detail'
        }
        &'mcpm;help;registry;list'= {
        }
        &'mcpm;help;registry;search'= {
        }
        &'mcpm;help;registry;info'= {
        }
        &'mcpm;help;completion'= {
        }
        &'mcpm;help;man'= {
        }
        &'mcpm;help;help'= {
        }
    ]
    $completions[$command]
}
