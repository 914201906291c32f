//! Compiles and starts programs in C and Python that use the bindings.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Returns the complete output of a program.
pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The way in which the memory of a C program is checked while it runs. Both checkers also see the memory that the
/// library allocates, and end the program with an error if memory has leaked when it ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MemoryCheck {
    None,
    Valgrind,
    /// The compiler's sanitizers for addresses, leaks and undefined behavior.
    Sanitizers(&'static str),
}

/// All ways to check the memory, for the nightly tests.
pub(crate) const MEMORY_CHECKS: [MemoryCheck; 3] =
    [MemoryCheck::Valgrind, MemoryCheck::Sanitizers("gcc"), MemoryCheck::Sanitizers("clang")];

/// Valgrind prints only errors. Memory that is still reachable is no leak: the library keeps tables until the exit.
const VALGRIND: [&str; 6] = [
    "--quiet",
    "--error-exitcode=99",
    "--leak-check=full",
    "--show-leak-kinds=definite,possible",
    "--errors-for-leak-kinds=definite,possible",
    "--child-silent-after-fork=yes",
];

/// Compiles a C program with the strictest settings of the compiler, and returns the command that runs it.
pub(crate) fn c_program(source: &str, check: MemoryCheck) -> Command {
    let root = mcpm_tests::root();
    let library = PathBuf::from(mcpm_tests::library());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let default = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let (compiler, suffix, sanitizers) = match check {
        MemoryCheck::None | MemoryCheck::Valgrind => (default, String::new(), &[][..]),
        MemoryCheck::Sanitizers(compiler) => {
            let flags = &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"][..];
            (compiler.into(), format!("-{compiler}"), flags)
        }
    };
    let name = Path::new(source).file_stem().unwrap().to_str().unwrap();
    let program = folder.join(format!("{name}{suffix}"));
    // Several tests compile the same program, and none may see an incomplete file.
    let compiling = program.with_extension(std::process::id().to_string());
    let libraries = folder.join("lib");
    link_by_soname(&library, &libraries);
    let built = Command::new(compiler)
        .args(["-std=c11", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"])
        .arg(&compiling)
        .args(sanitizers)
        .arg(root.join(source))
        .arg("-I")
        .arg(root.join("bindings/c/include"))
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built));
    fs::rename(compiling, &program).unwrap();
    if let MemoryCheck::Valgrind = check {
        let mut command = Command::new("valgrind");
        command.args(VALGRIND).arg(program);
        return command;
    }
    Command::new(program)
}

/// Links a library in a folder under the name that programs look for.
fn link_by_soname(library: &Path, folder: &Path) {
    let version = env!("CARGO_PKG_VERSION").rsplit_once('.').unwrap().0;
    fs::create_dir_all(folder).unwrap();
    let link = folder.join(format!("libmcpm.so.{version}"));
    let linking = link.with_extension(std::process::id().to_string());
    std::os::unix::fs::symlink(library, &linking).unwrap();
    fs::rename(linking, link).unwrap();
}

/// Lays out the Python package as it is installed, and returns the value for `PYTHONPATH`.
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
