//! Selects the environment variables that are passed to builds: proxies, mirrors of package indexes, and other settings
//! of package managers.

use std::collections::BTreeMap;

use url::Url;

use super::Ecosystem;
use crate::{Result, permission::HostRule};

/// Variables for proxies, in both spellings; engines pass them to every step of a build.
const PROXY_VARIABLES: &[&str] = &[
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "no_proxy",
];
const PYTHON_VARIABLES: &[&str] = &[
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "UV_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_INSECURE_HOST",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_TRUSTED_HOST",
];
const NODE_VARIABLES: &[&str] = &["NPM_CONFIG_REGISTRY", "npm_config_registry"];
const GO_VARIABLES: &[&str] = &["GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOTOOLCHAIN"];

/// Variables for package managers in a build: proxies, and mirrors of package indexes.
///
/// Values may contain logins. They are never displayed and not part of an image; the engine stores them with the steps
/// of the build.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct BuildSettings(BTreeMap<String, String>);

impl BuildSettings {
    /// Reads the variables from `lookup`.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let names = [PROXY_VARIABLES, PYTHON_VARIABLES, NODE_VARIABLES, GO_VARIABLES].concat();
        Self(names.iter().filter_map(|name| Some(((*name).to_owned(), lookup(name)?))).collect())
    }

    /// Returns the variables for proxies.
    pub(super) fn proxies(&self) -> BTreeMap<String, String> {
        self.select(PROXY_VARIABLES)
    }

    /// Returns the variables for mirrors.
    pub(super) fn mirrors(&self, ecosystem: Ecosystem) -> BTreeMap<String, String> {
        let mut all = self.select(match ecosystem {
            Ecosystem::Python => PYTHON_VARIABLES,
            Ecosystem::Node => NODE_VARIABLES,
            Ecosystem::Go => GO_VARIABLES,
            Ecosystem::Bundle => &[],
        });
        // uv does not read pip's variables, and pip, which may have to fetch uv, does not read uv's.
        let python = ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"];
        if let Some(index) = python.iter().find_map(|name| all.get(*name).cloned()) {
            all.entry("PIP_INDEX_URL".to_owned()).or_insert_with(|| index.clone());
            if !all.contains_key("UV_INDEX_URL") {
                all.entry("UV_DEFAULT_INDEX".to_owned()).or_insert(index);
            }
        }
        all
    }

    /// Returns the hosts of package indexes. Proxies are not included, because a program that may connect to a proxy
    /// can reach any host.
    ///
    /// # Errors
    /// `InvalidOption` for a URL whose host is invalid.
    pub(super) fn registry_hosts(&self, ecosystem: Ecosystem) -> Result<Vec<HostRule>> {
        let mirrors = self.mirrors(ecosystem);
        let values = mirrors.values().flat_map(|value| value.split([',', ' ', '|']));
        let urls = values.filter_map(|url| Url::parse(url).ok());
        let hosts = urls.filter_map(|url| url.host_str().map(str::to_owned));
        let defaults = default_hosts(ecosystem).iter().map(|host| (*host).to_owned());
        hosts.chain(defaults).map(|host| host.parse()).collect()
    }

    fn select(&self, names: &[&str]) -> BTreeMap<String, String> {
        let known = |(name, _): &(&String, &String)| names.contains(&name.as_str());
        self.0.iter().filter(known).map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

/// Returns the hosts that the tools of an ecosystem use if nothing else is configured.
fn default_hosts(ecosystem: Ecosystem) -> &'static [&'static str] {
    match ecosystem {
        Ecosystem::Python => &["pypi.org", "files.pythonhosted.org"],
        Ecosystem::Node => &["registry.npmjs.org"],
        Ecosystem::Bundle => &[],
        Ecosystem::Go => &["proxy.golang.org", "sum.golang.org", "storage.googleapis.com"],
    }
}

impl std::fmt::Debug for BuildSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BuildSettings").field(&self.0.keys()).finish()
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
