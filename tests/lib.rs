//! What the tests of mcpm share.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

pub mod harness;

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Returns the root of the workspace.
pub fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.parent().unwrap_or(folder).to_owned()
}

/// Builds the shared library of `mcpm-ffi` and returns its path.
///
/// It is no dependency of the tests, since its sources are made by one of them: a dependency that does not compile
/// until it is made again could never be made again.
pub fn library() -> String {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", "mcpm-ffi", "--lib", "--message-format", "json"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let messages = String::from_utf8(built.stdout).unwrap();
    let files = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == "mcpm_ffi")
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default());
    let mut names = files.filter_map(|file| file.as_str().map(str::to_owned));
    names
        .find(|name| name.ends_with(env::consts::DLL_SUFFIX))
        .unwrap_or_else(|| panic!("cargo built no shared library of mcpm-ffi"))
}
