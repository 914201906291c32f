//! Defines the runtimes that tests of containers run on, and the macro [`on_each_runtime`](crate::on_each_runtime) that
//! declares lists of such tests.

use std::{
    env,
    fmt::Write as _,
    fs,
    os::unix::{fs::MetadataExt as _, process::CommandExt as _},
    path::Path,
    process::Command,
};

use mcpm::image::store::ImageStore;

use crate::root;

/// The user id and group id of tests that run as an ordinary user.
pub const ORDINARY_USER: u32 = 65534;
/// The page that lists the tests that do not run on each runtime.
const GUIDE: &str = "docs/guides/without-an-engine.md";

/// A runtime, and the user that mcpm runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestRuntime {
    /// Docker, or the engine that `MCPM_TEST_ENGINE` names.
    Engine,
    /// The built-in runtime, as the user that runs the tests: root, in CI.
    Builtin,
    /// The built-in runtime, as an ordinary user.
    BuiltinAsUser,
}

impl TestRuntime {
    /// Returns the runtime with the name in a list of tests.
    ///
    /// # Panics
    /// If there is none.
    pub fn named(name: &str) -> Self {
        match name {
            "engine" => Self::Engine,
            "builtin" => Self::Builtin,
            "builtin_as_user" => Self::BuiltinAsUser,
            _ => panic!("there is no runtime `{name}`"),
        }
    }

    /// Returns whether the tests and mcpm run as different users.
    pub fn changes_user(self) -> bool {
        self == Self::BuiltinAsUser && fs::metadata("/proc/self").unwrap().uid() == 0
    }
}

/// Copies images of the engine to a store of the built-in runtime.
///
/// # Panics
/// If it fails.
#[track_caller]
pub fn copy_images(images: &[&str], store: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("images.tar");
    let saved =
        Command::new("docker").args(["save", "--output"]).arg(&archive).args(images).output().unwrap();
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    ImageStore::open(store).unwrap().load(&archive).unwrap();
}

/// A test in a list.
#[derive(Debug)]
pub struct ListedTest {
    /// Its name.
    pub name: &'static str,
    /// The runtimes that it runs on.
    pub runtimes: &'static [&'static str],
    /// Why it does not run on the others.
    pub reason: &'static [&'static str],
}

/// Declares a list of tests, `MODULE::TEST on [RUNTIME..]`, each with a `because` unless it runs on every runtime. Each
/// becomes a test `TEST::RUNTIME`, in which `run` gets the runtime, the name of the test, and the function. An
/// additional test compares the exceptions with those in the guide, below the heading of the list.
#[macro_export]
macro_rules! on_each_runtime {
    (
        $run:path, $heading:literal;
        $($module:ident::$test:ident on [$($runtime:ident)+] $(because $reason:literal)?;)+
    ) => {
        $(
            mod $test {
                $(
                    #[test]
                    fn $runtime() {
                        let runtime = $crate::harness::runtimes::TestRuntime::named(stringify!($runtime));
                        let name = concat!(module_path!(), "::", stringify!($runtime));
                        $run(runtime, name, super::$module::$test);
                    }
                )+
            }
        )+

        #[test]
        fn exceptions_are_in_the_guide() {
            $crate::harness::runtimes::check_exceptions($heading, &[
                $($crate::harness::runtimes::ListedTest {
                    name: stringify!($test),
                    runtimes: &[$(stringify!($runtime)),+],
                    reason: &[$($reason)?],
                }),+
            ]);
        }
    };
}

/// Runs a test of this binary again as an ordinary user.
///
/// # Panics
/// If it fails.
#[track_caller]
pub fn run_as_ordinary_user(test: &str, variables: &[(&str, &str)]) {
    let name = test.split_once("::").map_or(test, |(_, name)| name);
    // Only root may have access to the path of the binary, but `/proc/self/exe` can always be used.
    let mut again = Command::new("/proc/self/exe");
    again.args(["--exact", "--nocapture", name]).uid(ORDINARY_USER).gid(ORDINARY_USER).current_dir("/");
    let outcome = again.envs(variables.iter().copied()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&outcome.stdout), text(&outcome.stderr));
    assert!(
        outcome.status.success() && stdout.contains("1 passed"),
        "as an ordinary user:\n{stdout}\n{stderr}"
    );
}

/// Compares the tests that do not run on each runtime with the table in the guide. `MCPM_UPDATE=1` rewrites the table.
///
/// # Panics
/// If they differ, or if an exception has no reason.
#[track_caller]
pub fn check_exceptions(heading: &str, tests: &[ListedTest]) {
    let mut table = format!("### {heading}\n\n| Test | Runs with | Reason |\n|---|---|---|\n");
    for test in tests {
        let is_exception = test.runtimes.len() < 3;
        assert_eq!(test.reason.len(), usize::from(is_exception), "{}", test.name);
        if let [reason] = test.reason {
            let runtimes = test.runtimes.iter().map(|runtime| match TestRuntime::named(runtime) {
                TestRuntime::Engine => "engines",
                TestRuntime::Builtin => "built-in, as root",
                TestRuntime::BuiltinAsUser => "built-in, as an ordinary user",
            });
            let runtimes = runtimes.collect::<Vec<_>>().join("; ");
            writeln!(table, "| {} | {runtimes} | {reason} |", test.name.replace('_', " ")).unwrap();
        }
    }
    let path = root().join(GUIDE);
    let page = fs::read_to_string(&path).unwrap();
    let begin = page.find(&format!("### {heading}\n")).unwrap_or(page.len());
    let (before, rest) = page.split_at(begin);
    // The table ends at the next heading.
    let end = rest.get(1..).and_then(|rest| rest.find("\n#")).map_or(rest.len(), |end| end + 1);
    let (present, after) = rest.split_at(end);
    if env::var_os("MCPM_UPDATE").is_some() {
        fs::write(&path, format!("{before}{table}{after}")).unwrap();
    } else {
        assert_eq!(present, table, "{GUIDE} is outdated: MCPM_UPDATE=1 rewrites it");
    }
}
