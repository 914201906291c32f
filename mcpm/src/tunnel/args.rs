//! Creates a tunnel provider from its name and a JSON object with its arguments.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{
    arg_check::invalid_args,
    command::{CommandArgs, CommandTunnel},
    ngrok::{NgrokArgs, NgrokTunnel},
    provider::TunnelProvider,
    ssh::SshTunnel,
};
use crate::{Environment, Error, ErrorKind, Result, options::Secret, secrets};

/// The names of the providers.
pub const PROVIDERS: [&str; 3] = ["ssh", "ngrok", "command"];

/// A provider that was read from its name and arguments.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// The provider.
    pub provider: Arc<dyn TunnelProvider>,
    /// Whether only the command line of the provider is to be shown.
    pub dry_run: bool,
}

impl ProviderConfig {
    /// Reads the arguments of a provider, a JSON object, and the secrets that they name.
    ///
    /// # Errors
    /// `InvalidOption` for an unknown provider or invalid arguments; the errors of [`secrets::read`].
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
            return Err(invalid_args("`auth-token` and `auth-token-secret` cannot be used together"));
        }
        (Some(token), None) => {
            tracing::warn!(
                "the process list shows `auth-token` to other users: use `auth-token-secret` or `NGROK_AUTHTOKEN`"
            );
            Some(Secret::from(token))
        }
        (None, None) => None,
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
    // A missing secret has already caused an error.
    Ok(names.iter().filter_map(|name| values.get(name).cloned()).collect())
}

fn parse<T: DeserializeOwned>(args: &str) -> Result<T> {
    serde_json::from_str(args).map_err(|error| match serde_json::from_str::<Map<String, Value>>(args) {
        Ok(fields) => invalid_args(&invalid_field::<T>(&error, &fields)),
        Err(_) => invalid_args("they are not a JSON object"),
    })
}

/// Names the invalid field, without its value, which could be a token.
fn invalid_field<T: DeserializeOwned>(error: &serde_json::Error, fields: &Map<String, Value>) -> String {
    let error = error.to_string();
    // These error texts name the field, and do not quote its value.
    if ["missing field `", "unknown field `", "duplicate "].iter().any(|start| error.starts_with(start)) {
        return error.split(" at line ").next().unwrap_or_default().to_owned();
    }
    let is_invalid = |(name, value): &(&String, &Value)| {
        let field = Map::from_iter([((*name).clone(), (*value).clone())]);
        let outcome = serde_json::from_value::<T>(Value::Object(field));
        outcome.is_err_and(|error| !error.to_string().starts_with("missing field"))
    };
    let name = fields.iter().find(is_invalid).map_or("a field", |(name, _)| name);
    format!("`{name}` has the wrong type or an invalid value")
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
            ("ssh", r#"{"host":"a","port":"hush"}"#),
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
        for (provider, args, expected) in [
            ("ssh", "{}", "missing field `host`"),
            ("ssh", r#"{"host":"a","hots":"hush"}"#, "unknown field `hots`, expected one of `host`, "),
            ("ssh", r#"{"host":"a","host":"hush"}"#, "duplicate field `host`"),
            ("ssh", r#"{"host":"a","port":"hush"}"#, "`port` has the wrong type"),
            ("ngrok", r#"{"pooling":"hush"}"#, "`pooling` has the wrong type"),
            ("command", r#"{"command":["a"],"secrets":{"A":"x","A":"y"}}"#, "duplicate variable `A`"),
            ("command", r#"{"command":["a","{port}"],"url":"ftp://hush"}"#, "`url` is not an HTTP URL"),
        ] {
            let error = ProviderConfig::read(provider, args, &environment).await.expect_err(args).to_string();
            assert!(error.contains(expected) && !error.contains("hush"), "{args}: {error}");
        }
        let args = r#"{"command":["tool","http://{host}:{port}"],"url":"https://a.example"}"#;
        let config = ProviderConfig::read("command", args, &environment).await.expect("a provider");
        let target = super::super::TunnelTarget::url("http://127.0.0.1:8080/mcp").expect("a target");
        let line = config.provider.command_line(&target).expect("a command");
        assert_eq!(line, ["tool", "http://127.0.0.1:8080"]);
    }
}
