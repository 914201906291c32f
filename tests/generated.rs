//! Files made from the option table, the catalogue of reasons and the command line are up to date.
//!
//! `MCPM_UPDATE=1 cargo test -p mcpm-tests --test generated` rewrites them. It is one test, since some files are
//! made from others.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use made::Kept;

mod made;

#[test]
fn made_files_are_current() {
    let mut kept = Kept::open(mcpm_tests::root());
    kept.file("docs/reference/options.md", made::reference::options());
    kept.file("docs/reference/reasons.md", made::reference::reasons());
    kept.file("docs/reference/export.schema.json", made::reference::export_schema());
    kept.folder("docs/man", mcpm_cli::pages().unwrap());
    kept.folder("docs/completions", mcpm_cli::scripts());
    kept.file("mcpm-ffi/src/generated/records.rs", made::ffi::records());
    kept.file("mcpm-ffi/src/c/setters.rs", made::ffi::setters());
    kept.file("bindings/c/include/mcpm.h", made::bindings::header(&mcpm_tests::root()));
    // What follows is made from the library, which may not build while its own sources are stale.
    kept.assert_current();
    made::bindings::python_and_swift(&mut kept);
    kept.assert_current();
}
