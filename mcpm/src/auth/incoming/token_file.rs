//! Reads the file that option `jwks_auth_token_file` names, which contains a bearer token for requests to the issuer.

use std::path::Path;

use http::HeaderValue;

use crate::{
    Result,
    auth::{bearer_value, secret_source::read_secret_file},
};

/// Reads the token file.
///
/// # Errors
/// `InvalidOption` if it cannot be read.
pub(super) fn read_token_file(path: &Path) -> Result<HeaderValue> {
    const OPTION: &str = "jwks_auth_token_file";
    bearer_value(&read_secret_file(path, "a token", OPTION)?).map_err(|error| error.with("option", OPTION))
}
