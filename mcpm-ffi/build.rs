//! Sets the soname of the shared library, or its install name on macOS. The name contains the ABI version: `MAJOR`, or
//! `0.MINOR` while the major version is 0.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let version = match variable("CARGO_PKG_VERSION_MAJOR").as_str() {
        "0" => format!("0.{}", variable("CARGO_PKG_VERSION_MINOR")),
        major => major.to_owned(),
    };
    match variable("CARGO_CFG_TARGET_OS").as_str() {
        "linux" => println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmcpm.so.{version}"),
        "macos" => println!("cargo::rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libmcpm.{version}.dylib"),
        _ => {}
    }
}
