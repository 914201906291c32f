//! Runs the same cases in every language. A case checks which results and errors a program gets from operations.
//!
//! A case is a file in `data/cases`. Each line is a verb and its words, for example `call test_simple_text simple
//! text`, which calls a tool and expects a text in the result. `$IMAGE` is the image of the everything-server,
//! `$SILENT` the image of a server that never responds, `$PREFIX` the beginning of the names of workloads, `$FOLDER` an
//! empty folder, `$REGISTRY` the registry beside the cases, and `$REMOTE` a remote server that requires a login.
//! `$SERVER` is the URL of the everything-server, and `$TOKEN` a token of the issuer `$ISSUER` for the audience
//! `guarded`. `$RUNTIME` is the runtime, for cases that are run with several. `tests/identity/bindings.rs` runs the
//! cases that need an identity provider. One program per language runs the cases: `cases/rust.rs`, `cases/case.c`,
//! `cases/case.py` and, with the tests of the Swift package, `bindings/swift/Tests/McpmTests/CaseTests.swift`. A
//! program that waits for an event skips events of other kinds.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "the last line that is shown is the one that failed")]

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    process::Command,
};

use mcpm::Environment;
use mcpm_tests::harness::runtimes::copy_images;
use programs::{MEMORY_CHECKS, MemoryCheck, c_program, python, python_path, text};

#[path = "bindings/programs.rs"]
mod programs;
#[path = "cases/rust.rs"]
mod rust;

fn folder() -> PathBuf {
    mcpm_tests::root().join("tests/data/cases")
}

const IMAGE: &str = "mcpm-test/everything:1";
const SILENT: &str = "mcpm-test/silent:1";

/// A case, with its own folders, and the variables.
struct Run {
    file: PathBuf,
    state: tempfile::TempDir,
    /// A cache with the images, for the built-in runtime.
    cache: Option<tempfile::TempDir>,
    _folder: tempfile::TempDir,
    variables: HashMap<&'static str, String>,
}

impl Run {
    fn new(case: &str, runtime: &str, language: &str) -> Self {
        let empty = tempfile::tempdir().unwrap();
        let variables = HashMap::from([
            ("IMAGE", IMAGE.to_owned()),
            ("SILENT", SILENT.to_owned()),
            ("RUNTIME", runtime.to_owned()),
            ("FOLDER", empty.path().display().to_string()),
            ("REGISTRY", folder().join("registry.json").display().to_string()),
            ("PREFIX", format!("case-{language}-{}", std::process::id())),
        ]);
        let file = folder().join(format!("{case}.case"));
        let cache = (runtime == "builtin").then(|| {
            let cache = tempfile::tempdir().unwrap();
            copy_images(&[IMAGE, SILENT], &cache.path().join("mcpm/images"));
            cache
        });
        Self { file, state: tempfile::tempdir().unwrap(), cache, _folder: empty, variables }
    }

    /// Runs the case with a program.
    fn with(&self, mut program: Command) {
        program.arg(&self.file).envs(&self.variables).env("XDG_STATE_HOME", self.state.path());
        if let Some(cache) = &self.cache {
            program.env("XDG_CACHE_HOME", cache.path());
        }
        let output = program.output().unwrap();
        assert!(output.status.success(), "{}: {}", output.status, text(&output));
        assert_eq!(text(&output), "passed\n");
    }
}

/// Declares a test for each case and runtime in each language.
macro_rules! cases {
    ($($name:ident: $file:literal on $runtime:literal,)+) => {
        const CASES: &[(&str, &str)] = &[$(($file, $runtime)),+];

        mod in_rust {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    super::in_rust($file, $runtime).await;
                }
            )+
        }

        mod in_c {
            $(
                #[test]
                fn $name() {
                    super::in_c($file, $runtime, super::MemoryCheck::None);
                }
            )+
        }

        mod in_python {
            $(
                #[test]
                fn $name() {
                    super::in_python($file, $runtime);
                }
            )+
        }
    };
}

cases! {
    approve: "approve" on "auto",
    cancel: "cancel" on "auto",
    cancel_builtin: "cancel" on "builtin",
    deny: "deny" on "auto",
    errors: "errors" on "auto",
    ignore: "ignore" on "auto",
    manage: "manage" on "auto",
    no_port: "no-port" on "auto",
    used: "use" on "auto",
    used_builtin: "use" on "builtin",
}

async fn in_rust(case: &str, runtime: &str) {
    let run = Run::new(case, runtime, "rust");
    let mut environment =
        Environment { state_dir: run.state.path().to_owned(), ..Environment::from_process() };
    if let Some(cache) = &run.cache {
        environment.cache_dir = cache.path().join("mcpm");
    }
    rust::run(&run.file, &run.variables, environment).await;
}

fn in_c(case: &str, runtime: &str, check: MemoryCheck) {
    Run::new(case, runtime, "c").with(c_program("tests/cases/case.c", check));
}

fn in_python(case: &str, runtime: &str) {
    let path = python_path();
    Run::new(case, runtime, "python").with(python("../cases/case.py", &path));
}

#[test]
#[ignore = "nightly: Valgrind takes minutes"]
fn the_memory_of_every_case_is_checked_in_c() {
    for check in MEMORY_CHECKS {
        // The memory of the bindings does not depend on the runtime.
        for (case, runtime) in CASES.iter().filter(|(_, runtime)| *runtime == "auto") {
            eprintln!("{case}: {check:?}");
            in_c(case, runtime, check);
        }
    }
}

#[test]
fn every_case_is_run() {
    let files = std::fs::read_dir(folder()).unwrap().map(|file| file.unwrap().file_name());
    let names = files.map(|name| name.into_string().unwrap());
    let kept: BTreeSet<String> =
        names.filter_map(|name| Some(name.strip_suffix(".case")?.to_owned())).collect();
    // The identity tests run these cases, because they need an identity provider.
    let run = CASES.iter().map(|(case, _)| *case).chain(["auth", "login"]).map(str::to_owned).collect();
    assert_eq!(kept, run);
}
