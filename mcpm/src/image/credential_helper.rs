//! Queries a `docker-credential-NAME` program for a login.
//!
//! The program reads the server from standard input and writes JSON. Its time and its output are limited.

use std::{ffi::OsStr, process::Stdio, time::Duration};

use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Command,
};

use super::login::Credentials;
use crate::{Error, ErrorKind, Result};

/// Long enough for a key store that asks the user to unlock it.
const HELPER_TIMEOUT: Duration = Duration::from_secs(30);
/// Larger than any login.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024;
/// The output of every helper that has no login for the server.
const NOT_FOUND: &[u8] = b"credentials not found in native keychain";
/// The user name that marks the secret as an identity token.
const TOKEN_USER: &str = "<token>";

#[derive(Deserialize)]
struct HelperOutput {
    #[serde(rename = "Username")]
    username: String,
    #[serde(rename = "Secret")]
    secret: String,
}

/// Returns the login that the helper `name` keeps for `server`, or `None` when it keeps none.
pub(super) async fn get(name: &str, server: &str, path: Option<&OsStr>) -> Result<Option<Credentials>> {
    let program = format!("docker-credential-{name}");
    let failed =
        |why: &str| Error::new(ErrorKind::CorruptState, format!("credential helper `{program}` {why}"));
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
        return Err(failed("has a name that is no program's"));
    }
    let mut command = Command::new(&program);
    command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let mut child = command.spawn().map_err(|error| failed("cannot be started").source(error))?;
    let talk = async {
        if let Some(mut stdin) = child.stdin.take() {
            // A helper that does not read fails by its output.
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
        Err(_) => return Err(failed("did not answer within 30 seconds")),
        Ok(Err(error)) => return Err(failed("cannot be read").source(error)),
        Ok(Ok(None)) => return Err(failed("said too much")),
        Ok(Ok(Some(answer))) => answer,
    };
    if !status.success() {
        if output.trim_ascii() == NOT_FOUND {
            return Ok(None);
        }
        return Err(failed("failed").with("status", status));
    }
    let answer: HelperOutput =
        serde_json::from_slice(&output).map_err(|_| failed("gave an answer that cannot be understood"))?;
    Ok(match (answer.username, answer.secret) {
        (_, secret) if secret.is_empty() => None,
        (username, secret) if username == TOKEN_USER => Some(Credentials::IdentityToken(secret)),
        (username, password) => Some(Credentials::Password { username, password }),
    })
}
