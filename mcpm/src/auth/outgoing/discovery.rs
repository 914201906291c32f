//! Discovers the authorization server of a remote server (RFC 9728, RFC 8414, OpenID Connect Discovery 1.0; MCP
//! 2026-07-28, authorization).

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::{Deserialize, de::DeserializeOwned};
use url::Url;

use super::challenge::Challenge;
use crate::{
    Error, ErrorKind, Result,
    auth::guarded_client::{GuardedClient, ProviderRequest},
    explain::Reason,
    printable::Printable as _,
    redact::url::{redact_url, redact_url_text},
};

/// Maximum size of a metadata document in bytes.
const MAX_METADATA_BYTES: usize = 256 << 10;
/// The grant type of the device authorization grant (RFC 8628 section 3.4).
pub(super) const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Maximum number of authorization servers of one resource that are tried.
const MAX_AUTHORIZATION_SERVERS: usize = 5;

/// Metadata of a protected resource (RFC 9728 section 2).
#[derive(Debug, Default, Deserialize)]
struct ResourceMetadata {
    resource: Option<String>,
    #[serde(default)]
    authorization_servers: Vec<String>,
    scopes_supported: Option<Vec<String>>,
}

/// Metadata of an authorization server (RFC 8414 section 2, and its extensions).
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct ServerMetadata {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: Option<String>,
    pub(super) registration_endpoint: Option<String>,
    pub(super) revocation_endpoint: Option<String>,
    /// RFC 8628 section 4.
    pub(super) device_authorization_endpoint: Option<String>,
    pub(super) grant_types_supported: Option<Vec<String>>,
    pub(super) jwks_uri: Option<String>,
    pub(super) scopes_supported: Option<Vec<String>>,
    pub(super) code_challenge_methods_supported: Option<Vec<String>>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// RFC 9207 section 3.
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    pub(super) client_id_metadata_document_supported: bool,
}

/// An authorization server, and the resource that tokens are requested for.
#[derive(Debug, Clone)]
pub(super) struct AuthorizationServer {
    pub(super) metadata: ServerMetadata,
    /// Whether the metadata was read from the server; otherwise it is assumed.
    pub(super) has_metadata: bool,
    /// Whether the metadata is that of OpenID Connect Discovery.
    pub(super) is_openid: bool,
    /// The resource that tokens are requested for.
    pub(super) resource: String,
    /// The scopes that the resource names.
    pub(super) resource_scopes: Vec<String>,
}

impl AuthorizationServer {
    /// A server whose endpoints are configured. Its issuer is unknown, so the URL of the authorization endpoint is used
    /// instead.
    pub(super) fn configured(authorize_url: &str, token_url: &str, target: &Url) -> Self {
        let metadata = ServerMetadata {
            issuer: authorize_url.to_owned(),
            authorization_endpoint: Some(authorize_url.to_owned()),
            token_endpoint: Some(token_url.to_owned()),
            ..ServerMetadata::default()
        };
        Self {
            metadata,
            has_metadata: false,
            is_openid: false,
            resource: canonical(target),
            resource_scopes: Vec::new(),
        }
    }

    /// Whether the server supports the authorization code grant, with a user in a browser.
    pub(super) fn has_code_grant(&self) -> bool {
        self.metadata.authorization_endpoint.is_some() && self.has_grant("authorization_code").unwrap_or(true)
    }

    /// Whether the server supports the device authorization grant (RFC 8628).
    pub(super) fn has_device_grant(&self) -> bool {
        self.metadata.device_authorization_endpoint.is_some() && self.has_grant(DEVICE_GRANT).unwrap_or(true)
    }

    /// Whether the server issues tokens only to clients themselves, and not to users.
    pub(super) fn has_client_credentials_only(&self) -> bool {
        let has_grant = self.has_grant("client_credentials").unwrap_or(false);
        has_grant && !self.has_code_grant() && !self.has_device_grant()
    }

    /// Whether the metadata lists a grant type; `None` if it has no list of grant types.
    fn has_grant(&self, grant: &str) -> Option<bool> {
        let named = self.metadata.grant_types_supported.as_ref()?;
        Some(named.iter().any(|other| other == grant))
    }

    /// Requests tokens for a configured resource, if there is one.
    pub(super) fn with_resource(self, resource: Option<String>) -> Self {
        Self { resource: resource.unwrap_or(self.resource), ..self }
    }
}

/// Finds the authorization server of the remote server at `target`.
///
/// # Errors
/// `Upstream` if no authorization server can be used: its metadata is missing, belongs to another issuer or resource,
/// or is denied by the client's guards.
pub(super) async fn discover(
    http: &GuardedClient,
    target: &Url,
    challenge: Option<&Challenge>,
    issuer: Option<&str>,
) -> Result<AuthorizationServer> {
    let resource = find_resource(http, target, challenge).await?;
    let listed = match issuer {
        Some(issuer) => vec![issuer.to_owned()],
        None => resource.as_ref().map(|found| found.authorization_servers.clone()).unwrap_or_default(),
    };
    let mut failure = None;
    let mut found = None;
    for issuer in listed.iter().take(MAX_AUTHORIZATION_SERVERS) {
        match server_metadata(http, issuer).await {
            Ok(server) => {
                found = Some(server);
                break;
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    let (metadata, kind) = match (found, failure) {
        (Some(found), _) => found,
        (None, Some(error)) => return Err(error),
        (None, None) => origin_as_server(http, target).await?,
    };
    let (resource, resource_scopes) = match resource {
        Some(found) => (found.resource, found.scopes_supported.unwrap_or_default()),
        None => (None, Vec::new()),
    };
    Ok(AuthorizationServer {
        metadata,
        has_metadata: kind != MetadataKind::Assumed,
        is_openid: kind == MetadataKind::OpenId,
        resource: resource.unwrap_or_else(|| canonical(target)),
        resource_scopes,
    })
}

/// The URL of a server as a resource indicator (RFC 8707 section 2): without query, fragment and a lone `/`.
pub(super) fn canonical(target: &Url) -> String {
    let mut url = target.clone();
    url.set_query(None);
    url.set_fragment(None);
    let is_host = url.path() == "/";
    let mut text = String::from(url);
    if is_host {
        text.truncate(text.trim_end_matches('/').len());
    }
    text
}

/// Reads the metadata of the resource from the URL in the challenge, from the well-known location of the path, or from
/// that of the host. `None` if there is no metadata.
async fn find_resource(
    http: &GuardedClient,
    target: &Url,
    challenge: Option<&Challenge>,
) -> Result<Option<ResourceMetadata>> {
    if let Some(named) = challenge.and_then(|challenge| challenge.param("resource_metadata")) {
        let url = http.guard().parse_url(named)?;
        let found = document::<ResourceMetadata>(http, &url).await?;
        let missing = || failed(format!("`{}` returned no protected resource metadata", redact_url(&url)));
        return check_resource(found.ok_or_else(missing)?, target).map(Some);
    }
    let path = target.path().trim_end_matches('/');
    let mut paths = vec![path];
    if !path.is_empty() {
        paths.push("");
    }
    for path in paths {
        let mut url = target.clone();
        url.set_query(None);
        url.set_fragment(None);
        url.set_path(&format!("/.well-known/oauth-protected-resource{path}"));
        if let Some(found) = document::<ResourceMetadata>(http, &url).await? {
            return check_resource(found, target).map(Some);
        }
    }
    Ok(None)
}

/// Compares the resource with the server (RFC 9728 section 3.3): its URL, or a parent of it.
fn check_resource(found: ResourceMetadata, target: &Url) -> Result<ResourceMetadata> {
    let Some(resource) = &found.resource else { return Ok(found) };
    let covers = Url::parse(resource).is_ok_and(|url| {
        let (parent, path) = (url.path().trim_end_matches('/'), target.path());
        let rest = path.strip_prefix(parent);
        url.origin() == target.origin() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    match covers {
        true => Ok(found),
        false => Err(failed(format!(
            "the protected resource metadata of the server is for another resource, `{}`; no token is requested",
            resource.printable()
        ))
        .reason(Reason::LoginMixUp)),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MetadataKind {
    OAuth,
    OpenId,
    /// The default endpoints of MCP 2025-03-26.
    Assumed,
}

/// Reads the metadata of an issuer from the locations that MCP lists, in that order.
async fn server_metadata(http: &GuardedClient, issuer: &str) -> Result<(ServerMetadata, MetadataKind)> {
    let base = http.guard().parse_url(issuer)?;
    for (url, kind) in metadata_urls(&base) {
        if let Some(metadata) = document::<ServerMetadata>(http, &url).await? {
            check_issuer(&metadata, issuer)?;
            return Ok((metadata, kind));
        }
    }
    let shown = redact_url_text(issuer);
    Err(failed(format!("the issuer `{shown}` has no metadata (RFC 8414, OpenID Connect Discovery)")))
}

/// Compared byte for byte, so that one issuer cannot impersonate another (RFC 8414 section 3.3). For an issuer without
/// a path, a trailing `/` is ignored, because both spellings are the same URL.
fn check_issuer(metadata: &ServerMetadata, issuer: &str) -> Result<()> {
    let is_host = |text: &str| Url::parse(text).is_ok_and(|url| url.path() == "/");
    let plain = |text: &str| match is_host(text) {
        true => text.trim_end_matches('/').to_owned(),
        false => text.to_owned(),
    };
    match plain(&metadata.issuer) == plain(issuer) {
        true => Ok(()),
        false => Err(failed(format!(
            "the metadata of `{}` belongs to another issuer, `{}`",
            redact_url_text(issuer),
            metadata.issuer.printable()
        ))
        .reason(Reason::LoginMixUp)),
    }
}

fn metadata_urls(issuer: &Url) -> Vec<(Url, MetadataKind)> {
    let at = |path: String, kind| {
        let mut url = issuer.clone();
        url.set_query(None);
        url.set_path(&path);
        (url, kind)
    };
    let path = issuer.path().trim_end_matches('/');
    let mut urls = vec![
        at(format!("/.well-known/oauth-authorization-server{path}"), MetadataKind::OAuth),
        at(format!("/.well-known/openid-configuration{path}"), MetadataKind::OpenId),
    ];
    if !path.is_empty() {
        urls.push(at(format!("{path}/.well-known/openid-configuration"), MetadataKind::OpenId));
    }
    urls
}

/// The authorization server for a remote server without resource metadata: the remote server's own host, as in MCP
/// 2025-03-26, with the default endpoints if that host has no authorization server metadata.
async fn origin_as_server(http: &GuardedClient, target: &Url) -> Result<(ServerMetadata, MetadataKind)> {
    let origin = target.origin().ascii_serialization();
    let base = http.guard().parse_url(&origin)?;
    for (url, kind) in metadata_urls(&base) {
        if let Some(metadata) = document::<ServerMetadata>(http, &url).await? {
            check_issuer(&metadata, &origin)?;
            return Ok((metadata, kind));
        }
    }
    let endpoint = |path: &str| Some(format!("{origin}{path}"));
    let metadata = ServerMetadata {
        authorization_endpoint: endpoint("/authorize"),
        token_endpoint: endpoint("/token"),
        registration_endpoint: endpoint("/register"),
        issuer: origin,
        ..ServerMetadata::default()
    };
    Ok((metadata, MetadataKind::Assumed))
}

/// Fetches a JSON document; `None` if there is no JSON document at this URL.
async fn document<T: DeserializeOwned>(http: &GuardedClient, url: &Url) -> Result<Option<T>> {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let request = ProviderRequest { method: Method::GET, url: url.clone(), headers, body: Bytes::new() };
    let response = http.send_following(request, MAX_METADATA_BYTES).await?;
    if response.status != StatusCode::OK {
        // Servers respond to unknown paths in various ways, 202, 401 and 405 among them.
        return if response.status.is_success() || response.status.is_client_error() {
            Ok(None)
        } else {
            Err(failed(format!("`{}` responds with status {}", redact_url(url), response.status.as_u16())))
        };
    }
    match serde_json::from_slice(&response.body) {
        Ok(found) => Ok(Some(found)),
        // Some servers respond with an HTML page to every path.
        Err(_) if !response.body.trim_ascii_start().starts_with(b"{") => Ok(None),
        Err(error) => {
            let invalid = failed(format!("`{}` is not valid metadata", redact_url(url))).source(error);
            Err(invalid.reason(Reason::LoginResponseUnusable))
        }
    }
}

pub(super) fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Upstream, message.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("a URL")
    }

    #[test]
    fn a_resource_covers_its_own_paths_and_nothing_else() {
        let covers = |resource: &str, target: &str| {
            let found = ResourceMetadata { resource: Some(resource.to_owned()), ..Default::default() };
            check_resource(found, &url(target)).is_ok()
        };
        for (resource, target, expected) in [
            ("https://a.example/mcp", "https://a.example/mcp", true),
            ("https://a.example/mcp", "https://a.example/mcp?x=1", true),
            ("https://a.example", "https://a.example/v1/mcp", true),
            ("https://a.example/", "https://a.example:443/mcp", true),
            ("https://a.example/v1", "https://a.example/v1/mcp", true),
            ("https://a.example/v1", "https://a.example/v10/mcp", false),
            ("https://a.example/v1/mcp", "https://a.example/v1", false),
            ("https://b.example/mcp", "https://a.example/mcp", false),
            ("http://a.example/mcp", "https://a.example/mcp", false),
            ("https://a.example:8443/mcp", "https://a.example/mcp", false),
            ("mcp", "https://a.example/mcp", false),
        ] {
            assert_eq!(covers(resource, target), expected, "{resource} {target}");
        }
    }

    #[test]
    fn metadata_is_looked_for_in_the_order_of_the_specification() {
        let urls = |issuer| metadata_urls(&url(issuer)).into_iter().map(|(url, _)| String::from(url));
        let host = ["oauth-authorization-server", "openid-configuration"];
        let at_host = host.map(|name| format!("https://id.example/.well-known/{name}"));
        assert!(urls("https://id.example").eq(at_host.clone()));
        assert!(urls("https://id.example/").eq(at_host));
        assert!(urls("https://id.example/realms/x/").eq([
            "https://id.example/.well-known/oauth-authorization-server/realms/x",
            "https://id.example/.well-known/openid-configuration/realms/x",
            "https://id.example/realms/x/.well-known/openid-configuration",
        ]));
    }

    #[test]
    fn an_issuer_is_compared_exactly() {
        for (found, asked, expected) in [
            ("https://id.example", "https://id.example/", true),
            ("https://id.example/x", "https://id.example/x", true),
            ("https://id.example/x/", "https://id.example/x", false),
            ("https://ID.example", "https://id.example", false),
            ("https://evil.example", "https://id.example", false),
        ] {
            let metadata = ServerMetadata { issuer: found.to_owned(), ..Default::default() };
            assert_eq!(check_issuer(&metadata, asked).is_ok(), expected, "{found} {asked}");
        }
    }

    #[test]
    fn a_resource_indicator_is_the_url_without_query_and_lone_slash() {
        for (target, expected) in [
            ("https://A.example:443/", "https://a.example"),
            ("https://a.example/mcp?key=1#x", "https://a.example/mcp"),
            ("http://127.0.0.1:1/mcp/", "http://127.0.0.1:1/mcp/"),
        ] {
            assert_eq!(canonical(&url(target)), expected);
        }
    }
}
