//! Collects what the library takes from its environment: folders, engine settings, environment variables, secrets.
//!
//! No other code of the library reads environment variables or guesses folders: an embedding application fills in an
//! [`Environment`], or uses [`Environment::from_process`]. Some dependencies read variables of the process themselves:
//! the outbound proxy of `http_client` (`HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`), the trusted certificates on Linux
//! (`SSL_CERT_FILE` and `SSL_CERT_DIR`), limits of the OpenTelemetry SDK (such as
//! `OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT`), and the address of the user manager of systemd, which the built-in runtime
//! queries with `systemctl` (`XDG_RUNTIME_DIR` and `DBUS_SESSION_BUS_ADDRESS`).

use std::{collections::BTreeMap, ffi::OsString, fmt, path::PathBuf, sync::Arc};

use crate::{
    options::Secret,
    package::BuildSettings,
    runtime::Runtime,
    secrets::{GIVEN_PREFIX, SecretSettings},
    user_prompt::UserPrompt,
};

/// Folders, engine settings and secrets for the library.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The folder of workload state; by default `$XDG_STATE_HOME/mcpm`, or the platform's folder for it.
    pub state_dir: PathBuf,
    /// The folder of configuration; by default `$XDG_CONFIG_HOME/mcpm`, or the platform's folder for it.
    pub config_dir: PathBuf,
    /// The folder of caches; by default `$XDG_CACHE_HOME/mcpm`, or the platform's folder for it.
    pub cache_dir: PathBuf,
    /// The base of relative paths in options; the current folder by default.
    pub working_dir: PathBuf,
    /// How to find a container engine if none is injected.
    pub engine: EngineSettings,
    /// Proxies and mirrors of package indexes, for package builds.
    pub build: BuildSettings,
    /// A file with the system's trusted certificates, if it is not in a standard location.
    pub certificates: Option<PathBuf>,
    /// The container runtime to use instead of finding an engine.
    pub runtime: Option<Arc<dyn Runtime>>,
    /// Secret stores and overrides.
    pub secrets: SecretSettings,
    /// The client secret for introspection, if options do not set it: `MCPM_OIDC_CLIENT_SECRET`.
    pub oidc_client_secret: Option<Secret>,
    /// The client secret for token exchange, if options do not set it: `MCPM_TOKEN_EXCHANGE_CLIENT_SECRET`.
    pub token_exchange_client_secret: Option<Secret>,
    /// The client secret for logins to remote servers, if options do not set it: `MCPM_REMOTE_OAUTH_CLIENT_SECRET`.
    pub remote_client_secret: Option<Secret>,
    /// The bearer token for remote servers, if options do not set it: `MCPM_REMOTE_AUTH_BEARER_TOKEN`.
    pub remote_bearer_token: Option<Secret>,
    /// Prompts for values that only the user can supply; none by default.
    pub user_prompt: Option<Arc<dyn UserPrompt>>,
    /// Environment variables that options refer to, for example to include them in spans.
    pub variables: Variables,
}

/// The environment variables of a process, without those of mcpm itself, which may be secrets. `Debug` shows no
/// values.
#[derive(Clone, Default)]
pub struct Variables(Arc<BTreeMap<String, String>>);

impl Variables {
    /// Reads the variables of this process that are valid UTF-8, except `MCPM_*`.
    pub fn from_process() -> Self {
        let text =
            |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        std::env::vars_os().filter_map(text).filter(|(name, _)| !name.starts_with("MCPM_")).collect()
    }

    /// Returns the value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns all variables, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl FromIterator<(String, String)> for Variables {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self(Arc::new(variables.into_iter().collect()))
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variables({})", self.0.len())
    }
}

/// The settings that container tools share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineSettings {
    /// `DOCKER_HOST`.
    pub docker_host: Option<String>,
    /// Whether `DOCKER_TLS_VERIFY` requires TLS for `DOCKER_HOST`.
    pub docker_tls_verify: bool,
    /// `DOCKER_CONTEXT`.
    pub docker_context: Option<String>,
    /// `DOCKER_CONFIG`, or `~/.docker`.
    pub docker_config_dir: Option<PathBuf>,
    /// `CONTAINER_HOST`.
    pub container_host: Option<String>,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// The configuration folder of these tools on every platform: `XDG_CONFIG_HOME`, or `~/.config`.
    pub config_home: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
    /// `TMPDIR` on macOS, where only the user can write to it. Sockets in a shared folder may be those of others.
    pub private_temp_dir: Option<PathBuf>,
}

/// The platforms whose conventions differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Platform {
    /// Linux, and all others that have the folders of the XDG base directory specification.
    Linux,
    MacOs,
    Windows,
}

impl Platform {
    /// The platform that this library was compiled for.
    pub(crate) const CURRENT: Self = if cfg!(target_os = "macos") {
        Self::MacOs
    } else if cfg!(windows) {
        Self::Windows
    } else {
        Self::Linux
    };
}

impl Environment {
    /// Reads the current folder and the variables of this process: `XDG_*`, `HOME`, `TMPDIR`, `DOCKER_*`,
    /// `CONTAINER_HOST`, `DBUS_SESSION_BUS_ADDRESS`, `SSL_CERT_FILE`, `MCPM_*` and those of [`BuildSettings`]; on
    /// Windows also `USERPROFILE`, `LOCALAPPDATA` and `APPDATA`.
    pub fn from_process() -> Self {
        let working_dir = std::env::current_dir().unwrap_or_default();
        let mut environment = Self::from_lookup(|name| std::env::var_os(name));
        environment.working_dir = working_dir;
        environment.secrets.overrides = secrets_from_env();
        environment.variables = Variables::from_process();
        environment
    }

    /// Reads the same variables through `lookup`, except `MCPM_SECRET_NAME` and [`Variables`], whose names are not
    /// known in advance; relative paths are based at `/`. Empty variables count as unset.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        Self::from_lookup_on(Platform::CURRENT, lookup)
    }

    /// Returns the folder of the images that are stored without an engine: `images` in the folder of caches.
    pub fn image_store_dir(&self) -> PathBuf {
        self.cache_dir.join("images")
    }

    fn from_lookup_on(platform: Platform, lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = |name: &str| lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let text =
            |name: &str| lookup(name).and_then(|v| v.into_string().ok()).filter(|value| !value.is_empty());
        let on_windows = |name: &str| path(name).filter(|_| platform == Platform::Windows);
        let home = on_windows("USERPROFILE").or_else(|| path("HOME"));
        let below_home = |folder: &str| home.clone().unwrap_or_else(|| PathBuf::from("/")).join(folder);
        let [state, config, cache] = match platform {
            Platform::Linux => [".local/state/mcpm", ".config/mcpm", ".cache/mcpm"].map(below_home),
            // macOS has no folder for state, and its folder for configuration is for property lists.
            Platform::MacOs => {
                let support = below_home("Library/Application Support/mcpm");
                [support.clone(), support, below_home("Library/Caches/mcpm")]
            }
            // Windows has no folder for caches. Only the folder for configuration follows users to other machines.
            Platform::Windows => {
                let local = on_windows("LOCALAPPDATA").unwrap_or_else(|| below_home("AppData/Local"));
                let roaming = on_windows("APPDATA").unwrap_or_else(|| below_home("AppData/Roaming"));
                [local.join("mcpm"), roaming.join("mcpm"), local.join("mcpm/cache")]
            }
        };
        // The XDG base directory specification requires that relative paths are ignored.
        let xdg = |name: &str| path(name).filter(|path| path.is_absolute());
        let own = |folder: PathBuf| folder.join("mcpm");
        Self {
            state_dir: xdg("XDG_STATE_HOME").map_or(state, own),
            working_dir: PathBuf::from("/"),
            config_dir: xdg("XDG_CONFIG_HOME").map_or(config, own),
            cache_dir: xdg("XDG_CACHE_HOME").map_or(cache, own),
            engine: EngineSettings {
                docker_host: text("DOCKER_HOST"),
                docker_tls_verify: text("DOCKER_TLS_VERIFY").is_some(),
                docker_context: text("DOCKER_CONTEXT"),
                docker_config_dir: path("DOCKER_CONFIG")
                    .or_else(|| home.as_ref().map(|home| home.join(".docker"))),
                container_host: text("CONTAINER_HOST"),
                config_home: xdg("XDG_CONFIG_HOME")
                    .or_else(|| home.as_ref().map(|home| home.join(".config"))),
                runtime_dir: xdg("XDG_RUNTIME_DIR"),
                private_temp_dir: path("TMPDIR").filter(|_| platform == Platform::MacOs),
                home,
            },
            build: BuildSettings::from_lookup(text),
            certificates: path("SSL_CERT_FILE"),
            runtime: None,
            secrets: SecretSettings {
                overrides: BTreeMap::new(),
                provider: text("MCPM_SECRETS_PROVIDER"),
                password: text("MCPM_SECRETS_PASSWORD").map(Secret::from),
                password_file: path("MCPM_SECRETS_PASSWORD_FILE"),
                session_bus: text("DBUS_SESSION_BUS_ADDRESS"),
                ..SecretSettings::default()
            },
            oidc_client_secret: text("MCPM_OIDC_CLIENT_SECRET").map(Secret::from),
            token_exchange_client_secret: text("MCPM_TOKEN_EXCHANGE_CLIENT_SECRET").map(Secret::from),
            remote_client_secret: text("MCPM_REMOTE_OAUTH_CLIENT_SECRET").map(Secret::from),
            remote_bearer_token: text("MCPM_REMOTE_AUTH_BEARER_TOKEN").map(Secret::from),
            user_prompt: None,
            variables: Variables::default(),
        }
    }
}

/// The secrets among the variables of this process. One that is empty or not valid UTF-8 counts as unset.
fn secrets_from_env() -> BTreeMap<String, Secret> {
    std::env::vars_os()
        .filter_map(|(name, value)| {
            let name = name.to_str()?.strip_prefix(GIVEN_PREFIX).filter(|name| !name.is_empty())?;
            let value = value.into_string().ok().filter(|value| !value.is_empty())?;
            Some((name.to_owned(), Secret::from(value)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(platform: Platform, variables: &[(&str, &str)]) -> Environment {
        let variables: BTreeMap<_, _> = variables.iter().copied().collect();
        Environment::from_lookup_on(platform, |name| variables.get(name).map(OsString::from))
    }

    #[test]
    fn each_platform_has_its_folders() {
        let folders = |platform| {
            let found = environment(platform, &[("HOME", "/h")]);
            [found.state_dir, found.config_dir, found.cache_dir].map(|path| path.display().to_string())
        };
        assert_eq!(folders(Platform::Linux), ["/h/.local/state/mcpm", "/h/.config/mcpm", "/h/.cache/mcpm"]);
        assert_eq!(
            folders(Platform::MacOs),
            [
                "/h/Library/Application Support/mcpm",
                "/h/Library/Application Support/mcpm",
                "/h/Library/Caches/mcpm"
            ]
        );
        assert_eq!(
            folders(Platform::Windows),
            ["/h/AppData/Local/mcpm", "/h/AppData/Roaming/mcpm", "/h/AppData/Local/mcpm/cache"]
        );
    }

    #[test]
    fn windows_names_its_folders_in_variables() {
        let variables =
            [("HOME", "/other"), ("USERPROFILE", "/u"), ("LOCALAPPDATA", "/local"), ("APPDATA", "/roaming")];
        let found = environment(Platform::Windows, &variables);
        assert_eq!(
            [found.state_dir, found.config_dir, found.cache_dir],
            ["/local/mcpm", "/roaming/mcpm", "/local/mcpm/cache"].map(PathBuf::from)
        );
        assert_eq!(found.engine.docker_config_dir, Some("/u/.docker".into()));
        let found = environment(Platform::Linux, &variables);
        assert_eq!(found.state_dir, PathBuf::from("/other/.local/state/mcpm"));
    }

    #[test]
    fn absolute_xdg_variables_take_precedence_on_each_platform() {
        for platform in [Platform::Linux, Platform::MacOs, Platform::Windows] {
            let variables = [
                ("HOME", "/h"),
                ("XDG_STATE_HOME", "/s"),
                ("XDG_CONFIG_HOME", "/c"),
                ("XDG_CACHE_HOME", "relative"),
            ];
            let found = environment(platform, &variables);
            assert_eq!((found.state_dir, found.config_dir), ("/s/mcpm".into(), "/c/mcpm".into()));
            assert!(found.cache_dir.starts_with("/h"), "{platform:?}");
            assert_eq!(found.engine.config_home, Some("/c".into()));
        }
    }

    #[test]
    fn the_temporary_folder_is_private_on_macos_only() {
        let temp_dir = |platform| environment(platform, &[("TMPDIR", "/t")]).engine.private_temp_dir;
        assert_eq!(temp_dir(Platform::MacOs), Some("/t".into()));
        assert_eq!(temp_dir(Platform::Linux), None);
    }
}
