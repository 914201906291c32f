//! Compiles the shim, which runs in containers and is embedded into the library. It is compiled for x86-64 and for
//! 64-bit ARM, whatever the architecture of mcpm itself, because a container engine may run on a machine of another
//! architecture.
//!
//! The shim is a freestanding Linux program: to compile it, the core library of a Linux or bare-metal target of its
//! architecture and the linker that comes with the compiler are sufficient, without a C library. If no such target is
//! installed, the library contains no shim for that architecture, the build warns, and isolation fails with an error
//! that says so; with `MCPM_REQUIRE_SHIMS=1`, which is set for releases, the build fails.

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Makes it an error if a shim cannot be built.
const REQUIRE: &str = "MCPM_REQUIRE_SHIMS";
const ARCHITECTURES: [&str; 2] = ["x86_64", "aarch64"];
/// Targets whose core library can be used, without the architecture.
const TARGET_SUFFIXES: [&str; 3] = ["unknown-linux-musl", "unknown-linux-gnu", "unknown-none"];
const CODEGEN_OPTIONS: [&str; 11] = [
    "linker=rust-lld",
    "linker-flavor=ld.lld",
    // Startup files of C libraries must not be linked.
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
                    "this build cannot isolate containers of {architecture} engines; to include the shim for them, run \
                     `rustup target add {usual}` and build again"
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

/// Rebuilds the shims when targets are installed or removed.
fn track_targets(rustc: &str) {
    let found = Command::new(rustc).args(["--print", "sysroot"]).output();
    let sysroot =
        found.map(|found| String::from_utf8_lossy(&found.stdout).trim().to_owned()).unwrap_or_default();
    let targets = Path::new(&sysroot).join("lib/rustlib");
    // Cargo would check all files in a folder, so rustup's list of components is preferred.
    let components = targets.join("components");
    let tracked = if components.exists() { components } else { targets };
    println!("cargo::rerun-if-changed={}", tracked.display());
}

/// Whether the core library of a target is installed.
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
    let stderr = String::from_utf8_lossy(&made.stderr);
    if !made.status.success() {
        return Err(format!("the shim does not compile for {target}:\n{stderr}").into());
    }
    for line in stderr.lines() {
        println!("cargo::warning=shim: {line}");
    }
    Ok(())
}
