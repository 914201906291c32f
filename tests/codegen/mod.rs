//! Comparing made files with those that are kept, or rewriting them.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

pub(crate) mod bindings;
pub(crate) mod ffi;
pub(crate) mod reference;

/// The files that are kept in the repository.
pub(crate) struct GeneratedFiles {
    root: PathBuf,
    rewrite: bool,
    stale: BTreeSet<PathBuf>,
}

impl GeneratedFiles {
    pub(crate) fn open(root: PathBuf) -> Self {
        Self { root, rewrite: env::var_os("MCPM_UPDATE").is_some(), stale: BTreeSet::new() }
    }

    /// Compares one file with what was made.
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

    /// Compares the files of a folder that holds nothing else.
    pub(crate) fn check_folder(&mut self, folder: &str, made: Vec<(String, Vec<u8>)>) {
        let names: BTreeSet<_> = made.iter().map(|(name, _)| name.clone()).collect();
        for entry in fs::read_dir(self.root.join(folder)).into_iter().flatten() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if names.contains(&name) {
                continue;
            }
            if self.rewrite {
                fs::remove_file(entry.path()).unwrap();
            } else {
                self.stale.insert(Path::new(folder).join(name));
            }
        }
        for (name, bytes) in made {
            self.check_file(Path::new(folder).join(name), bytes);
        }
    }

    /// Fails when a file compared so far is stale and is not to be rewritten.
    pub(crate) fn assert_current(&self) {
        assert!(
            self.stale.is_empty(),
            "stale: {:?}; run MCPM_UPDATE=1 cargo test -p mcpm-tests --test generated",
            self.stale
        );
    }
}
