//! Compiles the shim, which runs in containers, so that the library can carry it: for each architecture that engines
//! have, whatever mcpm itself is built for.
//!
//! It is a free-standing Linux program: it needs the core library of some target of its architecture and the linker that
//! comes with the compiler, but no C library. Where no such target is installed, the build carries no shim for that
//! architecture, warns, and says so when isolation is asked for; with `MCPM_REQUIRE_SHIMS=1`, which releases are built
//! with, it fails.

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Whether a shim that cannot be built is an error.
const REQUIRE: &str = "MCPM_REQUIRE_SHIMS";
const ARCHITECTURES: [&str; 2] = ["x86_64", "aarch64"];
/// What comes after the architecture in the names of targets whose core library will do.
const TARGET_SUFFIXES: [&str; 3] = ["unknown-linux-musl", "unknown-linux-gnu", "unknown-none"];
const CODEGEN_OPTIONS: [&str; 11] = [
    "linker=rust-lld",
    "linker-flavor=ld.lld",
    // Files that other C libraries start programs with would get in the way.
    "link-self-contained=no",
    "panic=abort",
    "opt-level=s",
    "codegen-units=1",
    "debuginfo=0",
    "strip=symbols",
    "relocation-model=static",
    "target-feature=+crt-static",
    "link-args=-nostdlib -static --build-id=none",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={REQUIRE}");
    let is_required = env::var(REQUIRE).is_ok_and(|value| value == "1");
    let folder = PathBuf::from(env::var("OUT_DIR")?);
    let (rustc, own) = (env::var("RUSTC")?, env::var("TARGET")?);
    track_targets(&rustc);
    for architecture in ARCHITECTURES {
        let out = folder.join(format!("shim-{architecture}"));
        let systems = TARGET_SUFFIXES.map(|system| format!("{architecture}-{system}"));
        let candidates = std::iter::once(&own).filter(|own| systems.contains(own)).chain(&systems);
        match candidates.into_iter().find(|target| has_core_library(&rustc, target)) {
            Some(target) => compile(&rustc, target, &out)?,
            None => {
                let [usual, ..] = &systems;
                let message = format!(
                    "this build cannot isolate containers of {architecture} engines: run `rustup target add {usual}` \
                     to include that"
                );
                if is_required {
                    return Err(message.into());
                }
                println!("cargo::warning={message}");
                fs::write(out, [])?;
            }
        }
    }
    Ok(())
}

/// Has the shims built again once targets come or go.
fn track_targets(rustc: &str) {
    let found = Command::new(rustc).args(["--print", "sysroot"]).output();
    let sysroot =
        found.map(|found| String::from_utf8_lossy(&found.stdout).trim().to_owned()).unwrap_or_default();
    let targets = Path::new(&sysroot).join("lib/rustlib");
    // Cargo looks at all files below a folder, so the list that rustup keeps is better where there is one.
    let components = targets.join("components");
    let tracked = if components.exists() { components } else { targets };
    println!("cargo::rerun-if-changed={}", tracked.display());
}

/// Tells whether the core library of a target is installed.
fn has_core_library(rustc: &str, target: &str) -> bool {
    let found = Command::new(rustc).args(["--print", "target-libdir", "--target", target]).output();
    let Ok(found) = found else { return false };
    let folder = String::from_utf8_lossy(&found.stdout);
    let entries = fs::read_dir(folder.trim()).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("libcore-"))
}

fn compile(rustc: &str, target: &str, out: &Path) -> Result<(), Box<dyn Error>> {
    let mut rustc = Command::new(rustc);
    rustc.args(["--edition", "2024", "--crate-name", "mcpm_shim", "--crate-type", "bin"]);
    rustc.arg("shim/main.rs").arg("-o").arg(out).args(["--target", target]);
    for setting in CODEGEN_OPTIONS {
        rustc.args(["-C", setting]);
    }
    let made = rustc.output()?;
    let said = String::from_utf8_lossy(&made.stderr);
    if !made.status.success() {
        return Err(format!("the shim does not compile for {target}:\n{said}").into());
    }
    for line in said.lines() {
        println!("cargo::warning=shim: {line}");
    }
    Ok(())
}
