//! What the tests of mcpm share.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

pub mod harness;

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Returns the root of the workspace.
pub fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.parent().unwrap_or(folder).to_owned()
}

/// Has cargo build what is no dependency of the tests, and returns what it says of it.
///
/// All that is built so is built with the features of both packages, so that what they share is built once.
pub fn build(targets: &[&str]) -> Vec<Value> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // What cargo says of the package under test would have build scripts run anew, and all that depends on them.
    let of_this_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in env::vars().filter(|(name, _)| of_this_package(name)) {
        command.env_remove(name);
    }
    let command = command.args(["build", "--quiet", "--message-format", "json"]);
    let command = command.args(["--package", "mcpm-cli", "--package", "mcpm-ffi"]).args(targets);
    let built = command.current_dir(root()).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let messages = String::from_utf8(built.stdout).unwrap();
    messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Builds the shared library of `mcpm-ffi` and returns its path.
///
/// It is no dependency of the tests, since its sources are made by one of them: a dependency that does not compile
/// until it is made again could never be made again.
pub fn library() -> String {
    let messages = build(&["--lib"]);
    let files = messages
        .iter()
        .filter(|message| message["target"]["name"] == "mcpm_ffi")
        .filter_map(|message| message["filenames"].as_array())
        .flatten();
    let mut names = files.filter_map(|file| file.as_str().map(str::to_owned));
    names
        .find(|name| name.ends_with(env::consts::DLL_SUFFIX))
        .unwrap_or_else(|| panic!("cargo built no shared library of mcpm-ffi"))
}
