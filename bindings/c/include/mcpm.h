/**
 * The C face of mcpm. Made from the sources; do not edit.
 *
 * Conventions, which hold for every function:
 *
 * - A text is UTF-8 and ends with a zero byte. One that is given is copied; the caller keeps its own. One that is
 *   returned says who frees it.
 * - What a `_new` or `_start` function hands out belongs to the caller, who ends it with its `_free` function.
 * - A builder is used by one thread at a time, and for one start. A handle may be used by many threads at a time,
 *   until one of them frees it.
 * - A setter returns nothing. A builder remembers the first value it had to refuse (a null pointer, text that is no
 *   UTF-8, a bad value), and the start tells it. A setter of a repeatable option adds one value per call. A setter of
 *   a null builder does nothing.
 * - Where a function returns a status, it takes a pointer to an error last. That pointer may be null. On failure it
 *   gets an error, which the caller frees with `mcpm_error_free`; on success it gets null.
 * - Results go through pointers and are written on success alone.
 * - A panic of the library stops here and becomes `MCPM_STATUS_INTERNAL`.
 */


#ifndef MCPM_H
#define MCPM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Outcome of a call. The numbers never change.
 */
typedef enum {
  /**
   * Done.
   */
  MCPM_STATUS_OK = 0,
  /**
   * A pointer was null, a text was no UTF-8, or a builder was used before.
   */
  MCPM_STATUS_BAD_ARGUMENT = 1,
  /**
   * An option has a bad value, or options contradict each other.
   */
  MCPM_STATUS_INVALID_OPTION = 2,
  /**
   * An option or a form is known but not built yet.
   */
  MCPM_STATUS_UNSUPPORTED = 3,
  /**
   * No workload, group or file of that name exists.
   */
  MCPM_STATUS_NOT_FOUND = 4,
  /**
   * A workload or group of that name exists already.
   */
  MCPM_STATUS_NAME_TAKEN = 5,
  /**
   * The port to listen on is in use.
   */
  MCPM_STATUS_PORT_TAKEN = 6,
  /**
   * No container engine answered, or it refused access.
   */
  MCPM_STATUS_ENGINE_UNAVAILABLE = 7,
  /**
   * The image is not on this machine and cannot be pulled.
   */
  MCPM_STATUS_IMAGE_UNAVAILABLE = 8,
  /**
   * The server ended, or never answered, before it was ready.
   */
  MCPM_STATUS_START_FAILED = 9,
  /**
   * A file or folder could not be read or written.
   */
  MCPM_STATUS_IO = 10,
  /**
   * A stored file is damaged or of an unknown version.
   */
  MCPM_STATUS_CORRUPT_STATE = 11,
  /**
   * The engine refused an operation or answered nonsense.
   */
  MCPM_STATUS_ENGINE = 12,
  /**
   * The MCP server behind the proxy failed.
   */
  MCPM_STATUS_UPSTREAM = 13,
  /**
   * The operation was stopped by its caller.
   */
  MCPM_STATUS_INTERRUPTED = 14,
  /**
   * A defect in mcpm itself.
   */
  MCPM_STATUS_INTERNAL = 15,
  /**
   * The call waits, and an asynchronous task runs on this thread; call it from another.
   */
  MCPM_STATUS_NOT_HERE = 16,
  /**
   * The store of secrets cannot be opened: a wrong password or none, no keyring, a program that fails.
   */
  MCPM_STATUS_SECRETS_UNAVAILABLE = 17,
  /**
   * The registry cannot be read, or what it says of a server cannot be used.
   */
  MCPM_STATUS_REGISTRY = 18,
  /**
   * The image must be signed, and has no signature that counts.
   */
  MCPM_STATUS_IMAGE_UNVERIFIED = 19,
} mcpm_status;

/**
 * Where a workload or a proxy is in its life. The numbers never change.
 */
typedef enum {
  /**
   * On its way to its first answer.
   */
  MCPM_PHASE_STARTING = 0,
  /**
   * Answering.
   */
  MCPM_PHASE_RUNNING = 1,
  /**
   * Its server ended and is being started again.
   */
  MCPM_PHASE_RESTARTING = 2,
  /**
   * On its way down, as asked.
   */
  MCPM_PHASE_STOPPING = 3,
  /**
   * Down, as asked.
   */
  MCPM_PHASE_STOPPED = 4,
  /**
   * Down for a reason that nobody asked for.
   */
  MCPM_PHASE_FAILED = 5,
} mcpm_phase;

/**
 * Why a call failed.
 */
typedef struct mcpm_error mcpm_error;

/**
 * Why something was refused. Its texts live as long as it does.
 */
typedef struct mcpm_explanation mcpm_explanation;

/**
 * A proxy that was started in front of an MCP server.
 */
typedef struct mcpm_proxy mcpm_proxy;

/**
 * A workload that was started: an MCP server in a container, behind a proxy of its own.
 */
typedef struct mcpm_workload mcpm_workload;

/**
 * Collects the options of a proxy.
 */
typedef struct mcpm_proxy_builder mcpm_proxy_builder;

/**
 * Collects the options of a workload.
 */
typedef struct mcpm_workload_builder mcpm_workload_builder;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the status of an error; that of a null pointer is `MCPM_STATUS_OK`.
 */
mcpm_status mcpm_error_status(const mcpm_error *error);

/**
 * Returns what went wrong in one line; it lives as long as the error. Null has no message and returns null.
 */
const char *mcpm_error_message(const mcpm_error *error);

/**
 * Frees a text that a function said to free; null is allowed.
 */
void mcpm_string_free(char *text);

/**
 * Frees an error; null is allowed.
 */
void mcpm_error_free(mcpm_error *error);

/**
 * Explains the id of a reason, such as `tools.not_listed`, or of a refusal that a workload or a `mcpm proxy` has on
 * record.
 *
 * Records are found through the environment variables of the process, as by the command line. On success
 * `explanation` gets what `mcpm_explanation_free` frees.
 */
mcpm_status mcpm_explain(const char *id,
                         mcpm_explanation **explanation,
                         mcpm_error **error);

/**
 * Explains the id of a reason, or of one of the last refusals of a proxy.
 *
 * On success `explanation` gets what `mcpm_explanation_free` frees.
 */
mcpm_status mcpm_proxy_explain(const mcpm_proxy *proxy,
                               const char *id,
                               mcpm_explanation **explanation,
                               mcpm_error **error);

/**
 * Returns the id of the reason. Null returns null.
 */
const char *mcpm_explanation_reason(const mcpm_explanation *explanation);

/**
 * Returns the layer that refuses for it. Null returns null.
 */
const char *mcpm_explanation_layer(const mcpm_explanation *explanation);

/**
 * Returns what the reason means. Null returns null.
 */
const char *mcpm_explanation_meaning(const mcpm_explanation *explanation);

/**
 * Returns what usually helps. Null returns null.
 */
const char *mcpm_explanation_usual_fix(const mcpm_explanation *explanation);

/**
 * Returns the smallest change that would have let it pass; null when it was a reason that was asked about.
 */
const char *mcpm_explanation_fix(const mcpm_explanation *explanation);

/**
 * Returns the rule that was gone by; null where the layer has one alone, or a reason was asked about.
 */
const char *mcpm_explanation_rule(const mcpm_explanation *explanation);

/**
 * Returns the server that it was about; null when it was a reason that was asked about.
 */
const char *mcpm_explanation_server(const mcpm_explanation *explanation);

/**
 * Returns when it was refused (RFC 3339); null when it was a reason that was asked about.
 */
const char *mcpm_explanation_time(const mcpm_explanation *explanation);

/**
 * Reads one of the things that the layer looked at, without secrets: they are counted from 0.
 *
 * Returns false, and writes nothing, behind the last one. `name` and `value` live as long as the explanation.
 */
bool mcpm_explanation_input(const mcpm_explanation *explanation,
                            size_t index,
                            const char **name,
                            const char **value);

/**
 * Frees an explanation; null is allowed.
 */
void mcpm_explanation_free(mcpm_explanation *explanation);

/**
 * Returns a builder without options; free it with `mcpm_proxy_builder_free`.
 */
mcpm_proxy_builder *mcpm_proxy_builder_new(void);

/**
 * Sets the option of that name, such as `target-uri`, from a text as on a command line.
 */
void mcpm_proxy_builder_set(mcpm_proxy_builder *builder, const char *name, const char *value);

/**
 * Frees a builder; null is allowed.
 */
void mcpm_proxy_builder_free(mcpm_proxy_builder *builder);

/**
 * Starts a proxy and waits until clients can connect.
 *
 * It uses up the options of the builder, which is still to be freed. On success `proxy` gets a handle, which
 * `mcpm_proxy_free` frees.
 */
mcpm_status mcpm_proxy_start(mcpm_proxy_builder *builder, mcpm_proxy **proxy, mcpm_error **error);

/**
 * Returns the name of the server; it lives as long as the handle. Null returns null.
 */
const char *mcpm_proxy_name(const mcpm_proxy *proxy);

/**
 * Returns where clients connect; it lives as long as the handle. Null returns null.
 */
const char *mcpm_proxy_url(const mcpm_proxy *proxy);

/**
 * Returns a warning of the start, such as that callers are not authenticated, or that an option has no effect, by its number
 * from 0; it lives as long as the handle. Null and a number beyond the last one return null.
 */
const char *mcpm_proxy_warning(const mcpm_proxy *proxy,
                               size_t number);

/**
 * Checks with one MCP exchange whether the target is an MCP server. The start does not need a target that is up, so it does
 * not check that.
 */
mcpm_status mcpm_proxy_check(const mcpm_proxy *proxy,
                             mcpm_error **error);

/**
 * Tells where a proxy is in its life.
 */
mcpm_status mcpm_proxy_status(const mcpm_proxy *proxy, mcpm_phase *phase, mcpm_error **error);

/**
 * Stops listening and lets answers under way finish for up to 2 s.
 *
 * Stopping twice does no harm. The handle is still to be freed.
 */
mcpm_status mcpm_proxy_stop(mcpm_proxy *proxy, mcpm_error **error);

/**
 * Frees a proxy; null is allowed. One that still runs ends a moment later; stop it first to wait for that.
 */
void mcpm_proxy_free(mcpm_proxy *proxy);

/**
 * Server name, image, `uvx://`, `npx://` or `go://` package, or URL.
 *
 * A server name is looked up in the registry, which supplies transport, permissions and environment;
 * what is no name there is an image. `registry:NAME` and `image:IMAGE` say which of the two is meant.
 * An image is run as it is. For a package a container is generated that runs it; `go://./path` and
 * `go://../path` build a local Go project. A URL is a remote server that is proxied as a workload.
 */
void mcpm_workload_builder_server(mcpm_workload_builder *builder, const char *value);

/**
 * Arguments passed to the MCP server.
 */
void mcpm_workload_builder_args(mcpm_workload_builder *builder, const char *value);

/**
 * Name of the MCP server.
 *
 * Default: generated from the image.
 */
void mcpm_workload_builder_name(mcpm_workload_builder *builder, const char *value);

/**
 * Group the workload belongs to.
 *
 * A group that does not exist is created.
 *
 * Default: `default`.
 */
void mcpm_workload_builder_group(mcpm_workload_builder *builder, const char *value);

/**
 * Label on the container.
 */
void mcpm_workload_builder_label(mcpm_workload_builder *builder, const char *value);

/**
 * Transport mode of the server.
 *
 * One of `sse`, `streamable-http`, `stdio`.
 *
 * Default: that of the registry entry, or found out.
 */
void mcpm_workload_builder_transport(mcpm_workload_builder *builder, const char *value);

/**
 * Proxy mode of a stdio server; `sse` is deprecated and will be removed.
 *
 * One of `streamable-http`, `sse`.
 *
 * Default: `streamable-http`.
 */
void mcpm_workload_builder_proxy_mode(mcpm_workload_builder *builder, const char *value);

/**
 * IP or hostname the HTTP proxy listens on.
 *
 * Default: `127.0.0.1`.
 */
void mcpm_workload_builder_host(mcpm_workload_builder *builder, const char *value);

/**
 * Port of this machine the HTTP proxy listens on; 0 picks a free one.
 *
 * Default: a free port.
 */
void mcpm_workload_builder_proxy_port(mcpm_workload_builder *builder, uint16_t value);

/**
 * Host that traffic is forwarded to, for the transports `sse` and `streamable-http`.
 *
 * Default: `127.0.0.1`.
 */
void mcpm_workload_builder_target_host(mcpm_workload_builder *builder, const char *value);

/**
 * Port the container exposes, for the transports `sse` and `streamable-http`.
 *
 * Default: the port the image exposes.
 */
void mcpm_workload_builder_target_port(mcpm_workload_builder *builder, uint16_t value);

/**
 * Publish a container port on this machine.
 *
 * It is published on the loopback address unless another is written before it. With the container's
 * port alone, any free port of this machine is taken. An IPv6 address stands in brackets.
 */
void mcpm_workload_builder_publish(mcpm_workload_builder *builder, const char *value);

/**
 * Network mode of the container: `host`, `bridge`, or a network by name.
 *
 * Default: `bridge`.
 */
void mcpm_workload_builder_network(mcpm_workload_builder *builder, const char *value);

/**
 * Isolate the container network from the host.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_isolate_network(mcpm_workload_builder *builder, bool value);

/**
 * Let an isolated container connect to the container runtime's gateway addresses.
 *
 * Applies only with `--isolate-network`. The addresses are two host-gateway hostnames and
 * `172.17.0.1`. They are blocked otherwise, even when the permission profile has `insecure_allow_all`.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_allow_runtime_gateway(mcpm_workload_builder *builder, bool value);

/**
 * Environment variable for the server.
 */
void mcpm_workload_builder_env(mcpm_workload_builder *builder, const char *value);

/**
 * Load environment variables from a file.
 */
void mcpm_workload_builder_env_file(mcpm_workload_builder *builder, const char *value);

/**
 * Load environment variables from all files in a folder.
 */
void mcpm_workload_builder_env_file_dir(mcpm_workload_builder *builder, const char *value);

/**
 * Secret fetched from the secrets manager and set as an environment variable.
 *
 * `NAME` is what `mcpm secret set` was told. With `file:` and an absolute path as the target, the
 * server gets a file in its container instead; with `header:` and a name, a remote server gets that
 * header with each request.
 */
void mcpm_workload_builder_secret(mcpm_workload_builder *builder, const char *value);

/**
 * Mount a file or folder of this machine into the container.
 *
 * After the container's path come `ro` or `rw`, and `z` (shared) or `Z` (private) for SELinux
 * relabelling, separated by commas. A relative path of this machine starts at the current folder.
 */
void mcpm_workload_builder_volume(mcpm_workload_builder *builder, const char *value);

/**
 * Permissions of the container.
 *
 * Default: that of the registry entry, else `network`.
 */
void mcpm_workload_builder_permission_profile(mcpm_workload_builder *builder, const char *value);

/**
 * Write a permission profile of what the server connects to, and nothing more, to a file.
 *
 * The server runs isolated and may connect to everything public meanwhile.
 */
void mcpm_workload_builder_learn(mcpm_workload_builder *builder, const char *value);

/**
 * Run in the foreground until the container exits.
 *
 * Of the command line alone: what a program starts through the library always runs within it.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_foreground(mcpm_workload_builder *builder, bool value);

/**
 * Load the configuration from an exported file.
 *
 * Of all other options, only `--name`, `--group`, `--proxy-port`, `--foreground` and `--debug` can be
 * given beside it. They take precedence over the file.
 */
void mcpm_workload_builder_from_config(mcpm_workload_builder *builder, const char *value);

/**
 * Load global ignore patterns from `~/.config/mcpm/mcpmignore`.
 *
 * What they match in mounted folders, and what the patterns of a `.mcpmignore` in a mounted folder
 * match, is covered in the container by empty files and folders. Patterns are written as for Git.
 *
 * Default: `true`.
 */
void mcpm_workload_builder_ignore_globally(mcpm_workload_builder *builder, bool value);

/**
 * Print the container paths that overlays of ignored files and folders resolve to.
 *
 * Of the command line alone: a program finds them in the plan.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_print_resolved_overlays(mcpm_workload_builder *builder, bool value);

/**
 * Image verification mode.
 *
 * The signature is looked for in the image's registry. It counts when it was made by whom the registry
 * entry, or the options below, say; the digest that it signs is what runs.
 *
 * One of `warn`, `enabled`, `disabled`.
 *
 * Default: `warn`.
 */
void mcpm_workload_builder_image_verification(mcpm_workload_builder *builder, const char *value);

/**
 * PEM file with the public key that the image must be signed with.
 */
void mcpm_workload_builder_image_verification_key(mcpm_workload_builder *builder, const char *value);

/**
 * Name in the certificate of who must have signed the image: a mail address or a URI.
 *
 * Default: what the registry entry says.
 */
void mcpm_workload_builder_certificate_identity(mcpm_workload_builder *builder, const char *value);

/**
 * Issuer that must vouch for the certificate identity.
 *
 * Default: what the registry entry says.
 */
void mcpm_workload_builder_certificate_oidc_issuer(mcpm_workload_builder *builder, const char *value);

/**
 * Sigstore's `trusted_root.json`, with the certificates and logs that are believed.
 *
 * Default: that of Sigstore's public instance.
 */
void mcpm_workload_builder_sigstore_trusted_root(mcpm_workload_builder *builder, const char *value);

/**
 * Custom CA certificate file used for container builds.
 *
 * The certificates in it are trusted while a package is built and by its server. A server from an
 * image is offered them in a file, by the usual variables.
 */
void mcpm_workload_builder_ca_cert(mcpm_workload_builder *builder, const char *value);

/**
 * CA certificate bundle for mcpm's own HTTP requests (JWKS, OIDC discovery, etc.).
 *
 * The certificates in it are trusted beside those of this machine: for remote servers and targets,
 * registries of servers, image registries that signatures are read from, identity providers, token
 * exchange and telemetry. What the engine pulls is the engine's own to trust.
 */
void mcpm_workload_builder_mcpm_ca_bundle(mcpm_workload_builder *builder, const char *value);

/**
 * Base image for protocol schemes.
 */
void mcpm_workload_builder_runtime_image(mcpm_workload_builder *builder, const char *value);

/**
 * Extra package to install in the builder and runtime stages.
 */
void mcpm_workload_builder_runtime_add_package(mcpm_workload_builder *builder, const char *value);

/**
 * Path prefix prepended to SSE endpoint URLs.
 */
void mcpm_workload_builder_endpoint_prefix(mcpm_workload_builder *builder, const char *value);

/**
 * Trust `X-Forwarded-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_trust_proxy_headers(mcpm_workload_builder *builder, bool value);

/**
 * Tools of the server that are let through, all others are hidden.
 *
 * Names are those that clients see. `*` stands for any text and `?` for any one letter. With a `!`
 * before it, a tool is hidden, whatever else lets it through; `!NAME` alone lets all others through.
 */
void mcpm_workload_builder_tools(mcpm_workload_builder *builder, const char *value);

/**
 * JSON file that overrides tool names and descriptions.
 */
void mcpm_workload_builder_tools_override(mcpm_workload_builder *builder, const char *value);

/**
 * Authorization configuration file.
 *
 * In JSON or YAML, with policies in Cedar.
 */
void mcpm_workload_builder_authz_config(mcpm_workload_builder *builder, const char *value);

/**
 * Audit configuration file.
 *
 * In JSON or YAML; it turns audit logging on.
 */
void mcpm_workload_builder_audit_config(mcpm_workload_builder *builder, const char *value);

/**
 * Enable audit logging with the default configuration.
 *
 * Each request is then recorded as a line of JSON: that of a workload in its folder, that of a proxy
 * alone on standard output.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_enable_audit(mcpm_workload_builder *builder, bool value);

/**
 * Enable debug mode.
 *
 * Of the command line alone: the library's log goes where its program sends it.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_debug(mcpm_workload_builder *builder, bool value);

/**
 * Container engine to run on.
 *
 * One of `auto`, `docker`, `podman`.
 *
 * Default: `auto`.
 */
void mcpm_workload_builder_runtime(mcpm_workload_builder *builder, const char *value);

/**
 * Command of the package that is the server, when the package has several.
 */
void mcpm_workload_builder_package_command(mcpm_workload_builder *builder, const char *value);

/**
 * Build the package's image again, with the newest version that its name stands for.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_rebuild(mcpm_workload_builder *builder, bool value);

/**
 * Fetch nothing: the image must be on this machine.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_offline(mcpm_workload_builder *builder, bool value);

/**
 * Origins of browser pages that may call the proxy, beside its own.
 */
void mcpm_workload_builder_allowed_origins(mcpm_workload_builder *builder, const char *value);

/**
 * Host names that clients may call the proxy by, beside the one it listens on.
 *
 * Without authentication, a request that names another host is refused, since a web page whose name
 * was pointed here could send it. Addresses and loopback names need not be listed.
 */
void mcpm_workload_builder_allowed_hosts(mcpm_workload_builder *builder, const char *value);

/**
 * Registry that server names are looked up in: `embedded`, a file, or a URL.
 *
 * A URL whose path ends in `.json` is that of a document, any other is the base of a registry's REST
 * API.
 *
 * Default: that of the settings, else `embedded`.
 */
void mcpm_workload_builder_registry(mcpm_workload_builder *builder, const char *value);

/**
 * OIDC issuer URL.
 *
 * Each request then needs a token of that issuer. It is compared letter for letter with what tokens
 * say.
 */
void mcpm_workload_builder_oidc_issuer(mcpm_workload_builder *builder, const char *value);

/**
 * Expected audience of the token.
 *
 * Default: the resource URL, else the URL of the proxy.
 */
void mcpm_workload_builder_oidc_audience(mcpm_workload_builder *builder, const char *value);

/**
 * OIDC client ID.
 *
 * With it, and with the client secret, the identity provider is asked about tokens that are not
 * signed.
 */
void mcpm_workload_builder_oidc_client_id(mcpm_workload_builder *builder, const char *value);

/**
 * OIDC client secret, for introspection.
 */
void mcpm_workload_builder_oidc_client_secret(mcpm_workload_builder *builder, const char *value);

/**
 * Token introspection endpoint URL.
 *
 * With an issuer or a JWKS URL beside it, signed tokens are checked with the keys, and only others are
 * asked about.
 *
 * Default: that of the issuer, with a client secret.
 */
void mcpm_workload_builder_oidc_introspection_url(mcpm_workload_builder *builder, const char *value);

/**
 * URL to fetch the JWKS from.
 *
 * Without an issuer beside it, tokens that are signed with these keys are taken whatever issuer they
 * name.
 *
 * Default: that of the issuer.
 */
void mcpm_workload_builder_oidc_jwks_url(mcpm_workload_builder *builder, const char *value);

/**
 * OAuth scopes advertised in the well-known endpoint (RFC 9728).
 *
 * Default: `openid`.
 */
void mcpm_workload_builder_oidc_scopes(mcpm_workload_builder *builder, const char *value);

/**
 * OAuth scopes that a token must have.
 */
void mcpm_workload_builder_oidc_required_scopes(mcpm_workload_builder *builder, const char *value);

/**
 * Allow OIDC issuers without HTTPS, for local development and testing (insecure).
 *
 * Default: `false`.
 */
void mcpm_workload_builder_oidc_insecure_allow_http(mcpm_workload_builder *builder, bool value);

/**
 * Allow JWKS and OIDC endpoints on private IP addresses.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_jwks_allow_private_ip(mcpm_workload_builder *builder, bool value);

/**
 * File with a bearer token that authenticates JWKS and OIDC requests.
 */
void mcpm_workload_builder_jwks_auth_token_file(mcpm_workload_builder *builder, const char *value);

/**
 * Enable OAuth/OIDC authentication to the remote server.
 *
 * Default: `false`.
 *
 * Not supported yet.
 */
void mcpm_workload_builder_remote_auth(mcpm_workload_builder *builder, bool value);

/**
 * OAuth/OIDC issuer URL.
 *
 * Not supported yet.
 */
void mcpm_workload_builder_remote_auth_issuer(mcpm_workload_builder *builder, const char *value);

/**
 * Authorization endpoint, in place of the issuer for OAuth without OIDC.
 *
 * Not supported yet.
 */
void mcpm_workload_builder_remote_auth_authorize_url(mcpm_workload_builder *builder, const char *value);

/**
 * Token endpoint, in place of the issuer for OAuth without OIDC.
 *
 * Not supported yet.
 */
void mcpm_workload_builder_remote_auth_token_url(mcpm_workload_builder *builder, const char *value);

/**
 * OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591).
 *
 * Not supported yet.
 */
void mcpm_workload_builder_remote_auth_client_id(mcpm_workload_builder *builder, const char *value);

/**
 * OAuth client secret; not needed with dynamic client registration or PKCE.
 *
 * It goes before `--remote-auth-client-secret-file`, which goes before the environment variable. Not
 * for production: other users of the machine may see it in the list of processes.
 *
 * Not supported yet.
 */
void mcpm_workload_builder_remote_auth_client_secret(mcpm_workload_builder *builder, const char *value);

/**
 * File with the OAuth client secret.
 *
 * Not supported yet.
 */
void mcpm_workload_builder_remote_auth_client_secret_file(mcpm_workload_builder *builder, const char *value);

/**
 * Bearer token for the remote server, in place of OAuth.
 *
 * Not supported yet.
 */
void mcpm_workload_builder_remote_auth_bearer_token(mcpm_workload_builder *builder, const char *value);

/**
 * File with the bearer token for the remote server.
 *
 * Not supported yet.
 */
void mcpm_workload_builder_remote_auth_bearer_token_file(mcpm_workload_builder *builder, const char *value);

/**
 * Scopes requested.
 *
 * Default: `openid,profile,email` with OIDC.
 *
 * Not supported yet.
 */
void mcpm_workload_builder_remote_auth_scopes(mcpm_workload_builder *builder, const char *value);

/**
 * OAuth 2.0 resource indicator (RFC 8707).
 *
 * Not supported yet.
 */
void mcpm_workload_builder_remote_auth_resource(mcpm_workload_builder *builder, const char *value);

/**
 * Explicit resource URL for the OAuth discovery endpoint (RFC 9728).
 *
 * Default: where the proxy listens.
 */
void mcpm_workload_builder_resource_url(mcpm_workload_builder *builder, const char *value);

/**
 * Port of the local OAuth callback server.
 *
 * Default: `8666`.
 *
 * Not supported yet.
 */
void mcpm_workload_builder_remote_auth_callback_port(mcpm_workload_builder *builder, uint16_t value);

/**
 * Do not open a browser for the OAuth flow.
 *
 * Default: `false`.
 *
 * Not supported yet.
 */
void mcpm_workload_builder_remote_auth_skip_browser(mcpm_workload_builder *builder, bool value);

/**
 * Timeout of the OAuth flow, such as `30s` or `1m30s`.
 *
 * Default: `30s`.
 *
 * Not supported yet.
 */
void mcpm_workload_builder_remote_auth_timeout(mcpm_workload_builder *builder, uint64_t milliseconds);

/**
 * Header added to requests to the remote server.
 *
 * Not supported yet.
 */
void mcpm_workload_builder_remote_forward_headers(mcpm_workload_builder *builder, const char *value);

/**
 * Header added to requests to the remote server, with its value from the secrets manager.
 *
 * Not supported yet.
 */
void mcpm_workload_builder_remote_forward_headers_secret(mcpm_workload_builder *builder, const char *value);

/**
 * OAuth 2.0 token exchange endpoint; enables token exchange.
 *
 * The token of each caller is exchanged there (RFC 8693) for one that goes to the server in its place.
 * Callers must be asked who they are, with `--oidc-issuer`.
 */
void mcpm_workload_builder_token_exchange_url(mcpm_workload_builder *builder, const char *value);

/**
 * Target audience of exchanged tokens.
 */
void mcpm_workload_builder_token_exchange_audience(mcpm_workload_builder *builder, const char *value);

/**
 * Client ID for token exchange.
 */
void mcpm_workload_builder_token_exchange_client_id(mcpm_workload_builder *builder, const char *value);

/**
 * Client secret for token exchange.
 *
 * It goes before the environment variable, as does a file. Not for production: other users of the
 * machine may see it in the list of processes.
 */
void mcpm_workload_builder_token_exchange_client_secret(mcpm_workload_builder *builder, const char *value);

/**
 * File with the client secret for token exchange.
 *
 * It is read for each exchange.
 */
void mcpm_workload_builder_token_exchange_client_secret_file(mcpm_workload_builder *builder,
                                                             const char *value);

/**
 * Scopes requested for exchanged tokens.
 */
void mcpm_workload_builder_token_exchange_scopes(mcpm_workload_builder *builder, const char *value);

/**
 * Kind of token that is exchanged.
 *
 * With `id_token`, callers are let in with ID tokens too.
 *
 * One of `access_token`, `id_token`.
 *
 * Default: `access_token`.
 */
void mcpm_workload_builder_token_exchange_subject_token_type(mcpm_workload_builder *builder,
                                                             const char *value);

/**
 * Header that carries the exchanged token.
 *
 * Default: it replaces `Authorization`.
 */
void mcpm_workload_builder_token_exchange_header_name(mcpm_workload_builder *builder, const char *value);

/**
 * OTLP endpoint URL.
 *
 * With OTLP over HTTP, `/v1/traces` and `/v1/metrics` are added to its path. Without a scheme it is
 * `https`.
 */
void mcpm_workload_builder_otel_endpoint(mcpm_workload_builder *builder, const char *value);

/**
 * Use HTTP instead of HTTPS for the OTLP endpoint.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_otel_insecure(mcpm_workload_builder *builder, bool value);

/**
 * OTLP header.
 */
void mcpm_workload_builder_otel_headers(mcpm_workload_builder *builder, const char *value);

/**
 * Service name.
 *
 * Default: `mcpm-<name>`.
 */
void mcpm_workload_builder_otel_service_name(mcpm_workload_builder *builder, const char *value);

/**
 * Custom resource attributes.
 */
void mcpm_workload_builder_otel_custom_attributes(mcpm_workload_builder *builder, const char *value);

/**
 * Names of environment variables to include in spans.
 *
 * They are those of mcpm, not those of the server; `MCPM_*` is refused.
 */
void mcpm_workload_builder_otel_env_vars(mcpm_workload_builder *builder, const char *value);

/**
 * Distributed tracing, effective with an OTLP endpoint.
 *
 * Default: `true`.
 */
void mcpm_workload_builder_otel_tracing_enabled(mcpm_workload_builder *builder, bool value);

/**
 * OTLP metrics export, effective with an OTLP endpoint.
 *
 * Default: `true`.
 */
void mcpm_workload_builder_otel_metrics_enabled(mcpm_workload_builder *builder, bool value);

/**
 * Trace sampling rate, from 0.0 to 1.0.
 *
 * Default: `0.1`.
 */
void mcpm_workload_builder_otel_sampling_rate(mcpm_workload_builder *builder, double value);

/**
 * Serve `/metrics` on the main transport port.
 *
 * With incoming authentication it takes a token as everything else does.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_otel_enable_prometheus_metrics_path(mcpm_workload_builder *builder, bool value);

/**
 * Emit legacy attribute names alongside the new semantic-convention names.
 *
 * Default: `true`.
 */
void mcpm_workload_builder_otel_use_legacy_attributes(mcpm_workload_builder *builder, bool value);

/**
 * Port of the loopback address on which `/metrics` is served without a token.
 */
void mcpm_workload_builder_otel_prometheus_port(mcpm_workload_builder *builder, uint16_t value);

/**
 * How OTLP is spoken.
 *
 * One of `http`, `grpc`.
 *
 * Default: `http`.
 */
void mcpm_workload_builder_otel_protocol(mcpm_workload_builder *builder, const char *value);

/**
 * Name of the MCP server, for messages and logs.
 */
void mcpm_proxy_builder_server_name(mcpm_proxy_builder *builder, const char *value);

/**
 * URI of the target MCP server.
 */
void mcpm_proxy_builder_target_uri(mcpm_proxy_builder *builder, const char *value);

/**
 * IP or hostname the HTTP proxy listens on.
 *
 * Default: `127.0.0.1`.
 */
void mcpm_proxy_builder_host(mcpm_proxy_builder *builder, const char *value);

/**
 * Port of this machine the proxy listens on; 0 picks a free one.
 *
 * Default: a free port.
 */
void mcpm_proxy_builder_port(mcpm_proxy_builder *builder, uint16_t value);

/**
 * Enable debug mode.
 *
 * Of the command line alone: the library's log goes where its program sends it.
 *
 * Default: `false`.
 */
void mcpm_proxy_builder_debug(mcpm_proxy_builder *builder, bool value);

/**
 * CA certificate bundle for mcpm's own HTTP requests (JWKS, OIDC discovery, etc.).
 *
 * The certificates in it are trusted beside those of this machine: for remote servers and targets,
 * registries of servers, image registries that signatures are read from, identity providers, token
 * exchange and telemetry. What the engine pulls is the engine's own to trust.
 */
void mcpm_proxy_builder_mcpm_ca_bundle(mcpm_proxy_builder *builder, const char *value);

/**
 * Trust `X-Forwarded-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies.
 *
 * Default: `false`.
 */
void mcpm_proxy_builder_trust_proxy_headers(mcpm_proxy_builder *builder, bool value);

/**
 * Tools of the server that are let through, all others are hidden.
 *
 * Names are those that clients see. `*` stands for any text and `?` for any one letter. With a `!`
 * before it, a tool is hidden, whatever else lets it through; `!NAME` alone lets all others through.
 */
void mcpm_proxy_builder_tools(mcpm_proxy_builder *builder, const char *value);

/**
 * JSON file that overrides tool names and descriptions.
 */
void mcpm_proxy_builder_tools_override(mcpm_proxy_builder *builder, const char *value);

/**
 * Authorization configuration file.
 *
 * In JSON or YAML, with policies in Cedar.
 */
void mcpm_proxy_builder_authz_config(mcpm_proxy_builder *builder, const char *value);

/**
 * Audit configuration file.
 *
 * In JSON or YAML; it turns audit logging on.
 */
void mcpm_proxy_builder_audit_config(mcpm_proxy_builder *builder, const char *value);

/**
 * Enable audit logging with the default configuration.
 *
 * Each request is then recorded as a line of JSON: that of a workload in its folder, that of a proxy
 * alone on standard output.
 *
 * Default: `false`.
 */
void mcpm_proxy_builder_enable_audit(mcpm_proxy_builder *builder, bool value);

/**
 * Origins of browser pages that may call the proxy, beside its own.
 */
void mcpm_proxy_builder_allowed_origins(mcpm_proxy_builder *builder, const char *value);

/**
 * Host names that clients may call the proxy by, beside the one it listens on.
 *
 * Without authentication, a request that names another host is refused, since a web page whose name
 * was pointed here could send it. Addresses and loopback names need not be listed.
 */
void mcpm_proxy_builder_allowed_hosts(mcpm_proxy_builder *builder, const char *value);

/**
 * OIDC issuer URL.
 *
 * Each request then needs a token of that issuer. It is compared letter for letter with what tokens
 * say.
 */
void mcpm_proxy_builder_oidc_issuer(mcpm_proxy_builder *builder, const char *value);

/**
 * Expected audience of the token.
 *
 * Default: the resource URL, else the URL of the proxy.
 */
void mcpm_proxy_builder_oidc_audience(mcpm_proxy_builder *builder, const char *value);

/**
 * OIDC client ID.
 *
 * With it, and with the client secret, the identity provider is asked about tokens that are not
 * signed.
 */
void mcpm_proxy_builder_oidc_client_id(mcpm_proxy_builder *builder, const char *value);

/**
 * OIDC client secret, for introspection.
 */
void mcpm_proxy_builder_oidc_client_secret(mcpm_proxy_builder *builder, const char *value);

/**
 * Token introspection endpoint URL.
 *
 * With an issuer or a JWKS URL beside it, signed tokens are checked with the keys, and only others are
 * asked about.
 *
 * Default: that of the issuer, with a client secret.
 */
void mcpm_proxy_builder_oidc_introspection_url(mcpm_proxy_builder *builder, const char *value);

/**
 * URL to fetch the JWKS from.
 *
 * Without an issuer beside it, tokens that are signed with these keys are taken whatever issuer they
 * name.
 *
 * Default: that of the issuer.
 */
void mcpm_proxy_builder_oidc_jwks_url(mcpm_proxy_builder *builder, const char *value);

/**
 * OAuth scopes advertised in the well-known endpoint (RFC 9728).
 *
 * Default: `openid`.
 */
void mcpm_proxy_builder_oidc_scopes(mcpm_proxy_builder *builder, const char *value);

/**
 * OAuth scopes that a token must have.
 */
void mcpm_proxy_builder_oidc_required_scopes(mcpm_proxy_builder *builder, const char *value);

/**
 * Allow OIDC issuers without HTTPS, for local development and testing (insecure).
 *
 * Default: `false`.
 */
void mcpm_proxy_builder_oidc_insecure_allow_http(mcpm_proxy_builder *builder, bool value);

/**
 * Allow JWKS and OIDC endpoints on private IP addresses.
 *
 * Default: `false`.
 */
void mcpm_proxy_builder_jwks_allow_private_ip(mcpm_proxy_builder *builder, bool value);

/**
 * File with a bearer token that authenticates JWKS and OIDC requests.
 */
void mcpm_proxy_builder_jwks_auth_token_file(mcpm_proxy_builder *builder, const char *value);

/**
 * Enable OAuth/OIDC authentication to the remote server.
 *
 * Default: `false`.
 *
 * Not supported yet.
 */
void mcpm_proxy_builder_remote_auth(mcpm_proxy_builder *builder, bool value);

/**
 * OAuth/OIDC issuer URL.
 *
 * Not supported yet.
 */
void mcpm_proxy_builder_remote_auth_issuer(mcpm_proxy_builder *builder, const char *value);

/**
 * Authorization endpoint, in place of the issuer for OAuth without OIDC.
 *
 * Not supported yet.
 */
void mcpm_proxy_builder_remote_auth_authorize_url(mcpm_proxy_builder *builder, const char *value);

/**
 * Token endpoint, in place of the issuer for OAuth without OIDC.
 *
 * Not supported yet.
 */
void mcpm_proxy_builder_remote_auth_token_url(mcpm_proxy_builder *builder, const char *value);

/**
 * OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591).
 *
 * Not supported yet.
 */
void mcpm_proxy_builder_remote_auth_client_id(mcpm_proxy_builder *builder, const char *value);

/**
 * OAuth client secret; not needed with dynamic client registration or PKCE.
 *
 * It goes before `--remote-auth-client-secret-file`, which goes before the environment variable. Not
 * for production: other users of the machine may see it in the list of processes.
 *
 * Not supported yet.
 */
void mcpm_proxy_builder_remote_auth_client_secret(mcpm_proxy_builder *builder, const char *value);

/**
 * File with the OAuth client secret.
 *
 * Not supported yet.
 */
void mcpm_proxy_builder_remote_auth_client_secret_file(mcpm_proxy_builder *builder, const char *value);

/**
 * Bearer token for the remote server, in place of OAuth.
 *
 * Not supported yet.
 */
void mcpm_proxy_builder_remote_auth_bearer_token(mcpm_proxy_builder *builder, const char *value);

/**
 * File with the bearer token for the remote server.
 *
 * Not supported yet.
 */
void mcpm_proxy_builder_remote_auth_bearer_token_file(mcpm_proxy_builder *builder, const char *value);

/**
 * Scopes requested.
 *
 * Default: `openid,profile,email` with OIDC.
 *
 * Not supported yet.
 */
void mcpm_proxy_builder_remote_auth_scopes(mcpm_proxy_builder *builder, const char *value);

/**
 * OAuth 2.0 resource indicator (RFC 8707).
 *
 * Not supported yet.
 */
void mcpm_proxy_builder_remote_auth_resource(mcpm_proxy_builder *builder, const char *value);

/**
 * Explicit resource URL for the OAuth discovery endpoint (RFC 9728).
 *
 * Default: where the proxy listens.
 */
void mcpm_proxy_builder_resource_url(mcpm_proxy_builder *builder, const char *value);

/**
 * Port of the local OAuth callback server.
 *
 * Default: `8666`.
 *
 * Not supported yet.
 */
void mcpm_proxy_builder_remote_auth_callback_port(mcpm_proxy_builder *builder, uint16_t value);

/**
 * Do not open a browser for the OAuth flow.
 *
 * Default: `false`.
 *
 * Not supported yet.
 */
void mcpm_proxy_builder_remote_auth_skip_browser(mcpm_proxy_builder *builder, bool value);

/**
 * Timeout of the OAuth flow, such as `30s` or `1m30s`.
 *
 * Default: `30s`.
 *
 * Not supported yet.
 */
void mcpm_proxy_builder_remote_auth_timeout(mcpm_proxy_builder *builder, uint64_t milliseconds);

/**
 * Header added to requests to the remote server.
 *
 * Not supported yet.
 */
void mcpm_proxy_builder_remote_forward_headers(mcpm_proxy_builder *builder, const char *value);

/**
 * Header added to requests to the remote server, with its value from the secrets manager.
 *
 * Not supported yet.
 */
void mcpm_proxy_builder_remote_forward_headers_secret(mcpm_proxy_builder *builder, const char *value);

/**
 * OAuth 2.0 token exchange endpoint; enables token exchange.
 *
 * The token of each caller is exchanged there (RFC 8693) for one that goes to the server in its place.
 * Callers must be asked who they are, with `--oidc-issuer`.
 */
void mcpm_proxy_builder_token_exchange_url(mcpm_proxy_builder *builder, const char *value);

/**
 * Target audience of exchanged tokens.
 */
void mcpm_proxy_builder_token_exchange_audience(mcpm_proxy_builder *builder, const char *value);

/**
 * Client ID for token exchange.
 */
void mcpm_proxy_builder_token_exchange_client_id(mcpm_proxy_builder *builder, const char *value);

/**
 * Client secret for token exchange.
 *
 * It goes before the environment variable, as does a file. Not for production: other users of the
 * machine may see it in the list of processes.
 */
void mcpm_proxy_builder_token_exchange_client_secret(mcpm_proxy_builder *builder, const char *value);

/**
 * File with the client secret for token exchange.
 *
 * It is read for each exchange.
 */
void mcpm_proxy_builder_token_exchange_client_secret_file(mcpm_proxy_builder *builder, const char *value);

/**
 * Scopes requested for exchanged tokens.
 */
void mcpm_proxy_builder_token_exchange_scopes(mcpm_proxy_builder *builder, const char *value);

/**
 * Kind of token that is exchanged.
 *
 * With `id_token`, callers are let in with ID tokens too.
 *
 * One of `access_token`, `id_token`.
 *
 * Default: `access_token`.
 */
void mcpm_proxy_builder_token_exchange_subject_token_type(mcpm_proxy_builder *builder, const char *value);

/**
 * Header that carries the exchanged token.
 *
 * Default: it replaces `Authorization`.
 */
void mcpm_proxy_builder_token_exchange_header_name(mcpm_proxy_builder *builder, const char *value);

/**
 * OTLP endpoint URL.
 *
 * With OTLP over HTTP, `/v1/traces` and `/v1/metrics` are added to its path. Without a scheme it is
 * `https`.
 */
void mcpm_proxy_builder_otel_endpoint(mcpm_proxy_builder *builder, const char *value);

/**
 * Use HTTP instead of HTTPS for the OTLP endpoint.
 *
 * Default: `false`.
 */
void mcpm_proxy_builder_otel_insecure(mcpm_proxy_builder *builder, bool value);

/**
 * OTLP header.
 */
void mcpm_proxy_builder_otel_headers(mcpm_proxy_builder *builder, const char *value);

/**
 * Service name.
 *
 * Default: `mcpm-<name>`.
 */
void mcpm_proxy_builder_otel_service_name(mcpm_proxy_builder *builder, const char *value);

/**
 * Custom resource attributes.
 */
void mcpm_proxy_builder_otel_custom_attributes(mcpm_proxy_builder *builder, const char *value);

/**
 * Names of environment variables to include in spans.
 *
 * They are those of mcpm, not those of the server; `MCPM_*` is refused.
 */
void mcpm_proxy_builder_otel_env_vars(mcpm_proxy_builder *builder, const char *value);

/**
 * Distributed tracing, effective with an OTLP endpoint.
 *
 * Default: `true`.
 */
void mcpm_proxy_builder_otel_tracing_enabled(mcpm_proxy_builder *builder, bool value);

/**
 * OTLP metrics export, effective with an OTLP endpoint.
 *
 * Default: `true`.
 */
void mcpm_proxy_builder_otel_metrics_enabled(mcpm_proxy_builder *builder, bool value);

/**
 * Trace sampling rate, from 0.0 to 1.0.
 *
 * Default: `0.1`.
 */
void mcpm_proxy_builder_otel_sampling_rate(mcpm_proxy_builder *builder, double value);

/**
 * Serve `/metrics` on the main transport port.
 *
 * With incoming authentication it takes a token as everything else does.
 *
 * Default: `false`.
 */
void mcpm_proxy_builder_otel_enable_prometheus_metrics_path(mcpm_proxy_builder *builder, bool value);

/**
 * Emit legacy attribute names alongside the new semantic-convention names.
 *
 * Default: `true`.
 */
void mcpm_proxy_builder_otel_use_legacy_attributes(mcpm_proxy_builder *builder, bool value);

/**
 * Port of the loopback address on which `/metrics` is served without a token.
 */
void mcpm_proxy_builder_otel_prometheus_port(mcpm_proxy_builder *builder, uint16_t value);

/**
 * How OTLP is spoken.
 *
 * One of `http`, `grpc`.
 *
 * Default: `http`.
 */
void mcpm_proxy_builder_otel_protocol(mcpm_proxy_builder *builder, const char *value);

/**
 * Ends every workload and proxy of the process, and the threads of mcpm; starts under way are undone.
 *
 * Call it before the process ends, or workloads that still run stay behind. Handles are still to be freed. The
 * next start starts new threads. The status is that of the first workload that could not be ended.
 */
mcpm_status mcpm_shutdown(mcpm_error **error);

/**
 * Returns a builder without options; free it with `mcpm_workload_builder_free`.
 */
mcpm_workload_builder *mcpm_workload_builder_new(void);

/**
 * Sets the option of that name, such as `proxy-port`, from a text as on a command line.
 */
void mcpm_workload_builder_set(mcpm_workload_builder *builder, const char *name, const char *value);

/**
 * Frees a builder; null is allowed.
 */
void mcpm_workload_builder_free(mcpm_workload_builder *builder);

/**
 * Starts a workload and waits until clients can connect.
 *
 * It uses up the options of the builder, which is still to be freed. Records and the engine are found through the
 * environment variables of the process, as by the command line. On success `workload` gets a handle, which
 * `mcpm_workload_free` frees.
 */
mcpm_status mcpm_workload_start(mcpm_workload_builder *builder,
                                mcpm_workload **workload,
                                mcpm_error **error);

/**
 * Returns the name of a workload; it lives as long as the handle. Null returns null.
 */
const char *mcpm_workload_name(const mcpm_workload *workload);

/**
 * Returns where clients connect; it lives as long as the handle. Null returns null.
 */
const char *mcpm_workload_url(const mcpm_workload *workload);

/**
 * Tells how a workload is.
 *
 * `reason` gets why, or null when that is plain; free it with `mcpm_string_free`. The pointer to it may be null.
 */
mcpm_status mcpm_workload_status(const mcpm_workload *workload,
                                 mcpm_phase *phase,
                                 char **reason,
                                 mcpm_error **error);

/**
 * Ends a workload and waits until it is over: its server gets so many seconds to end by itself.
 *
 * Its container and its record stay, so that the command line can start it again. Stopping twice does no harm.
 * The handle is still to be freed.
 */
mcpm_status mcpm_workload_stop(mcpm_workload *workload,
                               uint32_t grace_seconds,
                               mcpm_error **error);

/**
 * Frees a workload; null is allowed.
 *
 * One that still runs is ended: its server at once, its port a moment later. Stop it first to wait for both.
 */
void mcpm_workload_free(mcpm_workload *workload);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MCPM_H */
