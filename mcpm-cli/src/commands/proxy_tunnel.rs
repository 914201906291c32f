//! `mcpm proxy tunnel`: makes a workload or a URL reachable through a tunnel.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, builder::PossibleValuesParser};
use mcpm::{
    Error, ErrorKind, Result,
    tunnel::{PROVIDERS, ProviderConfig, Tunnel, TunnelEvent, TunnelTarget},
    workload::Workloads,
};

use crate::{
    completion, executor, logging,
    output::{self, JSON, TEXT},
    signals::StopSignals,
    terminal,
};

const TARGET: &str = "target";
const NAME: &str = "server_name";
const PROVIDER: &str = "tunnel-provider";
const ARGS: &str = "provider-args";
const ALLOW_UNAUTHENTICATED: &str = "allow-unauthenticated";

pub(crate) fn command() -> Command {
    Command::new("tunnel").about("Make a workload or a URL reachable through a tunnel").defer(|command| {
        command
            .arg(
                Arg::new(TARGET)
                    .value_name("TARGET")
                    .required(true)
                    .help(
                        "Name of a running workload, or URL of an MCP server that this machine can reach; the tunnel \
                         exposes all paths on the port of the workload or the URL",
                    )
                    .add(completion::workloads()),
            )
            .arg(Arg::new(NAME).value_name("SERVER_NAME").required(true).help("Name of the tunnel in the output"))
            .arg(
                Arg::new(PROVIDER)
                    .long(PROVIDER)
                    .value_name("PROVIDER")
                    .required(true)
                    .value_parser(PossibleValuesParser::new(PROVIDERS))
                    .help("Program that opens the tunnel: OpenSSH's client, ngrok's agent, or any command"),
            )
            .arg(
                Arg::new(ARGS)
                    .long(ARGS)
                    .value_name("JSON")
                    .default_value("{}")
                    .help("Arguments of the provider, a JSON object")
                    .long_help(
                        "Arguments of the provider, a JSON object\n\n\
                         ssh: `host`, `user`, `port`, `identity-file`, `known-hosts-file`, `bind-address`, \
                         `remote-port`, `url`.\n\
                         ngrok: `auth-token-secret` (the name of a secret; or set `NGROK_AUTHTOKEN`), `url`, \
                         `pooling`, `traffic-policy-file`, `dry-run`.\n\
                         command: `command` (a list of the program and its arguments, in which `{port}` and `{host}` \
                         stand for the port and the host of the target; `{port}` is required), `secrets` (an object \
                         with environment variables as keys and names of secrets as values), `url`.",
                    ),
            )
            .arg(
                Arg::new(ALLOW_UNAUTHENTICATED)
                    .long(ALLOW_UNAUTHENTICATED)
                    .action(ArgAction::SetTrue)
                    .help("Allow a target without authentication; anyone who knows the URL of the tunnel can use it"),
            )
            .arg(output::arg(&[TEXT, JSON]))
    })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let text = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
    let (target, name) = (text(TARGET), text(NAME));
    let environment = terminal::environment();
    let variables = environment.variables.clone();
    executor::run(async {
        let mut stop = StopSignals::listen()?;
        let prepare = async {
            let config = ProviderConfig::read(text(PROVIDER), text(ARGS), &environment).await;
            let config = config.map_err(|error| match error.kind() {
                ErrorKind::InvalidOption
                    if error.message().starts_with("the arguments of the tunnel provider ") =>
                {
                    error.with("option", format!("--{ARGS}"))
                }
                _ => error,
            })?;
            let target = match target.contains("://") {
                true => TunnelTarget::url(target)?,
                false => Workloads::new(environment.clone()).tunnel_target(target).await?,
            };
            Ok::<_, Error>((config, target))
        };
        // A secret store may prompt for a password, or hang.
        let (config, target) = tokio::select! {
            prepared = prepare => prepared?,
            () = stop.recv() => return Err(Error::new(ErrorKind::Interrupted, "interrupted")),
        };
        if config.dry_run {
            output::line(config.provider.command_line(&target).unwrap_or_default().join(" "))?;
            return Ok(ExitCode::SUCCESS);
        }
        let _log = logging::start_background_writer();
        let format = output::format(matches);
        let on_event = |event| match event {
            TunnelEvent::Up { url } => {
                let shown = match format {
                    JSON => output::json(&serde_json::json!({ "name": name, "url": url })),
                    _ => output::line(format!("{name}  {}", url.as_deref().unwrap_or("(unknown URL)"))),
                };
                if let Err(error) = shown {
                    tracing::warn!(%error, "the URL cannot be printed");
                }
            }
            TunnelEvent::Down { reason, delay } => {
                tracing::warn!("the tunnel is down: {reason}; reconnecting in {} s", delay.as_secs());
            }
        };
        let allows_unauthenticated = matches.get_flag(ALLOW_UNAUTHENTICATED);
        if allows_unauthenticated {
            tracing::warn!(
                "anyone who knows the public URL can use `{}`; a proxy without authentication only accepts known \
                 host names: allow the public one with `--allowed-hosts`",
                target.origin()
            );
        }
        tracing::info!("the tunnel exposes all paths of `{}`, not only `{}`", target.origin(), target.path());
        let tunnel = Tunnel::new(target, config.provider)
            .variables(variables)
            .allow_unauthenticated(allows_unauthenticated);
        tunnel.run_until(on_event, stop.recv()).await?;
        Ok(ExitCode::SUCCESS)
    })
}
