//! `mcpm service`: installs, removes and shows a user service that starts interrupted workloads at login or at boot.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Arg, ArgAction, ArgMatches, Command};
use mcpm::{Error, ErrorKind, Result};
use serde_json::json;

use crate::output::{self, JSON, TEXT};

const PRINT: &str = "print";
/// Variables that determine where mcpm finds its files and its engine. They contain no secrets.
const VARIABLES: [&str; 10] = [
    "PATH",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "CONTAINER_HOST",
    "SSL_CERT_FILE",
    "MCPM_SECRETS_PROVIDER",
];

pub(crate) fn command() -> Command {
    Command::new("service")
        .about("Start workloads when the user logs in or the machine starts")
        .long_about(
            "Start workloads when the user logs in or the machine starts\n\n\
             `mcpm service install` installs a user service, for systemd on Linux or for launchd on macOS. When the \
             user logs in, the service starts the workloads that were running when the machine or their supervisor \
             stopped (`mcpm start --interrupted`), but not workloads that were stopped with `mcpm stop`. On Linux, \
             after `loginctl enable-linger`, the service starts with the machine instead. Secrets must be readable \
             without a prompt: store them in the keyring, or store the password of the encrypted file in the keyring \
             (`mcpm secret provider encrypted --password-in-keyring`).",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            Command::new("install")
                .about("Install and enable the service")
                .arg(
                    Arg::new(PRINT)
                        .long(PRINT)
                        .action(ArgAction::SetTrue)
                        .conflicts_with(output::OUTPUT)
                        .help("Print the service file instead of installing it"),
                )
                .arg(output::arg(&[TEXT, JSON])),
            Command::new("uninstall")
                .about("Disable and remove the service")
                .arg(output::arg(&[TEXT, JSON])),
            Command::new("status")
                .about("Show whether the service is installed")
                .arg(output::arg(&[TEXT, JSON])),
        ])
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let (verb, matches) = matches.subcommand().unwrap_or(("status", matches));
    let program = env::current_exe()
        .map_err(|error| Error::new(ErrorKind::Io, "cannot find the mcpm program").source(error))?;
    let text = manager::file(&program, &variables());
    if verb == "install" && matches.get_flag(PRINT) {
        output::write(text.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = manager::path()?;
    match verb {
        "install" => install(&path, &text)?,
        "uninstall" => uninstall(&path)?,
        _ => {
            let state = if path.exists() { manager::state() } else { "not installed".to_owned() };
            match output::format(matches) {
                JSON => output::json(&json!({ "path": path.to_string_lossy(), "state": state }))?,
                _ => output::line(format!("{}  {state}", path.display()))?,
            }
            return Ok(ExitCode::SUCCESS);
        }
    }
    match output::format(matches) {
        JSON => output::json(&json!({ "path": path.to_string_lossy() }))?,
        _ => output::line(path.display().to_string())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn install(path: &Path, text: &str) -> Result<()> {
    let failed = |error: io::Error| {
        Error::new(ErrorKind::Io, format!("cannot write `{}`", path.display())).source(error)
    };
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(failed)?;
    let before = fs::read(path).ok();
    fs::write(path, text).map_err(failed)?;
    if let Err(error) = manager::enable(path) {
        // Restores the previous file, so that no part of a service is left behind.
        let _ = match before {
            Some(before) => fs::write(path, before),
            None => fs::remove_file(path),
        };
        return Err(error.hint("install the service file yourself; `mcpm service install --print` prints it"));
    }
    Ok(())
}

fn uninstall(path: &Path) -> Result<()> {
    if !path.exists() {
        return Err(Error::new(
            ErrorKind::NotFound,
            format!("the service is not installed: there is no `{}`", path.display()),
        ));
    }
    manager::disable(path)?;
    fs::remove_file(path).map_err(|error| {
        Error::new(ErrorKind::Io, format!("cannot remove `{}`", path.display())).source(error)
    })
}

/// Returns the variables of this process that the service also needs.
fn variables() -> Vec<(&'static str, String)> {
    VARIABLES.into_iter().filter_map(|name| Some((name, env::var(name).ok()?))).collect()
}

/// Returns the path below the user's home folder.
#[cfg(not(windows))]
fn below_home(path: &str) -> Result<PathBuf> {
    let missing = || Error::new(ErrorKind::InvalidOption, "the variable `HOME` is not set");
    env::home_dir().map(|home| home.join(path)).ok_or_else(missing)
}

/// Runs a program of the system.
#[cfg(not(windows))]
fn system(program: &str, args: &[&str]) -> Result<String> {
    let command = [&[program], args].concat().join(" ");
    let unavailable = || Error::new(ErrorKind::Unsupported, format!("`{command}` failed"));
    let outcome = std::process::Command::new(program)
        .args(args)
        .output()
        .map_err(|error| unavailable().source(error))?;
    let text = |output: &[u8]| String::from_utf8_lossy(output).trim().to_owned();
    let said = text(&outcome.stdout);
    if outcome.status.success() {
        return Ok(said);
    }
    // `systemctl is-enabled` writes the state of a disabled unit to standard output, and fails.
    let why = text(&outcome.stderr);
    Err(unavailable().source(if why.is_empty() { said } else { why }))
}

#[cfg(not(any(target_os = "macos", windows)))]
mod manager {
    use super::{Path, PathBuf, Result, below_home, env, system};

    const UNIT: &str = "mcpm.service";

    pub(super) fn path() -> Result<PathBuf> {
        let config = match env::var_os("XDG_CONFIG_HOME").map(PathBuf::from) {
            Some(config) if config.is_absolute() => config,
            _ => below_home(".config")?,
        };
        Ok(config.join("systemd/user").join(UNIT))
    }

    /// The first version of systemd that can restart a service whose control group contains other groups with
    /// processes.
    const DELEGATES_SUBGROUPS: u32 = 254;

    /// Lets supervisors limit containers in the control group of the unit, if systemd supports that.
    fn delegation() -> &'static str {
        let version = system("systemctl", &["--version"]).ok();
        let version = version.and_then(|text| text.split_whitespace().nth(1)?.parse::<u32>().ok());
        match version {
            Some(DELEGATES_SUBGROUPS..) => "Delegate=yes\nDelegateSubgroup=mcpm-own\n",
            _ => "",
        }
    }

    /// Returns the unit. Supervisors are separate processes, which do not end with the command that starts them.
    pub(super) fn file(program: &Path, variables: &[(&str, String)]) -> String {
        let (program, delegation) = (escape(&program.to_string_lossy()), delegation());
        let variables: String = variables
            .iter()
            .map(|(name, value)| format!("Environment={}\n", escape(&format!("{name}={value}"))))
            .collect();
        format!(
            "[Unit]\n\
             Description=MCP servers of mcpm that ran before\n\
             After=docker.service podman.socket\n\
             StartLimitIntervalSec=600\n\
             StartLimitBurst=20\n\n\
             [Service]\n\
             Type=oneshot\n\
             RemainAfterExit=yes\n\
             KillMode=process\n\
             {delegation}\
             Restart=on-failure\n\
             RestartSec=15\n\
             {variables}\
             ExecStart={program} start --interrupted\n\n\
             [Install]\n\
             WantedBy=default.target\n"
        )
    }

    /// Quotes a word (systemd.syntax(7), "Quoting"); `%` begins a specifier.
    fn escape(word: &str) -> String {
        format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
    }

    pub(super) fn enable(_: &Path) -> Result<()> {
        system("systemctl", &["--user", "daemon-reload"])?;
        system("systemctl", &["--user", "enable", UNIT]).map(drop)
    }

    pub(super) fn disable(_: &Path) -> Result<()> {
        system("systemctl", &["--user", "disable", UNIT]).map(drop)
    }

    pub(super) fn state() -> String {
        system("systemctl", &["--user", "is-enabled", UNIT]).unwrap_or_else(|error| error.to_string())
    }
}

#[cfg(target_os = "macos")]
mod manager {
    use super::{Path, PathBuf, Result, below_home, system};

    const LABEL: &str = "dev.mcpm.start";

    pub(super) fn path() -> Result<PathBuf> {
        below_home(&format!("Library/LaunchAgents/{LABEL}.plist"))
    }

    /// Returns the property list (launchd.plist(5)). Supervisors are separate processes.
    pub(super) fn file(program: &Path, variables: &[(&str, String)]) -> String {
        let variables: String = variables
            .iter()
            .map(|(name, value)| format!("      <key>{name}</key><string>{}</string>\n", escape(value)))
            .collect();
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
             \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
             <plist version=\"1.0\">\n  <dict>\n    <key>Label</key><string>{LABEL}</string>\n    \
             <key>ProgramArguments</key>\n    <array>\n      <string>{}</string>\n      <string>start</string>\n      \
             <string>--interrupted</string>\n    </array>\n    <key>EnvironmentVariables</key>\n    <dict>\n{variables}    \
             </dict>\n    <key>RunAtLoad</key><true/>\n    <key>AbandonProcessGroup</key><true/>\n  </dict>\n</plist>\n",
            escape(&program.to_string_lossy())
        )
    }

    fn escape(text: &str) -> String {
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
    }

    pub(super) fn enable(path: &Path) -> Result<()> {
        system("launchctl", &["load", "-w", &path.to_string_lossy()]).map(drop)
    }

    pub(super) fn disable(path: &Path) -> Result<()> {
        system("launchctl", &["unload", "-w", &path.to_string_lossy()]).map(drop)
    }

    pub(super) fn state() -> String {
        system("launchctl", &["list", LABEL]).map_or_else(|error| error.to_string(), |_| "enabled".to_owned())
    }
}

#[cfg(windows)]
mod manager {
    use super::{Error, ErrorKind, Path, PathBuf, Result};

    pub(super) fn path() -> Result<PathBuf> {
        let message = "`mcpm service` needs systemd or launchd, which Windows does not have";
        Err(Error::new(ErrorKind::Unsupported, message)
            .hint("let the task scheduler run `mcpm start --interrupted` when you log in"))
    }

    pub(super) fn file(_: &Path, _: &[(&str, String)]) -> String {
        String::new()
    }

    pub(super) fn enable(_: &Path) -> Result<()> {
        path().map(drop)
    }

    pub(super) fn disable(_: &Path) -> Result<()> {
        path().map(drop)
    }

    pub(super) fn state() -> String {
        "not installed".to_owned()
    }
}
