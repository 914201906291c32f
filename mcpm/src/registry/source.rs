//! Selects the source of a registry: as the option `registry` names it, else as the settings file does, else the
//! embedded catalogue.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use url::{Host, Url};

use crate::{
    Error, ErrorKind, Result,
    redact::url::{redact_url, redact_url_text},
    state::FORMAT_VERSION,
};

/// The name of the settings file.
const SETTINGS_FILE_NAME: &str = "config.json";

/// The source of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistrySource {
    /// The embedded catalogue.
    Embedded,
    /// A document on this machine.
    File(PathBuf),
    /// A document at a URL.
    Document(Url),
    /// The MCP registry's REST API, at its base.
    Api(Url),
}

/// The settings of mcpm.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsFile {
    version: u32,
    registry_api_url: Option<String>,
    registry_url: Option<String>,
    local_registry_path: Option<PathBuf>,
}

impl RegistrySource {
    /// Parses a source: `embedded`, a path, the URL of a document (its path ends in `.json`), or the base URL of an
    /// API.
    pub(super) fn named(text: &str, working_dir: &Path) -> Result<Self> {
        match text {
            "" => Err(Error::new(
                ErrorKind::InvalidOption,
                "the registry is empty: expected `embedded`, a path or a URL",
            )),
            "embedded" => Ok(Self::Embedded),
            _ if text.contains("://") => {
                let url = parse_registry_url(text)?;
                Ok(if url.path().ends_with(".json") { Self::Document(url) } else { Self::Api(url) })
            }
            path => Ok(Self::File(working_dir.join(path))),
        }
    }

    /// Reads the settings. An API takes precedence over a document, and a document over a file.
    pub(super) fn configured(config_dir: &Path) -> Result<Self> {
        let path = config_dir.join(SETTINGS_FILE_NAME);
        let shown = path.display();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Embedded),
            Err(error) => {
                return Err(Error::new(ErrorKind::Io, format!("cannot read `{shown}`")).source(error));
            }
        };
        let settings: SettingsFile = serde_json::from_str(&text).map_err(|error| {
            Error::new(ErrorKind::InvalidOption, format!("the settings in `{shown}` are not valid"))
                .source(error)
        })?;
        if settings.version != FORMAT_VERSION {
            let message = format!(
                "`{shown}` has version {}, and this mcpm reads version {FORMAT_VERSION}",
                settings.version
            );
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        let of_file = |error: Error| error.with("file", &shown);
        if let Some(url) = settings.registry_api_url {
            return parse_registry_url(&url).map(Self::Api).map_err(of_file);
        }
        if let Some(url) = settings.registry_url {
            return parse_registry_url(&url).map(Self::Document).map_err(of_file);
        }
        Ok(settings.local_registry_path.map_or(Self::Embedded, |path| Self::File(config_dir.join(path))))
    }
}

/// Parses the URL of a registry. Plain HTTP is rejected, since the document decides which programs run.
fn parse_registry_url(text: &str) -> Result<Url> {
    let bad = |why: &str| {
        Error::new(
            ErrorKind::InvalidOption,
            format!("`{}` is not a valid registry URL: {why}", redact_url_text(text)),
        )
    };
    let url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        // The error does not repeat the URL, which would show the credentials.
        return Err(Error::new(ErrorKind::InvalidOption, "the URL of the registry contains credentials"));
    }
    match unacceptable_url(&url) {
        None => Ok(url),
        Some(why) if url.scheme() == "http" => {
            Err(bad(why).hint("use `https` or a local file, because a registry decides which programs run"))
        }
        Some(why) => Err(bad(why)),
    }
}

/// Returns why a URL is not allowed for a registry, if it is not.
pub(super) fn unacceptable_url(url: &Url) -> Option<&'static str> {
    let loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => return Some("it contains no host"),
    };
    match url.scheme() {
        "https" => None,
        "http" if loopback => None,
        "http" => Some("it must be `https`, except on this machine"),
        _ => Some("the scheme is neither `https` nor `http`"),
    }
}

impl fmt::Display for RegistrySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded => f.write_str("embedded"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Document(url) | Self::Api(url) => f.write_str(&redact_url(url)),
        }
    }
}
