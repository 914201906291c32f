//! Resolves the configuration of authentication to a remote server, and checks its options.

use std::{path::Path, time::Duration};

use serde::{Deserialize, Serialize};
use url::Url;

use crate::{
    Environment, Error, ErrorKind, Result,
    auth::{
        SecretSource, bearer_value,
        guarded_client::{AllowedAddresses, ClientGuard, UrlSource, basic},
        incoming::is_scope,
    },
    options::{Secret, SharedOptions},
    printable::Printable as _,
    redact::url::redact_url_text,
};

/// The port of the callback server, unless another is configured.
const CALLBACK_PORT: u16 = 8666;
/// How long a login may take, unless another duration is configured.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(30);

/// The options that name a client of an authorization server, or how to log in there.
pub(crate) const LOGIN_OPTIONS: [&str; 13] = [
    "remote_auth",
    "remote_auth_issuer",
    "remote_auth_authorize_url",
    "remote_auth_token_url",
    "remote_auth_client_id",
    "remote_auth_client_metadata_url",
    "remote_auth_client_secret",
    "remote_auth_client_secret_file",
    "remote_auth_scopes",
    "remote_auth_resource",
    "remote_auth_callback_port",
    "remote_auth_skip_browser",
    "remote_auth_timeout",
];

/// The configuration of authentication to a remote server. It contains no secret, so that it can be recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutgoingSpec {
    /// Whether the server requires a login even if its responses do not say so.
    pub forced: bool,
    /// The issuer of tokens; `None` to discover it.
    pub issuer: Option<String>,
    /// The authorization endpoint of a server without metadata.
    pub authorize_url: Option<String>,
    /// The token endpoint of a server without metadata.
    pub token_url: Option<String>,
    /// The client id; `None` to register a client.
    pub client_id: Option<String>,
    /// The URL of a client ID metadata document, which authorization servers that support it take as the client id.
    pub client_metadata_url: Option<String>,
    /// The source of the client secret.
    pub client_secret: SecretSource,
    /// The source of a bearer token, which replaces the login.
    pub bearer_token: SecretSource,
    /// The scopes to request; if empty, those that the server names.
    pub scopes: Vec<String>,
    /// The resource indicator (RFC 8707); `None` for the server's own URL.
    pub resource: Option<String>,
    /// The port of the callback server.
    pub callback_port: u16,
    /// Whether the browser stays closed and the URL is only shown.
    pub skip_browser: bool,
    /// The longest time that a login may take.
    pub timeout: Duration,
}

/// The secrets of authentication to a remote server.
#[derive(Debug, Clone, Default)]
pub struct OutgoingSecrets {
    /// The client secret.
    pub client_secret: Option<Secret>,
    /// The bearer token.
    pub bearer_token: Option<Secret>,
}

impl OutgoingSecrets {
    /// Adds secrets of an environment that the spec needs and that are not set.
    pub(crate) fn or_from(self, environment: &Environment, spec: Option<&OutgoingSpec>) -> Self {
        let takes = |source: &SecretSource| !matches!(source, SecretSource::File(_));
        let takes_client = spec.is_some_and(|spec| spec.client_id.is_some() && takes(&spec.client_secret));
        let takes_bearer = spec.is_none_or(|spec| !spec.is_login_configured() && takes(&spec.bearer_token));
        let client = environment.remote_client_secret.as_ref().filter(|_| takes_client);
        let bearer = environment.remote_bearer_token.as_ref().filter(|_| takes_bearer);
        Self {
            client_secret: self.client_secret.or_else(|| client.cloned()),
            bearer_token: self.bearer_token.or_else(|| bearer.cloned()),
        }
    }
}

impl From<&SharedOptions> for OutgoingSecrets {
    fn from(options: &SharedOptions) -> Self {
        Self {
            client_secret: options.remote_auth_client_secret.clone(),
            bearer_token: options.remote_auth_bearer_token.clone(),
        }
    }
}

impl Default for OutgoingSpec {
    /// Discovers everything, and logs in only if the server requires it.
    fn default() -> Self {
        Self {
            forced: false,
            issuer: None,
            authorize_url: None,
            token_url: None,
            client_id: None,
            client_metadata_url: None,
            client_secret: SecretSource::None,
            bearer_token: SecretSource::None,
            scopes: Vec::new(),
            resource: None,
            callback_port: CALLBACK_PORT,
            skip_browser: false,
            timeout: LOGIN_TIMEOUT,
        }
    }
}

fn invalid_option(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOption, message.into())
}

impl OutgoingSpec {
    /// Resolves the configuration from options, with relative paths below `working_dir`; `None` if no option of
    /// outgoing authentication is given.
    ///
    /// # Errors
    /// `InvalidOption` for contradictory options and invalid values.
    pub(crate) fn read(options: &SharedOptions, working_dir: &Path) -> Result<Option<Self>> {
        let usual = Self::default();
        let secret = |given: &Option<Secret>, file| SecretSource::new(given.as_ref(), file, working_dir);
        let spec = Self {
            forced: options.remote_auth.unwrap_or(usual.forced),
            issuer: options.remote_auth_issuer.clone(),
            authorize_url: options.remote_auth_authorize_url.clone(),
            token_url: options.remote_auth_token_url.clone(),
            client_id: options.remote_auth_client_id.clone(),
            client_metadata_url: options.remote_auth_client_metadata_url.clone(),
            client_secret: secret(
                &options.remote_auth_client_secret,
                options.remote_auth_client_secret_file.as_ref(),
            ),
            bearer_token: secret(
                &options.remote_auth_bearer_token,
                options.remote_auth_bearer_token_file.as_ref(),
            ),
            scopes: options.remote_auth_scopes.to_vec(),
            resource: options.remote_auth_resource.clone(),
            callback_port: options.remote_auth_callback_port.unwrap_or(usual.callback_port),
            skip_browser: options.remote_auth_skip_browser.unwrap_or(usual.skip_browser),
            timeout: options.remote_auth_timeout.unwrap_or(usual.timeout),
        };
        if spec == Self::default() {
            return Ok(None);
        }
        spec.check()?;
        Ok(Some(spec))
    }

    /// Whether options describe a login, which a bearer token would replace.
    fn is_login_configured(&self) -> bool {
        self.forced
            || [&self.issuer, &self.authorize_url, &self.client_id, &self.client_metadata_url]
                .into_iter()
                .any(Option::is_some)
    }

    /// Whether a bearer token replaces the login.
    pub(crate) fn has_bearer_token(&self) -> bool {
        self.bearer_token != SecretSource::None
    }

    /// Whether a login is required whatever the server responds.
    #[cfg(feature = "login")]
    pub(crate) fn requires_login(&self) -> bool {
        !self.has_bearer_token() && self.is_login_configured()
    }

    fn check(&self) -> Result<()> {
        if self.bearer_token != SecretSource::None && self.is_login_configured() {
            return Err(invalid_option(
                "a bearer token cannot be combined with a login at an authorization server",
            )
            .hint(format!("leave out `{}`, or the options for the login", self.bearer_option())));
        }
        if self.authorize_url.is_some() != self.token_url.is_some() {
            return Err(invalid_option(
                "`remote_auth_authorize_url` needs `remote_auth_token_url`, and vice versa",
            ));
        }
        if self.authorize_url.is_some() && self.client_id.is_none() {
            return Err(invalid_option("`remote_auth_authorize_url` needs `remote_auth_client_id`")
                .hint("register a client with the authorization server first"));
        }
        if self.client_id.is_none() && self.client_secret != SecretSource::None {
            return Err(invalid_option("a client secret needs `remote_auth_client_id`"));
        }
        if self.timeout.is_zero() {
            return Err(invalid_option(
                "invalid value `0s` for `remote_auth_timeout`: expected more than 0 seconds",
            ));
        }
        // The addresses that the server may name are only known later, when it is contacted.
        let (addresses, source) = (AllowedAddresses::All, UrlSource::RemoteServer);
        let guard = ClientGuard { addresses, source, ..ClientGuard::default() };
        for (url, option) in [
            (&self.issuer, "remote_auth_issuer"),
            (&self.authorize_url, "remote_auth_authorize_url"),
            (&self.token_url, "remote_auth_token_url"),
            (&self.client_metadata_url, "remote_auth_client_metadata_url"),
        ] {
            if let Some(url) = url {
                guard.parse_url(url).map_err(|error| error.with("option", option))?;
            }
        }
        if let Some(resource) = &self.resource
            && Url::parse(resource).ok().is_none_or(|url| url.fragment().is_some())
        {
            // RFC 8707 section 2.
            return Err(invalid_option(format!(
                "invalid value `{}` for `remote_auth_resource`: expected an absolute URL without a fragment",
                redact_url_text(resource)
            )));
        }
        if let Some(scope) = self.scopes.iter().find(|scope| !is_scope(scope)) {
            return Err(invalid_option(format!("`{}` is not a valid scope", scope.printable()))
                .with("option", "remote_auth_scopes"));
        }
        Ok(())
    }

    /// Returns the option that supplies the bearer token.
    const fn bearer_option(&self) -> &'static str {
        match self.bearer_token {
            SecretSource::File(_) => "remote_auth_bearer_token_file",
            _ => "remote_auth_bearer_token",
        }
    }

    /// Checks the secrets before anything is created.
    ///
    /// # Errors
    /// `InvalidOption` for a secret that is missing or cannot be sent, and for a file that cannot be read.
    pub(crate) fn check_secrets(&self, secrets: &OutgoingSecrets) -> Result<()> {
        let missing = |what: &str, variable: &str| {
            invalid_option(format!(
                "the {what} for the remote server is missing; it is not stored with the configuration"
            ))
            .hint(format!("set it in `{variable}`"))
        };
        if let Some(token) = self.read_bearer_token(secrets)? {
            bearer_value(&token).map_err(|error| error.with("option", self.bearer_option()))?;
        } else if self.bearer_token == SecretSource::Given {
            return Err(missing("bearer token", "MCPM_REMOTE_AUTH_BEARER_TOKEN"));
        }
        if let (Some(client), Some(secret)) = (&self.client_id, self.read_client_secret(secrets)?) {
            basic(client, &secret)?;
        } else if self.client_secret == SecretSource::Given {
            return Err(missing("client secret", "MCPM_REMOTE_OAUTH_CLIENT_SECRET"));
        }
        Ok(())
    }

    /// Returns the bearer token.
    ///
    /// # Errors
    /// `InvalidOption` for a file that cannot be read.
    pub(super) fn read_bearer_token(&self, secrets: &OutgoingSecrets) -> Result<Option<Secret>> {
        let given = secrets.bearer_token.as_ref();
        self.bearer_token.read(given, "a bearer token", "remote_auth_bearer_token_file")
    }

    /// Returns the client secret.
    ///
    /// # Errors
    /// `InvalidOption` for a file that cannot be read.
    pub(super) fn read_client_secret(&self, secrets: &OutgoingSecrets) -> Result<Option<Secret>> {
        let given = secrets.client_secret.as_ref();
        self.client_secret.read(given, "a client secret", "remote_auth_client_secret_file")
    }
}
