//! Reads a token or a client secret, from an option or from a file that contains one secret.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result, options::Secret, platform};

/// Maximum size of a file with a secret, in bytes.
const MAX_SECRET_FILE_BYTES: u64 = 64 << 10;

/// The source of a secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretSource {
    /// There is no secret.
    #[default]
    None,
    /// Supplied at each start.
    Given,
    /// Read from this file at each use.
    File(PathBuf),
}

impl SecretSource {
    pub(super) fn new(given: Option<&Secret>, file: Option<&PathBuf>, working_dir: &Path) -> Self {
        match (given, file) {
            (Some(_), _) => Self::Given,
            (None, Some(file)) => Self::File(working_dir.join(file)),
            (None, None) => Self::None,
        }
    }

    /// Returns the secret.
    ///
    /// # Errors
    /// `InvalidOption` for a file that cannot be read.
    pub(super) fn read(
        &self,
        given: Option<&Secret>,
        what: &str,
        option: &'static str,
    ) -> Result<Option<Secret>> {
        match self {
            Self::None => Ok(None),
            Self::Given => Ok(given.cloned()),
            Self::File(path) => read_secret_file(path, what, option).map(Some),
        }
    }
}

/// Reads the secret in a file, without the white space around it. `what` describes it in messages; `option` names the
/// file.
///
/// # Errors
/// `InvalidOption` if the file cannot be read, is empty, is too large or is not a regular file.
pub(super) fn read_secret_file(path: &Path, what: &str, option: &'static str) -> Result<Secret> {
    let unreadable = || {
        let message = format!("cannot read {what} from `{}`", path.display());
        Error::new(ErrorKind::InvalidOption, message).with("option", option)
    };
    let text = zeroize::Zeroizing::new(text(path).map_err(|error| unreadable().source(error))?);
    match text.trim() {
        "" => Err(unreadable().source(invalid_data("the file is empty"))),
        secret => Ok(Secret::from(secret)),
    }
}

fn text(path: &Path) -> io::Result<String> {
    let file = platform::without_waiting(File::options().read(true)).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not a regular file"));
    }
    if metadata.len() > MAX_SECRET_FILE_BYTES {
        return Err(invalid_data("the file is larger than 64 KiB"));
    }
    let mut text = String::new();
    file.take(MAX_SECRET_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn invalid_data(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_from_a_regular_file_and_nothing_else() {
        let read = |path: &Path| read_secret_file(path, "a token", "an_option");
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("pipe");
        crate::testing::make_pipe(&path);
        assert!(read(&path).is_err(), "reading does not wait for a writer");
        assert!(read(home.path()).is_err());
        let path = home.path().join("token");
        std::fs::write(&path, "\n").expect("a file");
        assert!(read(&path).expect_err("an error").to_string().contains("the file is empty"));
        std::fs::write(&path, vec![b'a'; 1 << 20]).expect("a file");
        assert!(read(&path).is_err());
        std::fs::write(&path, "hush\n").expect("a file");
        assert_eq!(read(&path).expect("a token").expose(), "hush");
    }
}
