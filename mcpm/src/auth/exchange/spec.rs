//! Resolves the configuration of token exchange, and checks its options.

use std::path::Path;

use http::{HeaderName, header};
use serde::{Deserialize, Serialize};

use crate::{
    Error, ErrorKind, Result,
    auth::{
        SecretSource,
        guarded_client::basic,
        incoming::{IncomingSpec, is_scope},
        is_reserved_header,
        secret_source::read_secret_file,
    },
    options::{Secret, SharedOptions, SubjectTokenType},
    printable::Printable as _,
};

/// The configuration of token exchange. It does not contain the client secret, so that it can be recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExchangeSpec {
    /// The token endpoint.
    pub url: String,
    /// The audience to request.
    pub audience: Option<String>,
    /// The client id of the proxy.
    pub client_id: Option<String>,
    /// The source of the client secret.
    pub client_secret: SecretSource,
    /// The scopes to request.
    pub scopes: Vec<String>,
    /// The type of the callers' tokens.
    pub subject_token_type: SubjectTokenType,
    /// The header that carries the new token to the server; by default `Authorization`.
    pub header: Option<String>,
}

/// The options that have no effect without the endpoint.
pub(crate) const DEPENDENT_OPTIONS: [&str; 7] = [
    "token_exchange_audience",
    "token_exchange_client_id",
    "token_exchange_client_secret",
    "token_exchange_client_secret_file",
    "token_exchange_scopes",
    "token_exchange_subject_token_type",
    "token_exchange_header_name",
];

fn invalid_option(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOption, message.into())
}

impl ExchangeSpec {
    /// Resolves the configuration from options, with relative paths below `working_dir`; `None` if token exchange
    /// is off.
    ///
    /// # Errors
    /// `InvalidOption` for contradictory options and invalid values.
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
                Some(file) => SecretSource::File(working_dir.join(file)),
                None if secret.is_some() => SecretSource::Given,
                None => SecretSource::None,
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

    /// The header that carries the new token to the server.
    ///
    /// # Errors
    /// `InvalidOption` if the header must not be set.
    pub(super) fn header(&self) -> Result<HeaderName> {
        let Some(name) = &self.header else { return Ok(header::AUTHORIZATION) };
        let named: Option<HeaderName> = name.parse().ok();
        named.filter(|named| !is_reserved_header(named)).ok_or_else(|| {
            invalid_option(format!("`{}` is not a header that can carry a token", name.printable()))
                .with("option", "token_exchange_header_name")
        })
    }

    /// Whether a client secret can be supplied: there is a client id and no secret file.
    pub(crate) fn takes_secret(&self) -> bool {
        self.client_id.is_some() && !matches!(self.client_secret, SecretSource::File(_))
    }

    pub(crate) fn check(&self, incoming: Option<&IncomingSpec>, secret: Option<&Secret>) -> Result<()> {
        let Some(incoming) = incoming else {
            return Err(invalid_option("`token_exchange_url` requires authenticated callers")
                .hint("set the issuer of their tokens with `oidc_issuer`"));
        };
        incoming.guard().parse_url(&self.url).map_err(|error| error.with("option", "token_exchange_url"))?;
        self.header()?;
        if self.client_id.is_none() && self.client_secret != SecretSource::None {
            return Err(invalid_option(
                "a client secret for token exchange needs `token_exchange_client_id`",
            ));
        }
        if let Some(empty) =
            [&self.audience, &self.client_id].into_iter().flatten().find(|text| text.is_empty())
        {
            return Err(invalid_option(format!(
                "`{empty}` is not a valid audience or client ID for token exchange: it is empty"
            )));
        }
        if let (Some(client), Some(secret)) = (&self.client_id, secret) {
            basic(client, secret)?;
        }
        if let Some(scope) = self.scopes.iter().find(|scope| !is_scope(scope)) {
            return Err(invalid_option(format!("`{}` is not a valid scope", scope.printable()))
                .with("option", "token_exchange_scopes"));
        }
        Ok(())
    }

    /// Rejects a start without the client secret that the configuration requires. This is checked at each start,
    /// because the secret is not recorded.
    ///
    /// # Errors
    /// `InvalidOption` if it is missing.
    pub(crate) fn check_secret(&self, secret: Option<&Secret>) -> Result<()> {
        match &self.client_secret {
            SecretSource::None => Ok(()),
            SecretSource::File(_) => self.read_secret().map(drop),
            SecretSource::Given if secret.is_some() => Ok(()),
            SecretSource::Given => Err(invalid_option(
                "the client secret for token exchange is missing; it is not stored with the configuration",
            )
            .hint("set it in `MCPM_TOKEN_EXCHANGE_CLIENT_SECRET`")),
        }
    }

    /// Rejects an unusable secret file before anything is created.
    ///
    /// # Errors
    /// `InvalidOption` names the file.
    pub(crate) fn check_file(&self) -> Result<()> {
        self.read_secret().map(drop)
    }

    /// Reads the secret file, if one is configured.
    ///
    /// # Errors
    /// `InvalidOption` if the file cannot be read or is empty.
    pub(super) fn read_secret(&self) -> Result<Option<Secret>> {
        let SecretSource::File(path) = &self.client_secret else { return Ok(None) };
        read_secret_file(path, "a client secret", "token_exchange_client_secret_file").map(Some)
    }
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
