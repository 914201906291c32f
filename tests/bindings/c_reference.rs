//! Tests the reference of the C API, which Doxygen builds from the header.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use super::programs::text;

#[test]
#[ignore = "nightly: needs Doxygen"]
fn the_c_reference_is_built_without_warnings() {
    let folder = tempfile::tempdir().unwrap();
    let package = mcpm_tests::root().join("bindings/c");
    // The settings in the repository; if one is repeated, the last value counts.
    let settings = fs::read_to_string(package.join("Doxyfile")).unwrap();
    let settings = format!("{settings}OUTPUT_DIRECTORY = {}\n", folder.path().display());
    let mut doxygen = Command::new("doxygen");
    doxygen.arg("-").current_dir(package).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut doxygen = doxygen.spawn().unwrap();
    doxygen.stdin.take().unwrap().write_all(settings.as_bytes()).unwrap();
    let built = doxygen.wait_with_output().unwrap();
    assert!(built.status.success() && text(&built).is_empty(), "{}", text(&built));
    let page = fs::read_to_string(folder.path().join("html/mcpm_8h.html")).unwrap();
    assert!(["MCPM_FREED_BY", "mcpm_workload_start"].iter().all(|name| page.contains(name)));
}
