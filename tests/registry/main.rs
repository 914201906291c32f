//! Tests registry documents of both layouts, from a file and over HTTP, and the MCP registry API, through the public
//! API of the library.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod documents;
mod over_http;
mod parsing;

use std::{fs, path::PathBuf, sync::Mutex};

use mcpm::{
    Environment, Result,
    registry::{Registry, RegistryEntry},
};

/// A separate home, and a registry to query from it.
pub(crate) struct RegistryFixture {
    home: tempfile::TempDir,
    notices: Mutex<Vec<String>>,
}

impl RegistryFixture {
    pub(crate) fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), notices: Mutex::default() }
    }

    pub(crate) fn environment(&self) -> Environment {
        let path = self.home.path();
        Environment {
            state_dir: path.join("state"),
            config_dir: path.join("config"),
            cache_dir: path.join("cache"),
            working_dir: path.to_owned(),
            ..Environment::from_lookup(|_| None)
        }
    }

    pub(crate) fn write(&self, below: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock().unwrap())
    }

    fn notice(&self) -> impl Fn(String) + Send + Sync {
        |notice| self.notices.lock().unwrap().push(notice)
    }

    pub(crate) async fn list(&self, registry: &str) -> Result<Vec<RegistryEntry>> {
        Registry::open(&self.environment(), Some(registry))?.list(&self.notice()).await
    }

    pub(crate) async fn find(&self, registry: &str, name: &str) -> Result<Option<RegistryEntry>> {
        Registry::open(&self.environment(), Some(registry))?.find(name, &self.notice()).await
    }

    pub(crate) async fn search(&self, registry: &str, words: &str) -> Result<Vec<RegistryEntry>> {
        Registry::open(&self.environment(), Some(registry))?.search(words, &self.notice()).await
    }
}

/// Returns a sample document.
pub(crate) fn sample(below: &str) -> String {
    mcpm_tests::root().join("tests/data").join(below).to_str().unwrap().to_owned()
}
