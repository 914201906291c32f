//! Queries a `docker-credential-NAME` program for a login.
//!
//! The program reads the registry's name from standard input and writes JSON to standard output. Its run time and the
//! size of its output are limited.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
};

use super::login::Credentials;
use crate::{Error, ErrorKind, Result};

/// How long a helper may run: long enough for a key store that asks the user to unlock it.
const HELPER_TIMEOUT: Duration = Duration::from_secs(30);
/// Most bytes that are read from a helper, more than any login has.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024;
/// The output of every helper that has no login for the server.
const NOT_FOUND: &[u8] = b"credentials not found in native keychain";
/// The user name that marks the secret as an identity token.
const TOKEN_USER: &str = "<token>";

/// Where helper programs are.
#[derive(Debug, Clone, Default)]
pub(super) struct HelperFolders {
    /// Folders in the format of `PATH`, which are searched instead of `PATH`.
    pub(super) path: Option<OsString>,
    /// Folders that are searched afterwards.
    pub(super) others: Vec<PathBuf>,
}

impl HelperFolders {
    /// Starts a program from one of the folders.
    fn start(&self, program: &str) -> io::Result<Child> {
        let missing = match self.spawn(Path::new(program)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => error,
            started => return started,
        };
        let mut others = self.others.iter().map(|folder| folder.join(program));
        others.find(|path| path.is_file()).map_or(Err(missing), |path| self.spawn(&path))
    }

    fn spawn(&self, program: &Path) -> io::Result<Child> {
        let mut command = Command::new(program);
        command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        command.kill_on_drop(true).spawn()
    }
}

#[derive(Deserialize)]
struct HelperOutput {
    #[serde(rename = "Username")]
    username: String,
    #[serde(rename = "Secret")]
    secret: String,
}

/// Returns the login that the helper `name` stores for `server`, or `None` if there is none.
pub(super) async fn get(name: &str, server: &str, folders: &HelperFolders) -> Result<Option<Credentials>> {
    let program = format!("docker-credential-{name}");
    let failed =
        |why: &str| Error::new(ErrorKind::CorruptState, format!("credential helper `{program}` {why}"));
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
        return Err(failed("has an invalid name"));
    }
    let mut child = folders.start(&program).map_err(|error| failed("cannot be started").source(error))?;
    let talk = async {
        if let Some(mut stdin) = child.stdin.take() {
            // If the helper does not read its input, its output shows the failure.
            let _ = stdin.write_all(server.as_bytes()).await;
        }
        let mut output = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(MAX_OUTPUT_BYTES + 1).read_to_end(&mut output).await?;
        }
        if output.len() as u64 > MAX_OUTPUT_BYTES {
            return Ok(None);
        }
        child.wait().await.map(|status| Some((status, output)))
    };
    let (status, output) = match tokio::time::timeout(HELPER_TIMEOUT, talk).await {
        Err(_) => return Err(failed("did not respond within 30 seconds")),
        Ok(Err(error)) => return Err(failed("wrote output that cannot be read").source(error)),
        Ok(Ok(None)) => return Err(failed("wrote too much output")),
        Ok(Ok(Some(answer))) => answer,
    };
    if !status.success() {
        if output.trim_ascii() == NOT_FOUND {
            return Ok(None);
        }
        return Err(failed("failed").with("status", status));
    }
    let answer: HelperOutput =
        serde_json::from_slice(&output).map_err(|_| failed("returned output that cannot be parsed"))?;
    Ok(match (answer.username, answer.secret) {
        (_, secret) if secret.is_empty() => None,
        (username, secret) if username == TOKEN_USER => Some(Credentials::IdentityToken(secret)),
        (username, password) => Some(Credentials::Password { username, password }),
    })
}
