//! Reads secrets from the output of a program, such as the client of a password manager.

use std::{collections::BTreeMap, process::Stdio, time::Duration};

use async_trait::async_trait;
use tokio::{io::AsyncReadExt as _, process::Command};
use zeroize::Zeroizing;

use super::store::{MAX_VALUE_BYTES, SecretStore, read_only};
use crate::{Error, ErrorKind, Result, options::Secret};

/// Placeholder for the name of the secret in the arguments.
const NAME_PLACEHOLDER: &str = "{name}";
/// How long a program may run: long enough to prompt the user to unlock a store.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a program once for each secret, directly and without a shell.
#[derive(Debug)]
pub(super) struct CommandStore {
    program: String,
    arguments: Vec<String>,
}

impl CommandStore {
    pub(super) fn new(command: &[String]) -> Result<Self> {
        let Some((program, arguments)) = command.split_first().filter(|(program, _)| !program.is_empty())
        else {
            let message = "the provider `command` has no program";
            return Err(Error::new(ErrorKind::InvalidOption, message)
                .hint("set it with `mcpm secret provider command -- PROGRAM ARGUMENT... {name}`"));
        };
        let mut arguments = arguments.to_vec();
        if !arguments.iter().any(|argument| argument.contains(NAME_PLACEHOLDER)) {
            arguments.push(NAME_PLACEHOLDER.to_owned());
        }
        Ok(Self { program: program.clone(), arguments })
    }

    async fn run(&self, name: &str) -> Result<Secret> {
        let failed = |why: &str| {
            let message = format!("the program `{}` {why} for the secret `{name}`", self.program);
            Error::new(ErrorKind::SecretsUnavailable, message)
        };
        let mut child = Command::new(&self.program)
            .args(self.arguments.iter().map(|argument| argument.replace(NAME_PLACEHOLDER, name)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // Standard error may contain the value, or part of it.
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed("cannot be started").source(error))?;
        let talk = async {
            let mut output = Zeroizing::new(Vec::new());
            if let Some(stdout) = child.stdout.take() {
                stdout.take(MAX_VALUE_BYTES as u64 + 2).read_to_end(&mut output).await?;
            }
            if output.len() > MAX_VALUE_BYTES + 1 {
                return Ok(None);
            }
            child.wait().await.map(|status| Some((status, output)))
        };
        let (status, output) = match tokio::time::timeout(COMMAND_TIMEOUT, talk).await {
            Err(_) => return Err(failed("did not finish within 60 seconds")),
            Ok(Err(error)) => return Err(failed("failed while its output was read").source(error)),
            Ok(Ok(None)) => return Err(failed("printed more than 64 KiB")),
            Ok(Ok(Some(answer))) => answer,
        };
        if !status.success() {
            return Err(failed("failed").with("status", status).hint("run the program yourself to see why"));
        }
        let text = str::from_utf8(&output).map_err(|_| failed("printed invalid UTF-8"))?;
        let text = text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text));
        if text.is_empty() { Err(failed("printed nothing")) } else { Ok(Secret::from(text)) }
    }
}

#[async_trait]
impl SecretStore for CommandStore {
    fn location(&self) -> String {
        format!("the program `{}`", self.program)
    }

    async fn read(&self, names: &[String]) -> Result<BTreeMap<String, Secret>> {
        let mut values = BTreeMap::new();
        for name in names {
            values.insert(name.clone(), self.run(name).await?);
        }
        Ok(values)
    }

    async fn set(&self, _name: &str, _value: &Secret) -> Result<()> {
        Err(read_only(&self.location(), "changed"))
    }

    async fn list(&self) -> Result<Vec<String>> {
        Err(read_only(&self.location(), "listed"))
    }

    async fn remove(&self, _name: &str) -> Result<bool> {
        Err(read_only(&self.location(), "removed"))
    }
}
