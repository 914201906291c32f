//! Finds the programs that `tests/run` installs.

use std::{env, path::PathBuf};

/// Returns the path that `tests/run` sets under this name.
///
/// # Panics
/// If the tests were not started by `tests/run`.
pub fn path(name: &str) -> PathBuf {
    let path = env::var_os(name).map(PathBuf::from).unwrap_or_else(|| {
        panic!(
            "{name} is not set: start the tests with `tests/run`, or `eval \"$(tests/testbed/env)\"` first"
        )
    });
    assert!(
        path.exists(),
        "{name} is `{}`, which is not there: run `tests/run --install-only`",
        path.display()
    );
    path
}
