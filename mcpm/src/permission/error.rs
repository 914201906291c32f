//! Creates the errors for invalid permission profiles.

use std::borrow::Cow;

use crate::{Error, ErrorKind};

/// Returns the error for an entry that is not valid.
pub(super) fn invalid(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOption, reason)
}
