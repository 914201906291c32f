//! Checks that the committed generated files are up to date: reference pages, sources of the bindings, the C header and
//! the list of exported C functions.
//!
//! `MCPM_UPDATE=1 cargo test -p mcpm-tests --test generated` rewrites them. It is a single test, because some files are
//! generated from other generated files.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use codegen::GeneratedFiles;

mod codegen;

#[test]
fn generated_files_are_current() {
    let mut kept = GeneratedFiles::open(mcpm_tests::root());
    kept.check_file("docs/reference/options.md", codegen::reference::options());
    kept.check_file("docs/reference/reasons.md", codegen::reference::reasons());
    kept.check_file("docs/reference/export.schema.json", codegen::reference::export_schema());
    kept.check_file("mcpm-ffi/src/generated/records.rs", codegen::ffi::records());
    kept.check_file("mcpm-ffi/src/c/setters.rs", codegen::ffi::setters());
    kept.check_file("bindings/python/src/mcpm/_options.py", codegen::python::options());
    kept.check_file("bindings/c/include/mcpm.h", codegen::bindings::header(&mcpm_tests::root()));
    // The following files are generated from the library, which may not compile while its generated sources are stale.
    kept.assert_current();
    kept.check_file("bindings/c/mcpm.symbols", codegen::bindings::symbols());
    codegen::bindings::python_and_swift(&mut kept);
    kept.assert_current();
}
