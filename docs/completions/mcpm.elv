
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
            cand list 'Show the workloads and how they are'
            cand ls 'Show the workloads and how they are'
            cand status 'Show how a workload is'
            cand stop 'Stop workloads'
            cand start 'Start workloads that were stopped'
            cand restart 'Stop workloads and start them again'
            cand rm 'Stop workloads and remove their containers and records'
            cand logs 'Show what a server wrote'
            cand explain 'Explain why something was refused'
            cand export 'Export a workload''s configuration; secrets are left out'
            cand group 'Manage groups of workloads'
            cand ignore 'Manage ignore files'
            cand secret 'Manage the secrets that servers get'
            cand registry 'Show the servers of a registry'
            cand completion 'Print the completion script of a shell'
            cand man 'Print the manual page, or write one page per command'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mcpm;run'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --name 'Name of the MCP server [default: generated from the image]'
            cand --group 'Group the workload belongs to [default: default]'
            cand -l 'Label on the container'
            cand --label 'Label on the container'
            cand --transport 'Transport mode of the server [default: that of the registry entry, or found out]'
            cand --proxy-mode 'Proxy mode of a stdio server; `sse` is deprecated and will be removed [default: streamable-http]'
            cand --host 'IP or hostname the HTTP proxy listens on [default: 127.0.0.1]'
            cand --proxy-port 'Port of this machine the HTTP proxy listens on; 0 picks a free one [default: a free port]'
            cand --target-host 'Host that traffic is forwarded to, for the transports `sse` and `streamable-http` [default: 127.0.0.1]'
            cand --target-port 'Port the container exposes, for the transports `sse` and `streamable-http` [default: the port the image exposes]'
            cand -p 'Publish a container port on this machine'
            cand --publish 'Publish a container port on this machine'
            cand --network 'Network mode of the container: `host`, `bridge`, or a network by name [default: bridge]'
            cand --isolate-network 'Isolate the container network from the host [default: false]'
            cand --allow-runtime-gateway 'Let an isolated container connect to the container runtime''s gateway addresses [default: false]'
            cand -e 'Environment variable for the server'
            cand --env 'Environment variable for the server'
            cand --env-file 'Load environment variables from a file'
            cand --env-file-dir 'Load environment variables from all files in a folder'
            cand --secret 'Secret fetched from the secrets manager and set as an environment variable'
            cand -v 'Mount a file or folder of this machine into the container'
            cand --volume 'Mount a file or folder of this machine into the container'
            cand --permission-profile 'Permissions of the container [default: that of the registry entry, else `network`]'
            cand --learn 'Write a permission profile of what the server connects to, and nothing more, to a file'
            cand -f 'Run in the foreground until the container exits [default: false]'
            cand --foreground 'Run in the foreground until the container exits [default: false]'
            cand --from-config 'Load the configuration from an exported file'
            cand --ignore-globally 'Load global ignore patterns from `~/.config/mcpm/mcpmignore` [default: true]'
            cand --print-resolved-overlays 'Print the container paths that overlays of ignored files and folders resolve to [default: false]'
            cand --image-verification 'Image verification mode [default: warn]'
            cand --image-verification-key 'PEM file with the public key that the image must be signed with'
            cand --certificate-identity 'Name in the certificate of who must have signed the image: a mail address or a URI [default: what the registry entry says]'
            cand --certificate-oidc-issuer 'Issuer that must vouch for the certificate identity [default: what the registry entry says]'
            cand --sigstore-trusted-root 'Sigstore''s `trusted_root.json`, with the certificates and logs that are believed [default: that of Sigstore''s public instance]'
            cand --ca-cert 'Custom CA certificate file used for container builds'
            cand --mcpm-ca-bundle 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)'
            cand --runtime-image 'Base image for protocol schemes'
            cand --runtime-add-package 'Extra package to install in the builder and runtime stages'
            cand --endpoint-prefix 'Path prefix prepended to SSE endpoint URLs'
            cand --trust-proxy-headers 'Trust `X-Forwarded-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies [default: false]'
            cand --tools 'Tools of the server that are let through, all others are hidden'
            cand --tools-override 'JSON file that overrides tool names and descriptions'
            cand --authz-config 'Authorization configuration file'
            cand --audit-config 'Audit configuration file'
            cand --enable-audit 'Enable audit logging with the default configuration [default: false]'
            cand --runtime 'Container engine to run on [default: auto]'
            cand --package-command 'Command of the package that is the server, when the package has several'
            cand --rebuild 'Build the package''s image again, with the newest version that its name stands for [default: false]'
            cand --offline 'Fetch nothing: the image must be on this machine [default: false]'
            cand --allowed-origins 'Origins of browser pages that may call the proxy, beside its own'
            cand --allowed-hosts 'Host names that clients may call the proxy by, beside the one it listens on'
            cand --registry 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: that of the settings, else `embedded`]'
            cand --oidc-issuer 'OIDC issuer URL'
            cand --oidc-audience 'Expected audience of the token [default: the resource URL, else the URL of the proxy]'
            cand --oidc-client-id 'OIDC client ID'
            cand --oidc-client-secret 'OIDC client secret, for introspection [env: MCPM_OIDC_CLIENT_SECRET]'
            cand --oidc-introspection-url 'Token introspection endpoint URL [default: that of the issuer, with a client secret]'
            cand --oidc-jwks-url 'URL to fetch the JWKS from [default: that of the issuer]'
            cand --oidc-scopes 'OAuth scopes advertised in the well-known endpoint (RFC 9728) [default: openid]'
            cand --oidc-required-scopes 'OAuth scopes that a token must have'
            cand --oidc-insecure-allow-http 'Allow OIDC issuers without HTTPS, for local development and testing (insecure) [default: false]'
            cand --jwks-allow-private-ip 'Allow JWKS and OIDC endpoints on private IP addresses [default: false]'
            cand --jwks-auth-token-file 'File with a bearer token that authenticates JWKS and OIDC requests'
            cand --remote-auth 'Enable OAuth/OIDC authentication to the remote server [default: false] [not supported yet]'
            cand --remote-auth-issuer 'OAuth/OIDC issuer URL [not supported yet]'
            cand --remote-auth-authorize-url 'Authorization endpoint, in place of the issuer for OAuth without OIDC [not supported yet]'
            cand --remote-auth-token-url 'Token endpoint, in place of the issuer for OAuth without OIDC [not supported yet]'
            cand --remote-auth-client-id 'OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591) [not supported yet]'
            cand --remote-auth-client-secret 'OAuth client secret; not needed with dynamic client registration or PKCE [env: MCPM_REMOTE_OAUTH_CLIENT_SECRET] [not supported yet]'
            cand --remote-auth-client-secret-file 'File with the OAuth client secret [not supported yet]'
            cand --remote-auth-bearer-token 'Bearer token for the remote server, in place of OAuth [not supported yet]'
            cand --remote-auth-bearer-token-file 'File with the bearer token for the remote server [not supported yet]'
            cand --remote-auth-scopes 'Scopes requested [default: `openid,profile,email` with OIDC] [not supported yet]'
            cand --remote-auth-resource 'OAuth 2.0 resource indicator (RFC 8707) [not supported yet]'
            cand --resource-url 'Explicit resource URL for the OAuth discovery endpoint (RFC 9728) [default: where the proxy listens]'
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
            cand --token-exchange-scopes 'Scopes requested for exchanged tokens'
            cand --token-exchange-subject-token-type 'Kind of token that is exchanged [default: access_token]'
            cand --token-exchange-header-name 'Header that carries the exchanged token [default: it replaces `Authorization`]'
            cand --otel-endpoint 'OTLP endpoint URL'
            cand --otel-insecure 'Use HTTP instead of HTTPS for the OTLP endpoint [default: false]'
            cand --otel-headers 'OTLP header'
            cand --otel-service-name 'Service name [default: `mcpm-<name>`]'
            cand --otel-custom-attributes 'Custom resource attributes'
            cand --otel-env-vars 'Names of environment variables to include in spans'
            cand --otel-tracing-enabled 'Distributed tracing, effective with an OTLP endpoint [default: true]'
            cand --otel-metrics-enabled 'OTLP metrics export, effective with an OTLP endpoint [default: true]'
            cand --otel-sampling-rate 'Trace sampling rate, from 0.0 to 1.0 [default: 0.1]'
            cand --otel-enable-prometheus-metrics-path 'Serve `/metrics` on the main transport port [default: false]'
            cand --otel-use-legacy-attributes 'Emit legacy attribute names alongside the new semantic-convention names [default: true]'
            cand --otel-prometheus-port 'Port of the loopback address on which `/metrics` is served without a token'
            cand --otel-protocol 'How OTLP is spoken [default: http]'
            cand -o 'Form of the result'
            cand --output 'Form of the result'
            cand --plan 'Show what would be started, and where each value comes from, and start nothing'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;proxy'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --target-uri 'URI of the target MCP server'
            cand --host 'IP or hostname the HTTP proxy listens on [default: 127.0.0.1]'
            cand --port 'Port of this machine the proxy listens on; 0 picks a free one [default: a free port]'
            cand --mcpm-ca-bundle 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)'
            cand --trust-proxy-headers 'Trust `X-Forwarded-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies [default: false]'
            cand --tools 'Tools of the server that are let through, all others are hidden'
            cand --tools-override 'JSON file that overrides tool names and descriptions'
            cand --authz-config 'Authorization configuration file'
            cand --audit-config 'Audit configuration file'
            cand --enable-audit 'Enable audit logging with the default configuration [default: false]'
            cand --allowed-origins 'Origins of browser pages that may call the proxy, beside its own'
            cand --allowed-hosts 'Host names that clients may call the proxy by, beside the one it listens on'
            cand --oidc-issuer 'OIDC issuer URL'
            cand --oidc-audience 'Expected audience of the token [default: the resource URL, else the URL of the proxy]'
            cand --oidc-client-id 'OIDC client ID'
            cand --oidc-client-secret 'OIDC client secret, for introspection [env: MCPM_OIDC_CLIENT_SECRET]'
            cand --oidc-introspection-url 'Token introspection endpoint URL [default: that of the issuer, with a client secret]'
            cand --oidc-jwks-url 'URL to fetch the JWKS from [default: that of the issuer]'
            cand --oidc-scopes 'OAuth scopes advertised in the well-known endpoint (RFC 9728) [default: openid]'
            cand --oidc-required-scopes 'OAuth scopes that a token must have'
            cand --oidc-insecure-allow-http 'Allow OIDC issuers without HTTPS, for local development and testing (insecure) [default: false]'
            cand --jwks-allow-private-ip 'Allow JWKS and OIDC endpoints on private IP addresses [default: false]'
            cand --jwks-auth-token-file 'File with a bearer token that authenticates JWKS and OIDC requests'
            cand --remote-auth 'Enable OAuth/OIDC authentication to the remote server [default: false] [not supported yet]'
            cand --remote-auth-issuer 'OAuth/OIDC issuer URL [not supported yet]'
            cand --remote-auth-authorize-url 'Authorization endpoint, in place of the issuer for OAuth without OIDC [not supported yet]'
            cand --remote-auth-token-url 'Token endpoint, in place of the issuer for OAuth without OIDC [not supported yet]'
            cand --remote-auth-client-id 'OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591) [not supported yet]'
            cand --remote-auth-client-secret 'OAuth client secret; not needed with dynamic client registration or PKCE [env: MCPM_REMOTE_OAUTH_CLIENT_SECRET] [not supported yet]'
            cand --remote-auth-client-secret-file 'File with the OAuth client secret [not supported yet]'
            cand --remote-auth-bearer-token 'Bearer token for the remote server, in place of OAuth [not supported yet]'
            cand --remote-auth-bearer-token-file 'File with the bearer token for the remote server [not supported yet]'
            cand --remote-auth-scopes 'Scopes requested [default: `openid,profile,email` with OIDC] [not supported yet]'
            cand --remote-auth-resource 'OAuth 2.0 resource indicator (RFC 8707) [not supported yet]'
            cand --resource-url 'Explicit resource URL for the OAuth discovery endpoint (RFC 9728) [default: where the proxy listens]'
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
            cand --token-exchange-scopes 'Scopes requested for exchanged tokens'
            cand --token-exchange-subject-token-type 'Kind of token that is exchanged [default: access_token]'
            cand --token-exchange-header-name 'Header that carries the exchanged token [default: it replaces `Authorization`]'
            cand --otel-endpoint 'OTLP endpoint URL'
            cand --otel-insecure 'Use HTTP instead of HTTPS for the OTLP endpoint [default: false]'
            cand --otel-headers 'OTLP header'
            cand --otel-service-name 'Service name [default: `mcpm-<name>`]'
            cand --otel-custom-attributes 'Custom resource attributes'
            cand --otel-env-vars 'Names of environment variables to include in spans'
            cand --otel-tracing-enabled 'Distributed tracing, effective with an OTLP endpoint [default: true]'
            cand --otel-metrics-enabled 'OTLP metrics export, effective with an OTLP endpoint [default: true]'
            cand --otel-sampling-rate 'Trace sampling rate, from 0.0 to 1.0 [default: 0.1]'
            cand --otel-enable-prometheus-metrics-path 'Serve `/metrics` on the main transport port [default: false]'
            cand --otel-use-legacy-attributes 'Emit legacy attribute names alongside the new semantic-convention names [default: true]'
            cand --otel-prometheus-port 'Port of the loopback address on which `/metrics` is served without a token'
            cand --otel-protocol 'How OTLP is spoken [default: http]'
            cand -o 'Form of the result'
            cand --output 'Form of the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;list'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --group 'Only those of a group'
            cand -o 'Form of the result'
            cand --output 'Form of the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;ls'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --group 'Only those of a group'
            cand -o 'Form of the result'
            cand --output 'Form of the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;status'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -o 'Form of the result'
            cand --output 'Form of the result'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;stop'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --group 'All workloads of a group'
            cand --timeout 'How long a server may take to end by itself [default: 10]'
            cand --all 'All workloads'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;start'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --group 'All workloads of a group'
            cand -o 'Form of the result'
            cand --output 'Form of the result'
            cand --all 'All workloads'
            cand -f 'Run in the foreground until the container exits; for one workload'
            cand --foreground 'Run in the foreground until the container exits; for one workload'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;restart'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --group 'All workloads of a group'
            cand -o 'Form of the result'
            cand --output 'Form of the result'
            cand --timeout 'How long a server may take to end by itself [default: 10]'
            cand --all 'All workloads'
            cand -f 'Run in the foreground until the container exits; for one workload'
            cand --foreground 'Run in the foreground until the container exits; for one workload'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;rm'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --group 'All workloads of a group'
            cand --timeout 'How long a server may take to end by itself [default: 10]'
            cand --all 'All workloads'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;logs'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --tail 'Only that many last lines'
            cand -f 'Go on until the server ends'
            cand --follow 'Go on until the server ends'
            cand --proxy 'The log of the workload''s proxy instead'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;explain'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -o 'Form of the result'
            cand --output 'Form of the result'
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
            cand create 'Make a group'
            cand list 'Show the groups'
            cand ls 'Show the groups'
            cand rm 'Remove a group'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mcpm;group;create'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;group;list'= {
            cand -o 'Form of the result'
            cand --output 'Form of the result'
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;group;ls'= {
            cand -o 'Form of the result'
            cand --output 'Form of the result'
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;group;rm'= {
            cand --debug 'Enable debug mode [default: false]'
            cand --with-workloads 'Remove its workloads too; without it, a group that has some stays'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;group;help'= {
            cand create 'Make a group'
            cand list 'Show the groups'
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
            cand accept 'Let the ignore files of a folder count as they are now, and show those that changed'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mcpm;ignore;accept'= {
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;ignore;help'= {
            cand accept 'Let the ignore files of a folder count as they are now, and show those that changed'
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
            cand set 'Keep a value, which is read from standard input, or asked for on a terminal'
            cand get 'Print a value'
            cand list 'Show the names of the secrets, and where their values come from'
            cand ls 'Show the names of the secrets, and where their values come from'
            cand rm 'Forget values'
            cand provider 'Show or choose where secrets are kept'
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
            cand -o 'Form of the result'
            cand --output 'Form of the result'
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;secret;ls'= {
            cand -o 'Form of the result'
            cand --output 'Form of the result'
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
            cand --password-in-keyring 'For `encrypted`: let the keyring keep the password, once it was asked for'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;secret;help'= {
            cand set 'Keep a value, which is read from standard input, or asked for on a terminal'
            cand get 'Print a value'
            cand list 'Show the names of the secrets, and where their values come from'
            cand rm 'Forget values'
            cand provider 'Show or choose where secrets are kept'
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
            cand list 'Show all servers'
            cand ls 'Show all servers'
            cand search 'Show the servers that have all words in their names, descriptions or tags'
            cand info 'Show one server'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mcpm;registry;list'= {
            cand --registry 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: that of the settings, else `embedded`]'
            cand --mcpm-ca-bundle 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)'
            cand -o 'Form of the result'
            cand --output 'Form of the result'
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;registry;ls'= {
            cand --registry 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: that of the settings, else `embedded`]'
            cand --mcpm-ca-bundle 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)'
            cand -o 'Form of the result'
            cand --output 'Form of the result'
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;registry;search'= {
            cand --registry 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: that of the settings, else `embedded`]'
            cand --mcpm-ca-bundle 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)'
            cand -o 'Form of the result'
            cand --output 'Form of the result'
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;registry;info'= {
            cand --registry 'Registry that server names are looked up in: `embedded`, a file, or a URL [default: that of the settings, else `embedded`]'
            cand --mcpm-ca-bundle 'CA certificate bundle for mcpm''s own HTTP requests (JWKS, OIDC discovery, etc.)'
            cand -o 'Form of the result'
            cand --output 'Form of the result'
            cand --debug 'Enable debug mode [default: false]'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'mcpm;registry;help'= {
            cand list 'Show all servers'
            cand search 'Show the servers that have all words in their names, descriptions or tags'
            cand info 'Show one server'
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
            cand list 'Show the workloads and how they are'
            cand status 'Show how a workload is'
            cand stop 'Stop workloads'
            cand start 'Start workloads that were stopped'
            cand restart 'Stop workloads and start them again'
            cand rm 'Stop workloads and remove their containers and records'
            cand logs 'Show what a server wrote'
            cand explain 'Explain why something was refused'
            cand export 'Export a workload''s configuration; secrets are left out'
            cand group 'Manage groups of workloads'
            cand ignore 'Manage ignore files'
            cand secret 'Manage the secrets that servers get'
            cand registry 'Show the servers of a registry'
            cand completion 'Print the completion script of a shell'
            cand man 'Print the manual page, or write one page per command'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'mcpm;help;run'= {
        }
        &'mcpm;help;proxy'= {
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
            cand create 'Make a group'
            cand list 'Show the groups'
            cand rm 'Remove a group'
        }
        &'mcpm;help;group;create'= {
        }
        &'mcpm;help;group;list'= {
        }
        &'mcpm;help;group;rm'= {
        }
        &'mcpm;help;ignore'= {
            cand accept 'Let the ignore files of a folder count as they are now, and show those that changed'
        }
        &'mcpm;help;ignore;accept'= {
        }
        &'mcpm;help;secret'= {
            cand set 'Keep a value, which is read from standard input, or asked for on a terminal'
            cand get 'Print a value'
            cand list 'Show the names of the secrets, and where their values come from'
            cand rm 'Forget values'
            cand provider 'Show or choose where secrets are kept'
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
            cand list 'Show all servers'
            cand search 'Show the servers that have all words in their names, descriptions or tags'
            cand info 'Show one server'
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
