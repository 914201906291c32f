//! The providers by their names, with their arguments in JSON.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::{
    command::{CommandArgs, CommandTunnel},
    ngrok::{NgrokArgs, NgrokTunnel},
    provider::TunnelProvider,
    ssh::SshTunnel,
    words::invalid_args,
};
use crate::{Environment, Error, ErrorKind, Result, options::Secret, secrets};

/// The names of the providers.
pub const PROVIDERS: [&str; 3] = ["ssh", "ngrok", "command"];

/// A provider as it was described in text.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// The provider.
    pub provider: Arc<dyn TunnelProvider>,
    /// Whether only its command line is wanted.
    pub dry_run: bool,
}

impl ProviderConfig {
    /// Reads the arguments of a provider, a JSON object, and the secrets that they name.
    ///
    /// # Errors
    /// `InvalidOption` for an unknown provider or invalid arguments; those of [`secrets::read`].
    pub async fn read(provider: &str, args: &str, environment: &Environment) -> Result<Self> {
        let (provider, dry_run): (Arc<dyn TunnelProvider>, bool) = match provider {
            "ssh" => {
                let tunnel: SshTunnel = parse(args)?;
                tunnel.check()?;
                (Arc::new(tunnel), false)
            }
            "ngrok" => {
                let args: NgrokArgs = parse(args)?;
                let dry_run = args.dry_run;
                let tunnel = read_ngrok(args, environment).await?;
                tunnel.check()?;
                (Arc::new(tunnel), dry_run)
            }
            "command" => {
                let tunnel = read_command(parse(args)?, environment).await?;
                tunnel.check()?;
                (Arc::new(tunnel), false)
            }
            _ => {
                let message = format!("`{provider}` is not a tunnel provider");
                let known = PROVIDERS.map(|known| format!("`{known}`")).join(", ");
                return Err(Error::new(ErrorKind::InvalidOption, message).hint(format!("use one of {known}")));
            }
        };
        Ok(Self { provider, dry_run })
    }
}

async fn read_ngrok(args: NgrokArgs, environment: &Environment) -> Result<NgrokTunnel> {
    let NgrokArgs { auth_token, auth_token_secret, url, pooling, traffic_policy_file, dry_run: _ } = args;
    let auth_token = match (auth_token, auth_token_secret) {
        (Some(_), Some(_)) => {
            return Err(invalid_args("`auth-token` and `auth-token-secret` exclude each other"));
        }
        (token, None) => token.map(Secret::from),
        (None, Some(name)) => read_secrets(vec![name], environment).await?.pop(),
    };
    let traffic_policy_file = traffic_policy_file.map(|file| environment.working_dir.join(file));
    Ok(NgrokTunnel { auth_token, url, pooling, traffic_policy_file })
}

async fn read_command(args: CommandArgs, environment: &Environment) -> Result<CommandTunnel> {
    let CommandArgs { command, secrets, url } = args;
    let (variables, names): (Vec<_>, Vec<_>) = secrets.into_iter().unzip();
    let values = read_secrets(names, environment).await?;
    Ok(CommandTunnel { command, variables: variables.into_iter().zip(values).collect(), url })
}

/// Returns the values of secrets in the order of their names.
async fn read_secrets(names: Vec<String>, environment: &Environment) -> Result<Vec<Secret>> {
    let values = secrets::read(&names, environment).await?;
    // Missing ones are an error already.
    Ok(names.iter().filter_map(|name| values.get(name).cloned()).collect())
}

fn parse<T: DeserializeOwned>(args: &str) -> Result<T> {
    // The error could quote a token.
    serde_json::from_str(args).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => invalid_args("a field is missing, unknown or of another type"),
        _ => invalid_args("they are not a JSON object"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn invalid_arguments_are_rejected_without_being_quoted() {
        let environment = Environment::from_process();
        for (provider, args) in [
            ("ssh", "{}"),
            ("ssh", "host"),
            ("ssh", r#"{"host":"a","hush":1}"#),
            ("ssh", r#"{"host":"-hush"}"#),
            ("ngrok", r#"{"auth-token":["hush"]}"#),
            ("ngrok", r#"{"auth-token":"hush","auth-token-secret":"x"}"#),
            ("ngrok", r#"{"url":"-hush"}"#),
            ("command", r#"{"command":[]}"#),
            ("command", r#"{"command":["hush"]}"#),
            ("hush", "{}"),
        ] {
            let error = ProviderConfig::read(provider, args, &environment).await.expect_err(args);
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{args}");
            assert!(!error.to_string().contains("hush") || provider == "hush", "{error}");
        }
        let args = r#"{"command":["tool","http://{host}:{port}"],"url":"https://a.example"}"#;
        let config = ProviderConfig::read("command", args, &environment).await.expect("a provider");
        let target = super::super::TunnelTarget::url("http://127.0.0.1:8080/mcp").expect("a target");
        let line = config.provider.command_line(&target).expect("a command");
        assert_eq!(line, ["tool", "http://127.0.0.1:8080"]);
    }
}
