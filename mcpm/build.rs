//! Compiles the shim, which runs in containers, so that the library can carry it.
//!
//! It is a free-standing program: the compiler at hand makes it for the target at hand, without a C library and
//! without another target's standard library. Isolated containers run on the kernel that mcpm runs on, so targets
//! other than Linux get none, and say so when isolation is asked for.

use std::{env, error::Error, fs, path::PathBuf, process::Command};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var("OUT_DIR")?).join("shim");
    let of_target = |part: &str| env::var(format!("CARGO_CFG_TARGET_{part}"));
    // Other C libraries come with start files of their own, which get in the way.
    let is_gnu_linux = of_target("OS")? == "linux" && of_target("ENV")? == "gnu";
    if !is_gnu_linux || !matches!(of_target("ARCH")?.as_str(), "x86_64" | "aarch64") {
        return Ok(fs::write(out, [])?);
    }
    let mut rustc = Command::new(env::var("RUSTC")?);
    rustc.args(["--edition", "2024", "--crate-name", "mcpm_shim", "--crate-type", "bin"]);
    rustc.arg("shim/main.rs").arg("-o").arg(&out).args(["--target", &env::var("TARGET")?]);
    let settings = [
        "panic=abort",
        "opt-level=s",
        "codegen-units=1",
        "debuginfo=0",
        "strip=symbols",
        "relocation-model=static",
        "target-feature=+crt-static",
        "link-arg=-nostartfiles",
        "link-arg=-nostdlib",
        "link-arg=-static",
        "link-arg=-Wl,--build-id=none",
    ];
    for setting in settings {
        rustc.args(["-C", setting]);
    }
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={linker}"));
    }
    let made = rustc.output()?;
    if !made.status.success() {
        return Err(format!("the shim does not compile:\n{}", String::from_utf8_lossy(&made.stderr)).into());
    }
    for line in String::from_utf8_lossy(&made.stderr).lines() {
        println!("cargo::warning=shim: {line}");
    }
    Ok(())
}
