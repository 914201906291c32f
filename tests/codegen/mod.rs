//! Compares generated files with those in the repository, or rewrites them.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

pub(crate) mod bindings;
pub(crate) mod ffi;
pub(crate) mod python;
pub(crate) mod reference;

/// The generated files in the repository.
pub(crate) struct GeneratedFiles {
    root: PathBuf,
    rewrite: bool,
    stale: BTreeSet<PathBuf>,
}

impl GeneratedFiles {
    pub(crate) fn open(root: PathBuf) -> Self {
        Self { root, rewrite: env::var_os("MCPM_UPDATE").is_some(), stale: BTreeSet::new() }
    }

    /// Compares a file with its generated content.
    pub(crate) fn check_file(&mut self, path: impl AsRef<Path>, made: impl AsRef<[u8]>) {
        let full = self.root.join(&path);
        if fs::read(&full).is_ok_and(|kept| kept == made.as_ref()) {
            return;
        }
        if self.rewrite {
            fs::create_dir_all(full.parent().unwrap()).unwrap();
            fs::write(&full, made).unwrap();
        } else {
            self.stale.insert(path.as_ref().to_owned());
        }
    }

    /// Fails if one of the files so far is stale and was not rewritten.
    pub(crate) fn assert_current(&self) {
        assert!(
            self.stale.is_empty(),
            "stale: {:?}; run MCPM_UPDATE=1 cargo test -p mcpm-tests --test generated; \
             a change of `bindings/c` changes the C ABI: see `docs/contributing.md`",
            self.stale
        );
    }
}
