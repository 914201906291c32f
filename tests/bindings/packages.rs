//! Tests the packages for C, Python and Swift, which one command builds.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use mcpm_tests::harness::testbed;

use super::run;

/// The folder of the bindings.
pub(crate) fn bindings() -> PathBuf {
    mcpm_tests::root().join("bindings")
}

/// Builds these packages for this machine, and checks their checksums.
pub(crate) fn build_packages(out: &Path, parts: &[&str]) {
    let tools = testbed::path("MCPM_TEST_PYTHON").parent().unwrap().to_owned();
    let mut build = Command::new(bindings().join("build"));
    mcpm_tests::without_package_variables(&mut build);
    // With the environment variables for lints, cargo would compile with other settings than a release.
    for name in ["RUSTC_WORKSPACE_WRAPPER", "CLIPPY_ARGS", "RUSTFLAGS"] {
        build.env_remove(name);
    }
    build
        .arg(out)
        .args(["--profile", "dev"])
        .args(parts)
        .env("PATH", format!("{}:{}", tools.display(), env::var("PATH").unwrap()))
        .env("CARGO_TARGET_DIR", mcpm_tests::root().join("target/packages-dev"));
    run(&mut build);
    let sums: Vec<_> = files(out).into_iter().filter(|name| name.ends_with(".sha256")).collect();
    assert_eq!(sums.len(), parts.len(), "{sums:?}");
    run(Command::new("sha256sum").args(["--check", "--strict"]).args(sums).current_dir(out));
}

/// The names of the files and folders in a folder.
pub(crate) fn files(folder: &Path) -> Vec<String> {
    let entries =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

#[test]
#[ignore = "nightly: compiles the library again"]
fn the_archives_for_c_and_swift_can_be_used() {
    let folder = tempfile::tempdir().unwrap();
    build_packages(folder.path(), &["c", "swift"]);
    let archive = files(folder.path()).into_iter().find(|name| name.starts_with("mcpm-c-")).unwrap();
    for archive in [archive.as_str(), "mcpm-swift.tar.gz"] {
        run(Command::new("tar").arg("-xzf").arg(archive).current_dir(folder.path()));
    }
    let prefix = folder.path().join(archive.strip_suffix(".tar.gz").unwrap());
    let mut version = Command::new("pkg-config");
    version.args(["--modversion", "mcpm"]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    assert_eq!(run(&mut version).trim_end(), env!("CARGO_PKG_VERSION"));
    assert_eq!(files(&prefix), ["LICENSE", "include", "lib"]);
    let kept = run(Command::new("git").args(["ls-files"]).current_dir(bindings().join("swift")));
    for file in kept.lines().chain(["LICENSE"]) {
        assert!(folder.path().join("mcpm-swift").join(file).exists(), "{file}");
    }
}
