//! Resolves the configuration of incoming authentication, and checks its options.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use url::Url;

use super::token_file::read_token_file;
use crate::{
    Error, ErrorKind, Result,
    auth::guarded_client::{AllowedAddresses, ClientGuard, UrlSource},
    options::{OptionSet as _, ProxyOptions, Secret, SharedOptions, SubjectTokenType},
    printable::Printable as _,
    redact::url::redact_url_text,
};

/// The configuration of incoming authentication. It does not contain the client secret, so that it can be
/// recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IncomingSpec {
    /// The issuer of accepted tokens.
    pub issuer: Option<String>,
    /// The expected audience; by default the URL of the proxy.
    pub audience: Option<String>,
    /// The client id for introspection.
    pub client_id: Option<String>,
    /// Whether there is a client secret, which is not recorded itself. A public client has none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_secret: bool,
    /// The introspection endpoint; by default the one of the issuer's metadata, if there is a client secret.
    pub introspection_url: Option<String>,
    /// The URL of the issuer's keys; by default the one of the issuer's metadata.
    pub jwks_url: Option<String>,
    /// Scopes that clients are advised to request (RFC 9728, `scopes_supported`).
    pub scopes: Vec<String>,
    /// Scopes that a token must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_scopes: Vec<String>,
    /// The URL that clients use to reach the proxy; by default the address that it listens on.
    pub resource_url: Option<String>,
    /// Whether plain HTTP to hosts other than loopback is allowed.
    pub allow_http: bool,
    /// Whether connections to addresses that are not public are allowed.
    pub allow_private_ip: bool,
    /// A file with a bearer token for requests to the issuer.
    pub token_file: Option<PathBuf>,
    /// A file of certificates that are trusted in addition to the system's.
    pub ca_bundle: Option<PathBuf>,
    /// Whether callers send ID tokens, because these are exchanged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub id_tokens: bool,
}

/// The options that turn on incoming authentication.
pub(crate) const ENABLING_OPTIONS: [&str; 3] = ["oidc_issuer", "oidc_jwks_url", "oidc_introspection_url"];
/// The options that have no effect without them.
pub(crate) const DEPENDENT_OPTIONS: [&str; 9] = [
    "oidc_audience",
    "oidc_client_id",
    "oidc_client_secret",
    "oidc_scopes",
    "oidc_required_scopes",
    "oidc_insecure_allow_http",
    "jwks_allow_private_ip",
    "jwks_auth_token_file",
    "resource_url",
];

fn invalid_option(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOption, message.into())
}

impl IncomingSpec {
    /// Resolves the configuration from options without defaults, with relative paths below `working_dir`; `None`
    /// if incoming authentication is off.
    ///
    /// # Errors
    /// `InvalidOption` for contradictory options and invalid values.
    pub(crate) fn read(options: &SharedOptions, working_dir: &Path) -> Result<Option<Self>> {
        if options.oidc_issuer.is_none()
            && options.oidc_jwks_url.is_none()
            && options.oidc_introspection_url.is_none()
        {
            return Ok(None);
        }
        let absolute = |path: &PathBuf| working_dir.join(path);
        let spec = Self {
            issuer: options.oidc_issuer.clone(),
            audience: options.oidc_audience.clone(),
            client_id: options.oidc_client_id.clone(),
            has_secret: options.oidc_client_secret.is_some(),
            introspection_url: options.oidc_introspection_url.clone(),
            jwks_url: options.oidc_jwks_url.clone(),
            scopes: match &options.oidc_scopes[..] {
                [] => ProxyOptions::defaults().oidc_scopes.to_vec(),
                scopes => scopes.to_vec(),
            },
            required_scopes: options.oidc_required_scopes.to_vec(),
            resource_url: options.resource_url.clone(),
            allow_http: options.oidc_insecure_allow_http.unwrap_or(false),
            allow_private_ip: options.jwks_allow_private_ip.unwrap_or(false),
            token_file: options.jwks_auth_token_file.as_ref().map(absolute),
            ca_bundle: options.mcpm_ca_bundle.as_ref().map(absolute),
            id_tokens: options.token_exchange_subject_token_type == Some(SubjectTokenType::IdToken),
        };
        spec.check(options.oidc_client_secret.as_ref())?;
        Ok(Some(spec))
    }

    /// The guards of requests to the issuer.
    pub(crate) fn guard(&self) -> ClientGuard {
        ClientGuard {
            allow_http: self.allow_http,
            addresses: if self.allow_private_ip { AllowedAddresses::All } else { AllowedAddresses::Public },
            source: UrlSource::Options,
            ca_bundle: self.ca_bundle.clone(),
        }
    }

    /// Warnings about missing options.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = &'static str> {
        let trusts_keys = self.jwks_url.is_some().then_some(
            "no issuer is set: any token signed with a key of option `oidc_jwks_url` is accepted, whatever its `iss` \
             claim is; set the issuer with `oidc_issuer`",
        );
        let silent = "no issuer is set: clients cannot discover where to log in (RFC 9728, `authorization_servers`); \
                      set the issuer with `oidc_issuer`, or give clients their tokens by other means";
        trusts_keys.into_iter().chain([silent]).filter(|_| self.issuer.is_none())
    }

    /// Whether a client secret would be used.
    pub fn uses_secret(&self) -> bool {
        self.client_id.is_some()
    }

    pub(crate) fn check(&self, secret: Option<&Secret>) -> Result<()> {
        let guard = self.guard();
        let urls = [
            ("oidc_issuer", &self.issuer),
            ("oidc_jwks_url", &self.jwks_url),
            ("oidc_introspection_url", &self.introspection_url),
        ];
        for (option, url) in urls {
            if let Some(url) = url {
                guard.parse_url(url).map_err(|error| error.with("option", option))?;
            }
        }
        if self.introspection_url.is_some() && self.client_id.is_none() {
            return Err(invalid_option("`oidc_introspection_url` needs `oidc_client_id`")
                .hint("set the client ID that the proxy uses at the introspection endpoint"));
        }
        if secret.is_some() && self.client_id.is_none() {
            return Err(invalid_option("`oidc_client_secret` needs `oidc_client_id`"));
        }
        for scope in self.scopes.iter().chain(&self.required_scopes) {
            if !is_scope(scope) {
                return Err(invalid_option(format!("`{}` is not a valid scope", scope.printable())));
            }
        }
        self.resource_url.as_deref().map_or(Ok(()), check_resource)
    }

    /// Rejects a restart without the client secret that the first start had. The secret is not recorded.
    ///
    /// # Errors
    /// `InvalidOption` if it is missing.
    pub(crate) fn check_secret(&self, secret: Option<&Secret>) -> Result<()> {
        if !self.has_secret || secret.is_some() {
            return Ok(());
        }
        Err(invalid_option(
            "the client secret for introspection is missing; it is not stored with the configuration",
        )
        .hint("set it in `MCPM_OIDC_CLIENT_SECRET`"))
    }

    /// Rejects an unusable token file before anything is created.
    ///
    /// # Errors
    /// `InvalidOption` names the file.
    pub(crate) fn check_file(&self) -> Result<()> {
        self.token_file.as_deref().map_or(Ok(()), |path| read_token_file(path).map(drop))
    }

    /// Rejects a proxy that is reachable from other machines, directly or through another proxy, and has neither
    /// `resource_url` nor an audience: its own address is not the one that clients use, and a `Host` header is
    /// under the client's control.
    ///
    /// # Errors
    /// `InvalidOption` names the options to set.
    pub(crate) fn check_exposure(&self, host: &str, trusts_headers: bool) -> Result<()> {
        let name = host.trim_matches(['[', ']']);
        let is_loopback = name.eq_ignore_ascii_case("localhost")
            || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let is_own = is_loopback && !trusts_headers;
        if is_own || self.audience.is_some() || self.resource_url.is_some() {
            return Ok(());
        }
        let come = match trusts_headers {
            true => "through another proxy".to_owned(),
            false => format!("to `{host}`"),
        };
        Err(invalid_option(format!("the expected audience of tokens is unknown when clients connect {come}"))
            .hint("set the URL that clients use with `resource_url`, or the audience with `oidc_audience`"))
    }
}

/// Whether a text is a scope: printable ASCII without quotes and backslashes (RFC 6749 section 3.3).
pub(crate) fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

fn check_resource(text: &str) -> Result<()> {
    let bad = |why: &str| {
        invalid_option(format!("`{}` is not a valid resource URL: {why}", redact_url_text(text)))
            .with("option", "resource_url")
    };
    let url = Url::parse(text).map_err(|_| bad("it is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(bad("the scheme is neither `https` nor `http`"));
    }
    if url.fragment().is_some() || url.query().is_some() {
        return Err(bad("it has a query or a fragment"));
    }
    if !url.username().is_empty() || url.password().is_some() || text.bytes().any(|byte| byte == b'"') {
        return Err(invalid_option(
            "`resource_url` contains credentials or a quotation mark, which are not allowed",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &[(&str, &str)]) -> Result<Option<IncomingSpec>> {
        let mut all = ProxyOptions::default();
        for (name, value) in options {
            all.set(name, value)?;
        }
        IncomingSpec::read(&SharedOptions::from(&all), Path::new("/work"))
    }

    #[test]
    fn a_key_source_turns_it_on_and_nothing_else_has_an_effect_alone() {
        assert_eq!(parse(&[]).expect("fine"), None);
        for off in [("jwks-allow-private-ip", "false"), ("oidc-scopes", "openid")] {
            assert_eq!(parse(&[off]).expect("fine"), None);
        }
        for name in ENABLING_OPTIONS {
            let more = ("oidc-client-id", "me");
            let spec = parse(&[(name, "https://id.example/x"), more]).expect("fine").expect("on");
            assert_eq!(spec.scopes, ["openid"]);
        }
        for name in DEPENDENT_OPTIONS {
            let value = if name.contains("allow") { "true" } else { "a" };
            assert_eq!(parse(&[(name, value)]).expect(name), None, "it has no effect, which is warned of");
        }
    }

    #[test]
    fn a_recorded_client_secret_is_required_on_restart() {
        let public = [("oidc-introspection-url", "https://id.example/ask"), ("oidc-client-id", "me")];
        let spec = parse(&public).expect("fine").expect("on");
        spec.check_secret(None).expect("a public client has none");
        let secret = Secret::from("hush");
        spec.check_secret(Some(&secret)).expect("it may have one");
        let confidential = [public[0], public[1], ("oidc-client-secret", "hush")];
        let spec = parse(&confidential).expect("fine").expect("on");
        spec.check_secret(Some(&secret)).expect("it is there");
        let error = spec.check_secret(None).expect_err("it is missing").to_string();
        assert!(error.contains("`MCPM_OIDC_CLIENT_SECRET`") && !error.contains("hush"), "{error}");
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let issuer = ("oidc-issuer", "https://id.example");
        for (more, said) in [
            (("oidc-issuer", "http://id.example"), "`oidc_insecure_allow_http`"),
            (("oidc-introspection-url", "https://id.example/i"), "`oidc_client_id`"),
            (("oidc-client-secret", "hush"), "`oidc_client_id`"),
            (("oidc-jwks-url", "ftp://id.example/i"), "oidc_jwks_url"),
            (("oidc-scopes", "a\"b"), "not a valid scope"),
            (("resource-url", "https://mcp.example/mcp?hush"), "not a valid resource URL"),
            (("resource-url", "https://me:hush@mcp.example:99999"), "not a valid resource URL"),
        ] {
            let error = parse(&[issuer, more]).expect_err(said).to_string();
            assert!(error.contains(said) && !error.contains("hush"), "{error}");
        }
        let http = [("oidc-issuer", "http://id.example"), ("oidc-insecure-allow-http", "true")];
        assert!(parse(&http).is_ok());
    }

    #[test]
    fn an_exposed_proxy_needs_an_audience() {
        let spec = IncomingSpec::default();
        for host in ["localhost", "127.0.0.1", "::1", "[::1]"] {
            assert!(spec.check_exposure(host, false).is_ok(), "{host}");
        }
        assert!(spec.check_exposure("0.0.0.0", false).is_err());
        for host in ["0.0.0.0", "127.0.0.1"] {
            assert!(spec.check_exposure(host, true).is_err(), "{host}: headers are no audience");
        }
        let told = IncomingSpec { audience: Some("a".to_owned()), ..spec.clone() };
        let named = IncomingSpec { resource_url: Some("https://a.example".to_owned()), ..spec };
        for spec in [told, named] {
            assert!(
                spec.check_exposure("0.0.0.0", false).is_ok() && spec.check_exposure("0.0.0.0", true).is_ok()
            );
        }
    }
}
