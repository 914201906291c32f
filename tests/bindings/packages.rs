//! Tests the packages for C, Python and Swift, which one command builds.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use mcpm_tests::harness::testbed;
use serde_json::Value;

use super::run;

/// The folder of the bindings.
pub(crate) fn bindings() -> PathBuf {
    mcpm_tests::root().join("bindings")
}

/// A command with the environment in which packages are built.
pub(crate) fn package_command(program: impl AsRef<OsStr>) -> Command {
    let tools = testbed::path("MCPM_TEST_PYTHON").parent().unwrap().to_owned();
    let zig = testbed::path("MCPM_TESTBED").join("zig/bin");
    let mut build = Command::new(program);
    mcpm_tests::without_package_variables(&mut build);
    // With the environment variables for lints, cargo would compile with other settings than a release.
    for name in ["RUSTC_WORKSPACE_WRAPPER", "CLIPPY_ARGS", "RUSTFLAGS"] {
        build.env_remove(name);
    }
    build
        .env("PATH", format!("{}:{}:{}", zig.display(), tools.display(), env::var("PATH").unwrap()))
        .env("CARGO_TARGET_DIR", mcpm_tests::root().join("target/packages-dev"));
    build
}

/// Runs `bindings/build` with these arguments, and checks that each file has its checksum.
pub(crate) fn build_packages(out: &Path, arguments: &[&str]) {
    run(package_command(bindings().join("build")).arg(out).args(["--profile", "dev"]).args(arguments));
    let names = files(out).into_iter().filter(|name| out.join(name).is_file());
    let (sums, built): (Vec<_>, Vec<_>) = names.partition(|name| name.ends_with(".sha256"));
    let expected: Vec<_> = built.iter().map(|name| format!("{name}.sha256")).collect();
    assert_eq!(sums, expected);
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

/// Installs a package in a fresh virtual environment of the system's Python, which uses glibc, from the wheels in a
/// folder. Then runs the command `mcpm` of this environment.
pub(crate) fn install_with_pip(environment: &Path, wheels: &Path, package: &str) {
    run(Command::new("python3").args(["-m", "venv"]).arg(environment));
    let mut pip = Command::new(environment.join("bin/python"));
    run(pip.args(["-m", "pip", "install", "--no-index", "--find-links"]).arg(wheels).arg(package));
    let version = run(Command::new(environment.join("bin/mcpm")).arg("--version"));
    assert_eq!(version.trim_end(), concat!("mcpm ", env!("CARGO_PKG_VERSION")));
}

#[test]
#[ignore = "nightly: compiles the program for another target"]
fn the_wheel_of_the_static_program_is_for_glibc_and_musl() {
    let folder = tempfile::tempdir().unwrap();
    let wheels = folder.path().join("wheels");
    let architecture = env::consts::ARCH;
    build_packages(&wheels, &["--target", &format!("{architecture}-unknown-linux-musl"), "cli"]);
    let wheel = files(&wheels).into_iter().find(|name| name.ends_with(".whl")).unwrap();
    for system in ["manylinux_2_17", "musllinux_1_2"] {
        assert!(wheel.contains(&format!("{system}_{architecture}")), "{wheel}");
    }
    install_with_pip(&folder.path().join("environment"), &wheels, "mcpm-cli");
}

#[test]
#[ignore = "nightly: compiles the library for another target"]
fn the_libraries_for_arm64_need_glibc_2_17() {
    let folder = tempfile::tempdir().unwrap();
    let target = "aarch64-unknown-linux-gnu";
    build_packages(folder.path(), &["--target", target, "c", "python"]);
    let built = files(folder.path());
    assert!(built.contains(&format!("mcpm-c-{target}.tar.gz")), "{built:?}");
    let wheel = built.iter().find(|name| name.ends_with(".whl")).unwrap();
    assert!(wheel.starts_with("mcpm_sdk-") && wheel.contains("manylinux_2_17_aarch64"), "{wheel}");
    let mut unpack = Command::new("python3");
    run(unpack.args(["-m", "zipfile", "-e", wheel, "wheel"]).current_dir(folder.path()));
    for library in ["c/lib/libmcpm.so", "wheel/mcpm/_native/libmcpm_ffi.so"] {
        let mut readelf = Command::new("readelf");
        readelf.args(["--wide", "--file-header", "--version-info"]);
        let read = run(readelf.arg(folder.path().join(library)));
        let machine = read.lines().find_map(|line| line.trim().strip_prefix("Machine:")).unwrap();
        assert_eq!(machine.trim(), "AArch64", "{library}");
        // The first version of glibc for this architecture is 2.17.
        let words = read.split(|letter: char| letter.is_whitespace() || "()".contains(letter));
        let versions: BTreeSet<&str> = words.filter(|word| word.starts_with("GLIBC_")).collect();
        assert_eq!(versions, ["GLIBC_2.17"].into(), "{library}");
    }
}

#[test]
#[ignore = "nightly: compiles the library again"]
fn the_archives_for_c_and_swift_can_be_used() {
    let folder = tempfile::tempdir().unwrap();
    build_packages(folder.path(), &["c", "swift"]);
    let built = files(folder.path());
    let archive = built.iter().find(|name| name.starts_with("mcpm-c-") && name.ends_with(".tar.gz")).unwrap();
    for archive in [archive.as_str(), "mcpm-swift.tar.gz"] {
        run(Command::new("tar").arg("-xzf").arg(archive).current_dir(folder.path()));
    }
    let name = archive.strip_suffix(".tar.gz").unwrap();
    let sbom = fs::read_to_string(folder.path().join(format!("{name}.cdx.json"))).unwrap();
    assert!(!sbom.contains(mcpm_tests::root().to_str().unwrap()), "{sbom}");
    let sbom: Value = serde_json::from_str(&sbom).unwrap();
    assert_eq!(sbom["metadata"]["component"]["name"], "mcpm-ffi");
    let components = sbom["components"].as_array().unwrap();
    assert!(components.iter().any(|component| component["name"] == "uniffi"), "{sbom}");
    let prefix = folder.path().join(name);
    let mut version = Command::new("pkg-config");
    version.args(["--modversion", "mcpm"]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    assert_eq!(run(&mut version).trim_end(), env!("CARGO_PKG_VERSION"));
    assert_eq!(files(&prefix), ["LICENSE", "include", "lib"]);
    let kept = run(Command::new("git").args(["ls-files"]).current_dir(bindings().join("swift")));
    for file in kept.lines().chain(["LICENSE"]) {
        assert!(folder.path().join("mcpm-swift").join(file).exists(), "{file}");
    }
}
