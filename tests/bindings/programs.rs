//! Programs in C and Python that use the bindings: compiles and starts them.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Returns all that a program printed.
pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Compiles a C program as strictly as a compiler can.
pub(crate) fn compiled(source: &str) -> PathBuf {
    let root = mcpm_tests::root();
    let library = mcpm_tests::library();
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(Path::new(source).file_stem().unwrap());
    let built = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"])
        .arg(&program)
        .arg(root.join(source))
        .arg("-I")
        .arg(root.join("bindings/c/include"))
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", Path::new(&library).parent().unwrap().display()))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built));
    program
}

/// Lays the Python package out as it is installed, and returns what `PYTHONPATH` names.
pub(crate) fn python_path() -> tempfile::TempDir {
    let path = tempfile::tempdir().unwrap();
    let package = path.path().join("mcpm");
    let native = package.join("_native");
    fs::create_dir_all(&native).unwrap();
    let kept = mcpm_tests::root().join("bindings/python/src/mcpm");
    for folder in ["", "_native"] {
        for entry in fs::read_dir(kept.join(folder)).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), package.join(folder).join(entry.file_name())).unwrap();
            }
        }
    }
    let library = PathBuf::from(mcpm_tests::library());
    fs::copy(&library, native.join(library.file_name().unwrap())).unwrap();
    path
}

/// A Python program below `tests/bindings`.
pub(crate) fn python(program: &str, path: &tempfile::TempDir) -> Command {
    let mut command = Command::new("python3");
    command
        .arg(mcpm_tests::root().join("tests/bindings").join(program))
        .env("PYTHONPATH", path.path())
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}
