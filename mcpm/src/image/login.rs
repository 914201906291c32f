//! A login for an image registry.

use std::fmt;

/// A login for a registry. [`Debug`](fmt::Debug) shows no secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A user name and a password or access token.
    Password {
        /// The user.
        username: String,
        /// The secret.
        password: String,
    },
    /// An OAuth refresh token for access tokens of the registry.
    IdentityToken(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password { username, .. } => write!(f, "Password({username}, ..)"),
            Self::IdentityToken(_) => f.write_str("IdentityToken(..)"),
        }
    }
}
