//! What a caller's token is exchanged for, as the options say it, and which of these options go together.

use std::path::{Path, PathBuf};

use http::{HeaderName, header};
use serde::{Deserialize, Serialize};

use crate::{
    Error, ErrorKind, Result,
    auth::{
        guarded_client::basic,
        incoming::{IncomingSpec, is_scope},
    },
    options::{Secret, SharedOptions, SubjectTokenType},
};

/// What a caller's token is exchanged for. The client secret is no part of it, so that it can be recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExchangeSpec {
    /// Where it is exchanged.
    pub url: String,
    /// Whom the new token is to be for.
    pub audience: Option<String>,
    /// Who exchanges it.
    pub client_id: Option<String>,
    /// Where the secret of that client is.
    pub client_secret: ClientSecret,
    /// What the new token is to allow.
    pub scopes: Vec<String>,
    /// What kind of token callers come with.
    pub subject_token_type: SubjectTokenType,
    /// The header that the server takes the new token from; otherwise `Authorization`.
    pub header: Option<String>,
}

/// Where a client secret is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientSecret {
    /// The client has none.
    #[default]
    None,
    /// It is given at each start.
    Given,
    /// In this file, which is read each time.
    File(PathBuf),
}

/// What has no effect without the endpoint.
pub(crate) const DEPENDENT_OPTIONS: [&str; 7] = [
    "token_exchange_audience",
    "token_exchange_client_id",
    "token_exchange_client_secret",
    "token_exchange_client_secret_file",
    "token_exchange_scopes",
    "token_exchange_subject_token_type",
    "token_exchange_header_name",
];

/// Headers that are the protocols' own, or a proxy's.
const RESERVED_HEADERS: [&str; 26] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "origin",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
];

fn invalid_option(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOption, message.into())
}

impl ExchangeSpec {
    /// Reads what callers' tokens are exchanged for from options, with relative paths below `working_dir`; `None` when
    /// they are not exchanged.
    ///
    /// # Errors
    /// `InvalidOption` for options that contradict each other and for values that cannot be used.
    pub(crate) fn read(
        options: &SharedOptions,
        incoming: Option<&IncomingSpec>,
        working_dir: &Path,
    ) -> Result<Option<Self>> {
        let Some(url) = options.token_exchange_url.clone() else { return Ok(None) };
        let secret = options.token_exchange_client_secret.as_ref();
        let spec = Self {
            url,
            audience: options.token_exchange_audience.clone(),
            client_secret: match &options.token_exchange_client_secret_file {
                Some(file) => ClientSecret::File(working_dir.join(file)),
                None if secret.is_some() => ClientSecret::Given,
                None => ClientSecret::None,
            },
            client_id: options.token_exchange_client_id.clone(),
            scopes: options.token_exchange_scopes.to_vec(),
            subject_token_type: options
                .token_exchange_subject_token_type
                .unwrap_or(SubjectTokenType::AccessToken),
            header: options.token_exchange_header_name.clone(),
        };
        spec.check(incoming, secret)?;
        Ok(Some(spec))
    }

    /// The header that the server takes the new token from.
    ///
    /// # Errors
    /// `InvalidOption` for one that is not to be set.
    pub(super) fn header(&self) -> Result<HeaderName> {
        let Some(name) = &self.header else { return Ok(header::AUTHORIZATION) };
        let named: Option<HeaderName> = name.parse().ok();
        named.filter(|named| !RESERVED_HEADERS.contains(&named.as_str())).ok_or_else(|| {
            invalid_option(format!("`{}` is no header that can carry a token", name.escape_debug()))
                .with("option", "token_exchange_header_name")
        })
    }

    /// Whether a client secret can be given for it: there is a client, and no file with its secret.
    pub(crate) fn takes_secret(&self) -> bool {
        self.client_id.is_some() && !matches!(self.client_secret, ClientSecret::File(_))
    }

    pub(crate) fn check(&self, incoming: Option<&IncomingSpec>, secret: Option<&Secret>) -> Result<()> {
        let Some(incoming) = incoming else {
            return Err(invalid_option("`token_exchange_url` needs callers who say who they are")
                .hint("say who issues their tokens with `oidc_issuer`"));
        };
        incoming.guard().parse_url(&self.url).map_err(|error| error.with("option", "token_exchange_url"))?;
        self.header()?;
        if self.client_id.is_none() && self.client_secret != ClientSecret::None {
            return Err(invalid_option(
                "a client secret for token exchange needs `token_exchange_client_id`",
            ));
        }
        if let Some(empty) =
            [&self.audience, &self.client_id].into_iter().flatten().find(|text| text.is_empty())
        {
            return Err(invalid_option(format!("`{empty}` is no audience and no client ID")));
        }
        if let (Some(client), Some(secret)) = (&self.client_id, secret) {
            basic(client, secret)?;
        }
        if let Some(scope) = self.scopes.iter().find(|scope| !is_scope(scope)) {
            return Err(invalid_option(format!("`{}` is no scope", scope.escape_debug()))
                .with("option", "token_exchange_scopes"));
        }
        Ok(())
    }

    /// Refuses to exchange tokens in nobody's name. The secret is known last of all: it is in no record.
    ///
    /// # Errors
    /// `InvalidOption` says where it is looked for.
    pub(crate) fn check_secret(&self, secret: Option<&Secret>) -> Result<()> {
        match &self.client_secret {
            ClientSecret::None => Ok(()),
            ClientSecret::File(_) => self.read_secret().map(drop),
            ClientSecret::Given if secret.is_some() => Ok(()),
            ClientSecret::Given => Err(invalid_option(
                "the client secret for token exchange is missing, and it is not kept on record",
            )
            .hint("give it in `MCPM_TOKEN_EXCHANGE_CLIENT_SECRET`")),
        }
    }

    /// Refuses a file that cannot be used, before anything is made for a proxy that could not start.
    ///
    /// # Errors
    /// `InvalidOption` names the file.
    pub(crate) fn check_file(&self) -> Result<()> {
        self.read_secret().map(drop)
    }

    /// The secret in the file, if it is in one.
    ///
    /// # Errors
    /// `InvalidOption` for a file that cannot be read or holds nothing.
    pub(super) fn read_secret(&self) -> Result<Option<Secret>> {
        let ClientSecret::File(path) = &self.client_secret else { return Ok(None) };
        let unfit = |why: &str| {
            let message = format!("no client secret can be read from `{}`{why}", path.display());
            invalid_option(message).with("option", "token_exchange_client_secret_file")
        };
        // Whoever opens a pipe waits for somebody to write, perhaps for ever.
        let metadata = std::fs::metadata(path).map_err(|error| unfit("").source(error))?;
        if !metadata.is_file() {
            return Err(unfit(": it is no regular file"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| unfit("").source(error))?;
        match text.trim() {
            "" => Err(unfit(": it is empty")),
            secret => Ok(Some(Secret::from(secret))),
        }
    }
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
