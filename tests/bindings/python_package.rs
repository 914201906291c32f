//! Runs the tests, the style checks and the examples of the Python package, and builds its reference, its wheel and its
//! source distribution.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use mcpm_tests::harness::testbed;

use super::{
    EVERYTHING, Home,
    packages::{build_packages, files, install_with_pip, package_command},
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
    let cache = path.path().join("mypy");
    run(python_tool("mypy", &path).arg("--cache-dir").arg(&cache));

    // Programs of other tests, which run on the testbed's version of Python alone.
    let folders = ["bindings", "cases", "cli", "clients"].map(|folder| format!("../../tests/{folder}"));
    // Its name has no extension.
    let program = "../../tests/clients/follow_redirects";
    // Not checked by mypy: its packages have no types.
    let receiver = "../../tests/telemetry/receiver.py";
    let config = ["--no-cache", "--config", "pyproject.toml", "--target-version", "py311"];
    for command in [&["check"][..], &["format", "--check"]] {
        let mut ruff = python_tool("ruff", &path);
        run(ruff.args(command).args(config).args(&folders).args([program, receiver]));
    }
    // In a run of its own, since an example is named `login`, too.
    run(python_tool("mypy", &path).arg("--cache-dir").arg(&cache).args(&folders).arg(program));
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

/// Builds the packages, the wheel from the source distribution, and installs it in a fresh environment together with
/// the wheel of the command. Then runs the package's tests and checks the types of its examples with the installed
/// package.
#[test]
#[ignore = "nightly: compiles the library again"]
fn the_python_wheel_is_installed_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let built = folder.path().join("dist");
    build_packages(&built, &["python", "sdist", "cli"]);
    let files = fs::read_dir(&built).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<String> = files.filter(|name| name.starts_with("mcpm_")).collect();
    files.sort_unstable();
    let sums = files.extract_if(.., |name| name.ends_with(".sha256")).count();
    assert_eq!(sums, 3, "one for each file");
    let [command, wheel, sources] = files.as_slice() else { panic!("{files:?}") };
    assert!(command.starts_with("mcpm_cli-") && command.contains("-py3-none-"), "{command}");
    // One wheel is for all versions of Python.
    assert!(wheel.starts_with("mcpm_sdk-") && wheel.contains("-py3-none-"), "{wheel}");
    assert!(sources.starts_with("mcpm_sdk-") && sources.ends_with(".tar.gz"), "{sources}");
    let environment = folder.path().join("environment");
    install_with_pip(&environment, &built, "mcpm-sdk[cli]");
    let python = environment.join("bin/python");

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

    let find = "import mcpm, pathlib; print(pathlib.Path(mcpm.__file__).parent.parent)";
    let installed = run(Command::new(&python).args(["-c", find]).current_dir(folder.path()));
    assert!(Path::new(installed.trim_end()).starts_with(&environment), "{installed}");
    for package in ["mcpm_sdk", "mcpm_cli"] {
        let bill = bill_of_materials(Path::new(installed.trim_end()), package);
        assert!(bill.contains(r#""bomFormat": "CycloneDX""#), "{package}");
        assert!(!bill.contains(mcpm_tests::root().to_str().unwrap()), "{package}");
    }
    let home = Home::new("python-wheel-tests");
    let mut pytest = Command::new(testbed::path("MCPM_TEST_PYTHON"));
    pytest.args(["-m", "pytest", "-p", "no:cacheprovider"]);
    pytest.current_dir(mcpm_tests::root().join("bindings/python")).env("PYTHONPATH", installed.trim_end());
    run(pytest.env("PYTHONDONTWRITEBYTECODE", "1").env("MCPM_TEST_PREFIX", &home.prefix));
    home.assert_ended(&[]);
    // Tests the installed modules, not those of the checkout, which the settings of the package name.
    let mut mypy = Command::new(testbed::path("MCPM_TEST_PYTHON"));
    mypy.args([
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--ignore-missing-imports",
        "--python-executable",
    ]);
    mypy.arg(&python).arg("--cache-dir").arg(folder.path().join("mypy")).current_dir(folder.path());
    for example in ["login", "run", "tools"] {
        mypy.arg(mcpm_tests::root().join(format!("bindings/python/examples/{example}.py")));
    }
    run(&mut mypy);
}

/// Unpacks a source distribution, and installs it with pip in a folder: `ARCHIVE PYTHON FOLDER`. With the source folder
/// and the compiler flags of `bindings/build`, what that script has compiled is used again.
const INSTALL_SDIST: &str = r#"
source mcpm-cli/packaging/base
rm -rf "$sdist"
mkdir -p "$sdist"
tar -xzf "$1" -C "$sdist" --strip-components 1
"$2" -m pip install --no-index --no-deps --no-build-isolation --check-build-dependencies \
  --config-settings 'build-args=--profile dev' --target "$3" "$sdist"
"#;

#[test]
#[ignore = "nightly: compiles the library again"]
fn pip_installs_the_source_distribution() {
    let folder = tempfile::tempdir().unwrap();
    build_packages(folder.path(), &["sdist"]);
    let archive = files(folder.path()).into_iter().find(|name| name.ends_with(".tar.gz")).unwrap();
    let (python, installed) = (testbed::path("MCPM_TEST_PYTHON"), folder.path().join("installed"));
    let mut install = package_command("bash");
    install.args(["-c", INSTALL_SDIST, "bash"]).arg(folder.path().join(archive)).args([&python, &installed]);
    run(install.current_dir(mcpm_tests::root()));

    let mut import = Command::new(python);
    import.args(["-c", "import mcpm; print(mcpm.__file__, mcpm.version())"]);
    let said = run(import.env("PYTHONPATH", &installed).current_dir(folder.path()));
    let module = installed.join("mcpm/__init__.py");
    assert_eq!(said.trim_end(), format!("{} {}", module.display(), env!("CARGO_PKG_VERSION")));
}

/// The software bill of materials of an installed wheel.
fn bill_of_materials(packages: &Path, package: &str) -> String {
    let mut entries = fs::read_dir(packages).unwrap().map(|entry| entry.unwrap().path());
    let is_info = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(&format!("{package}-")) && name.ends_with(".dist-info")
    };
    let bills = fs::read_dir(entries.find(is_info).unwrap().join("sboms")).unwrap();
    bills.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
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
