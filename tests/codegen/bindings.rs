//! Generates the C header with cbindgen, and the Python and Swift modules with uniffi; lists the exported C functions.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use uniffi::{GenerateOptions, SwiftBindingsOptions, TargetLanguage};

use super::GeneratedFiles;

/// Returns `mcpm.h`. It is generated from the source files on disk, so these must be current first.
pub(crate) fn header(root: &Path) -> Vec<u8> {
    let folder = root.join("mcpm-ffi");
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let mut header = Vec::new();
    cbindgen::Builder::new().with_crate(folder).with_config(config).generate().unwrap().write(&mut header);
    header
}

/// Returns the names of the functions of the built library that C programs can call, one per line: its ABI.
pub(crate) fn symbols() -> String {
    let output = Command::new("nm")
        .args(["-D", "--defined-only", "--format=just-symbols"])
        .arg(mcpm_tests::library())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let symbols = String::from_utf8(output.stdout).unwrap();
    let other = |name: &&str| {
        !["mcpm_", "uniffi_", "ffi_mcpm_", "UNIFFI_META_"].iter().any(|prefix| name.starts_with(prefix))
    };
    assert_eq!(symbols.lines().find(other), None, "the library exports more than its interface");
    let mut names: Vec<&str> = symbols.lines().filter(|name| name.starts_with("mcpm_")).collect();
    names.sort_unstable();
    names.join("\n") + "\n"
}

/// Compares the Python and Swift files with those that uniffi generates from the built library.
pub(crate) fn python_and_swift(kept: &mut GeneratedFiles) {
    let library = mcpm_tests::library();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bindings");
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    uniffi::generate(GenerateOptions {
        languages: vec![TargetLanguage::Python],
        source: library.as_str().into(),
        out_dir: path("python").into(),
        ..Default::default()
    })
    .unwrap();
    let swift = |out: &str, sources: bool| {
        uniffi::generate_swift_bindings(SwiftBindingsOptions {
            generate_swift_sources: sources,
            generate_headers: !sources,
            generate_modulemap: !sources,
            source: library.as_str().into(),
            out_dir: path(out).into(),
            xcframework: false,
            module_name: Some("mcpmFFI".to_owned()),
            modulemap_filename: Some("module.modulemap".to_owned()),
            metadata_no_deps: false,
            link_frameworks: Vec::new(),
            config: None,
        })
        .unwrap();
    };
    swift("swift", true);
    let patched = Command::new(mcpm_tests::root().join("bindings/swift/patch-generated"))
        .arg(folder.join("swift/McpmGenerated.swift"))
        .output()
        .unwrap();
    assert!(patched.status.success(), "{}", String::from_utf8_lossy(&patched.stderr));
    swift("swift-ffi", false);
    for (made, folder_kept) in [
        ("python", "bindings/python/src/mcpm/_native"),
        ("swift", "bindings/swift/Sources/McpmGenerated"),
        ("swift-ffi", "bindings/swift/Sources/mcpmFFI"),
    ] {
        for entry in fs::read_dir(folder.join(made)).unwrap() {
            let entry = entry.unwrap();
            kept.check_file(Path::new(folder_kept).join(entry.file_name()), fs::read(entry.path()).unwrap());
        }
    }
}
