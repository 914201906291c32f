//! Looks up MCP servers in registries: their names, run methods and inputs.
//!
//! [`source`] selects the registry, [`api`], [`fetch`] and [`cache`] read its documents, and [`document`],
//! [`server_json`] and [`toolhive`] parse them into [`RegistryEntry`]. `workload::resolve::registry_inputs` decides
//! which parts of an entry a workload uses.

mod api;
mod cache;
mod document;
mod entry;
mod fetch;
mod input_json;
mod notice;
mod server_json;
mod source;
mod toolhive;

pub use entry::{Argument, RegistryEntry, RegistryInput, RunMethod};
pub use notice::OnNotice;
pub use source::RegistrySource;

use std::path::Path;

use crate::{
    Environment, Error, ErrorKind, Result, http_client::HttpClient, similar::nearest,
    transport::tls::TrustStore,
};
use cache::Cache;

/// A registry of MCP servers.
#[derive(Debug)]
pub struct Registry {
    source: RegistrySource,
    cache: Cache,
}

impl Registry {
    /// Opens the named registry, else the registry of the settings, else the embedded catalogue.
    ///
    /// # Errors
    /// `InvalidOption` for an invalid registry or invalid settings; `Io` for settings that cannot be read.
    pub fn open(environment: &Environment, named: Option<&str>) -> Result<Self> {
        let source = match named {
            Some(named) => RegistrySource::named(named, &environment.working_dir)?,
            None => RegistrySource::configured(&environment.config_dir)?,
        };
        Ok(Self { source, cache: Cache::new(&environment.cache_dir) })
    }

    /// Trusts the certificate authorities of a PEM file in addition to those of this machine.
    ///
    /// # Errors
    /// `InvalidOption` for a file that cannot be read or contains no certificate.
    pub fn ca_bundle(self, path: &Path) -> Result<Self> {
        Ok(self.with_trust_store(TrustStore::with_bundle(Some(path))?))
    }

    /// Trusts these certificate authorities.
    pub(crate) fn with_trust_store(mut self, trust: TrustStore) -> Self {
        self.cache.client = HttpClient::new(trust);
        self
    }

    /// Returns its source.
    pub fn source(&self) -> &RegistrySource {
        &self.source
    }

    /// Returns all entries in the order of their names.
    ///
    /// # Errors
    /// `Registry` when it cannot be read, or is not a registry document.
    pub async fn list(&self, on_notice: OnNotice<'_>) -> Result<Vec<RegistryEntry>> {
        let entries = match &self.source {
            RegistrySource::Api(base) => api::search(base, None, &self.cache, on_notice).await?,
            _ => self.document(on_notice).await?,
        };
        Ok(sorted(entries))
    }

    /// Returns the entries whose name, title, description, tags or tools contain every word of `query`, ignoring case.
    /// A registry API searches names only, so it returns those whose name also contains the longest word.
    ///
    /// # Errors
    /// As for [`list`](Self::list).
    pub async fn search(&self, query: &str, on_notice: OnNotice<'_>) -> Result<Vec<RegistryEntry>> {
        let mut entries = match &self.source {
            RegistrySource::Api(base) => {
                // The API looks for one text, and the longest word finds the fewest entries.
                let longest = query.split_whitespace().max_by_key(|word| word.len());
                sorted(api::search(base, longest, &self.cache, on_notice).await?)
            }
            _ => self.list(on_notice).await?,
        };
        entries.retain(|entry| entry.matches(query));
        Ok(entries)
    }

    /// Returns the entry with a name, or with a name that ends in `/` and this text, if there is only one.
    ///
    /// # Errors
    /// As for [`list`](Self::list), and `InvalidOption` for an ambiguous name.
    pub async fn find(&self, name: &str, on_notice: OnNotice<'_>) -> Result<Option<RegistryEntry>> {
        let entries = match &self.source {
            RegistrySource::Api(base) => api::candidates(base, name, &self.cache, on_notice).await?,
            _ => self.document(on_notice).await?,
        };
        select_entry(latest_versions(entries), name)
    }

    /// Returns the error for a name that the registry lacks, with the name that may have been meant.
    pub async fn unknown(&self, name: &str) -> Error {
        let error = Error::new(ErrorKind::NotFound, format!("the registry has no server `{name}`"))
            .with("registry", &self.source);
        match self.similar(name).await {
            Some(similar) => error.hint(format!("did you mean `{similar}`?")),
            None if self.source == RegistrySource::Embedded => {
                error.hint("list all servers with `mcpm registry list`, or find some with `mcpm search WORD`")
            }
            None => error.hint(
                "list all servers with `mcpm registry list`, or find some with `mcpm search WORD`, with the same \
                 option `registry` if you have set it",
            ),
        }
    }

    /// Returns the name of a server that is similar to `name`, or whose last part is.
    pub(crate) async fn similar(&self, name: &str) -> Option<String> {
        // The notices were already reported when the name was looked up.
        let entries = match &self.source {
            RegistrySource::Api(base) => api::search(base, Some(name), &self.cache, &|_| {}).await,
            _ => self.document(&|_| {}).await,
        };
        let names: Vec<String> = entries.ok()?.into_iter().map(|entry| entry.name).collect();
        let full = nearest(names.iter().map(String::as_str), name);
        let last = |full: &'_ str| full.rsplit('/').next().unwrap_or_default().to_owned();
        let parts: Vec<String> = names.iter().map(|full| last(full)).collect();
        let by_part = || nearest(parts.iter().map(String::as_str), name);
        full.map(str::to_owned).or_else(|| {
            let part = by_part()?;
            names.iter().find(|full| last(full) == part).cloned()
        })
    }

    async fn document(&self, on_notice: OnNotice<'_>) -> Result<Vec<RegistryEntry>> {
        let bytes = match &self.source {
            RegistrySource::Embedded => include_bytes!("catalogue.json").to_vec(),
            RegistrySource::File(path) => std::fs::read(path).map_err(|error| {
                Error::new(ErrorKind::Registry, format!("cannot read the registry `{}`", path.display()))
                    .source(error)
            })?,
            RegistrySource::Document(url) => self.cache.get(url, on_notice).await?,
            RegistrySource::Api(_) => {
                return Err(Error::new(ErrorKind::Internal, "a registry API is not a document"));
            }
        };
        document::entries(&bytes, on_notice).map_err(|error| error.with("registry", &self.source))
    }
}

/// Parses a document, for the fuzz targets.
#[cfg(any(fuzzing, test))]
pub(crate) fn fuzzing_entries(bytes: &[u8]) -> Result<Vec<RegistryEntry>> {
    document::entries(bytes, &|_| {})
}

/// Selects the entry of a name.
fn select_entry(entries: Vec<RegistryEntry>, name: &str) -> Result<Option<RegistryEntry>> {
    let ends_so = |entry: &RegistryEntry| {
        !name.contains('/') && entry.name.rsplit_once('/').is_some_and(|(_, last)| last == name)
    };
    let (exact, rest): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.name == name);
    let mut found = if exact.is_empty() { rest.into_iter().filter(ends_so).collect() } else { exact };
    if found.len() > 1 {
        let names: Vec<_> = found.iter().map(|entry| format!("`{}`", entry.name)).collect();
        let message = format!("`{name}` matches several servers in the registry: {}", names.join(", "));
        return Err(Error::new(ErrorKind::InvalidOption, message).hint("use the full name of one"));
    }
    Ok(found.pop())
}

fn sorted(entries: Vec<RegistryEntry>) -> Vec<RegistryEntry> {
    let mut entries = latest_versions(entries);
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    entries
}

/// Keeps one entry of each name: the one that is marked as the latest, else the one with the highest version.
fn latest_versions(entries: Vec<RegistryEntry>) -> Vec<RegistryEntry> {
    let mut latest: std::collections::BTreeMap<String, RegistryEntry> = std::collections::BTreeMap::new();
    for entry in entries {
        match latest.get(&entry.name) {
            Some(other) if !entry.is_newer_than(other) => {}
            _ => {
                latest.insert(entry.name.clone(), entry);
            }
        }
    }
    latest.into_values().collect()
}
