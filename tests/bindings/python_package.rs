//! The Python package: its tests, its style, its reference, the wheel, and its examples.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use mcpm_tests::harness::testbed;

use super::{
    EVERYTHING, Home,
    packages::build_packages,
    printed,
    programs::{python, python_path},
    run,
};

/// The testbed's Python, in the folder of the Python package.
fn testbed_python(path: &tempfile::TempDir) -> Command {
    let mut command = Command::new(testbed::path("MCPM_TEST_PYTHON"));
    command
        .current_dir(mcpm_tests::root().join("bindings/python"))
        .env("PYTHONPATH", path.path())
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn python_tool(module: &str, path: &tempfile::TempDir) -> Command {
    let mut command = testbed_python(path);
    command.args(["-m", module]);
    command
}

#[test]
fn the_python_package_passes_its_tests() {
    let home = Home::new("python");
    let path = python_path();
    let mut pytest = python_tool("pytest", &path);
    run(pytest.args(["-p", "no:cacheprovider"]).env("MCPM_TEST_PREFIX", &home.prefix));
    home.assert_ended(&[]);
}

#[test]
fn the_python_package_is_formatted_and_typed() {
    let path = python_path();
    run(python_tool("ruff", &path).args(["check", "--no-cache", "."]));
    run(python_tool("ruff", &path).args(["format", "--no-cache", "--check", "."]));
    run(python_tool("mypy", &path).arg("--cache-dir").arg(path.path().join("mypy")));
}

#[test]
#[ignore = "nightly: takes half a minute"]
fn the_python_reference_is_built_without_warnings() {
    let path = python_path();
    let pages = path.path().join("pages");
    let mut pdoc = python_tool("pdoc", &path);
    run(pdoc.env("PYTHONWARNINGS", "error").arg("-o").arg(&pages).args(["mcpm", "mcpm.sync"]));
    assert!(pages.join("mcpm/sync.html").exists());
}

/// The names in the first list after `key`.
fn listed(file: &str, key: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(mcpm_tests::root().join(file)).unwrap();
    let (_, rest) = text.split_once(&format!("\n{key} = [")).unwrap();
    let (list, _) = rest.split_once(']').unwrap();
    list.split(',')
        .map(|name| name.trim().trim_matches('"').to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

#[test]
fn the_python_package_has_the_features_of_the_library_without_those_of_c() {
    let mut features = listed("mcpm-ffi/Cargo.toml", "default");
    assert!(features.remove("capi"));
    assert_eq!(listed("bindings/python/pyproject.toml", "features"), features);
}

/// The packages are built, the wheel from the source distribution, and the wheel is installed in a fresh environment.
#[test]
#[ignore = "nightly: compiles the library again"]
fn the_python_wheel_is_installed_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let built = folder.path().join("dist");
    build_packages(&built, &["python", "sdist", "cli"]);
    let file = |prefix: &str, suffix: &str| {
        let is_wanted = |name: &str| name.starts_with(prefix) && name.ends_with(suffix);
        let files = std::fs::read_dir(&built).unwrap().map(|entry| entry.unwrap().path());
        files.into_iter().find(|file| is_wanted(&file.file_name().unwrap().to_string_lossy())).unwrap()
    };
    assert!(file("mcpm_sdk-", ".tar.gz").exists());
    let environment = folder.path().join("environment");
    run(Command::new("python3").args(["-m", "venv"]).arg(&environment));
    let python = environment.join("bin/python");
    run(Command::new(&python).args(["-m", "pip", "install", "--no-index"]).arg(file("mcpm_sdk-", ".whl")));

    let home = Home::new("python-wheel");
    let output = Command::new(&python)
        .arg(mcpm_tests::root().join("bindings/python/examples/run.py"))
        .args([EVERYTHING, &home.prefix])
        .env("XDG_STATE_HOME", home.folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(printed(&output).starts_with(&format!("{} http://127.0.0.1:", home.prefix)));
    home.assert_ended(&[""]);
}

#[test]
fn the_python_app_calls_tools() {
    let home = Home::new("python-app");
    let path = python_path();
    let name = |letter| format!("{}{letter}", home.prefix);
    let mut app = testbed_python(&path)
        .arg("examples/tools.py")
        .args([name("a"), name("b")].map(|name| format!("{name}={EVERYTHING}")))
        .env("XDG_STATE_HOME", home.folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = format!("{} test_simple_text\n{} unheard {{}}\n", name("a"), name("b"));
    app.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let said = printed(&app.wait_with_output().unwrap());
    for line in [&format!("{} test_simple_text", name("b")), "This is a simple text", "error: MCPError("] {
        assert!(said.contains(line), "{line}: {said}");
    }
    home.assert_ended(&["a", "b"]);
}

#[test]
fn the_python_example_runs_an_image() {
    let home = Home::new("python-example");
    let output = python("../../bindings/python/examples/run.py", &python_path())
        .args([EVERYTHING, &home.prefix])
        .env("XDG_STATE_HOME", home.folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = printed(&output);
    assert!(said.starts_with(&format!("{} http://127.0.0.1:", home.prefix)), "{said}");
    home.assert_ended(&[""]);
}
