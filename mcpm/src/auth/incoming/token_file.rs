//! The file of `--jwks-auth-token-file`, which contains a bearer token for requests to the issuer.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use http::HeaderValue;

use crate::{Error, ErrorKind, Result};

/// Maximum size of the token file in bytes.
const MAX_TOKEN_FILE_BYTES: u64 = 64 << 10;

/// Reads the token file.
///
/// # Errors
/// `InvalidOption` if it cannot be read.
pub(super) fn read_token_file(path: &Path) -> Result<HeaderValue> {
    let unreadable = || {
        let message = format!("cannot read a token from `{}`", path.display());
        Error::new(ErrorKind::InvalidOption, message).with("option", "jwks_auth_token_file")
    };
    let text = text(path).map_err(|error| unreadable().source(error))?;
    let token = text.trim();
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| unreadable())?;
    if token.is_empty() {
        return Err(unreadable());
    }
    value.set_sensitive(true);
    Ok(value)
}

fn text(path: &Path) -> io::Result<String> {
    // Opening a named pipe without a writer must not block.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    if metadata.len() > MAX_TOKEN_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too large"));
    }
    let mut text = String::new();
    file.take(MAX_TOKEN_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_from_a_file_and_nothing_else() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).expect("a pipe");
        assert!(read_token_file(&path).is_err(), "nobody waits for a writer");
        assert!(read_token_file(home.path()).is_err());
        let path = home.path().join("token");
        std::fs::write(&path, "\n").expect("a file");
        assert!(read_token_file(&path).is_err());
        std::fs::write(&path, vec![b'a'; 1 << 20]).expect("a file");
        assert!(read_token_file(&path).is_err());
        std::fs::write(&path, "hush\n").expect("a file");
        assert_eq!(read_token_file(&path).expect("a token"), "Bearer hush");
    }
}
