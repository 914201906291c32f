//! Tests the installed C library: the header, the shared and the static library, pkg-config and CMake.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use super::{programs::text, run};

const COMPILERS: [(&str, &str); 6] = [
    ("gcc", "c11"),
    ("clang", "c11"),
    ("clang", "c17"),
    ("g++", "c++17"),
    ("clang++", "c++17"),
    ("clang++", "c++20"),
];

/// Returns the command line of a strict compiler, up to its input file.
fn strict(compiler: &str, standard: &str) -> Command {
    let mut command = Command::new(compiler);
    command.arg(format!("-std={standard}")).args(["-Wall", "-Wextra", "-Werror", "-pedantic"]);
    if standard.starts_with("c++") {
        command.args(["-x", "c++"]);
    }
    command
}

/// Returns the folder in which cargo has built the libraries that the tests use.
fn built() -> PathBuf {
    PathBuf::from(mcpm_tests::library()).parent().unwrap().to_owned()
}

/// Installs these libraries, which the tests use, below a folder.
fn install(prefix: &Path, libraries: &[&str]) {
    let (built, from) = (built(), tempfile::tempdir().unwrap());
    for library in libraries {
        symlink(built.join(library), from.path().join(library)).unwrap();
    }
    run(Command::new(mcpm_tests::root().join("bindings/c/install"))
        .arg(prefix)
        .arg("--from")
        .arg(from.path()));
}

fn pkg_config(prefix: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("pkg-config");
    run(command.args(arguments).arg("mcpm").env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")))
}

/// Checks that the example in `run.c`, compiled, starts.
fn assert_starts(program: &Path, library_path: impl AsRef<OsStr>) {
    let usage = Command::new(program).env("LD_LIBRARY_PATH", library_path).output().unwrap();
    assert_eq!(
        (usage.status.code(), text(&usage).as_str()),
        (Some(2), "usage: run IMAGE [OPTION VALUE]...\n")
    );
}

/// Compiles the example in `run.c` in a CMake project, linked to a target of the package.
fn cmake(folder: &Path, prefix: &Path, target: &str) -> PathBuf {
    let example = mcpm_tests::root().join("bindings/c/examples/run.c");
    let project = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject(app C)\nfind_package(mcpm {} REQUIRED CONFIG)\n\
         add_executable(run {})\ntarget_link_libraries(run PRIVATE {target})\n",
        env!("CARGO_PKG_VERSION"),
        example.display()
    );
    fs::write(folder.join("CMakeLists.txt"), project).unwrap();
    let build = folder.join("build");
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
    run(Command::new("cmake").arg("-S").arg(folder).arg("-B").arg(&build).arg(&prefix));
    run(Command::new("cmake").arg("--build").arg(&build));
    build.join("run")
}

#[test]
fn the_installed_c_library_is_used_with_pkg_config() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("usr");
    install(&prefix, &["libmcpm_ffi.so"]);
    assert_eq!(pkg_config(&prefix, &["--validate"]), "");
    assert_eq!(pkg_config(&prefix, &["--modversion"]).trim_end(), env!("CARGO_PKG_VERSION"));
    // While the major version is 0, each minor version has an ABI of its own.
    let soname = format!("libmcpm.so.{}", env!("CARGO_PKG_VERSION").rsplit_once('.').unwrap().0);
    assert_eq!(dynamic_entries(&prefix.join("lib/libmcpm.so"), "SONAME"), [soname.as_str()]);
    let flags = pkg_config(&prefix, &["--cflags", "--libs"]);
    for (compiler, standard) in COMPILERS {
        for name in ["run", "tools"] {
            let program = folder.path().join(format!("{name}-{compiler}-{standard}"));
            let mut command = strict(compiler, standard);
            command.arg(mcpm_tests::root().join(format!("bindings/c/examples/{name}.c")));
            command.args(["-x", "none"]).args(flags.split_whitespace()).arg("-o").arg(&program);
            run(&mut command);
        }
        let program = folder.path().join(format!("run-{compiler}-{standard}"));
        assert_starts(&program, prefix.join("lib"));
        assert_eq!(dynamic_entries(&program, "NEEDED").iter().filter(|name| **name == soname).count(), 1);
    }
}

/// Returns the values of a kind of entry in the dynamic section of a library or a program.
fn dynamic_entries(file: &Path, kind: &str) -> Vec<String> {
    let section = run(Command::new("readelf").arg("--dynamic").arg("--wide").arg(file));
    let entries = section.lines().filter(|line| line.contains(&format!("({kind})")));
    entries.map(|line| line.rsplit_once('[').unwrap().1.trim_end_matches(']').to_owned()).collect()
}

#[test]
fn the_installed_c_library_is_used_with_cmake() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("usr");
    install(&prefix, &["libmcpm_ffi.so"]);
    assert_starts(&cmake(folder.path(), &prefix, "mcpm::mcpm"), "");
}

/// Returns the native libraries that rustc names for a static library with the bindings.
fn native_libraries(folder: &Path) -> String {
    let (built, source, names) = (built(), folder.join("native.rs"), folder.join("native-libraries"));
    fs::write(&source, "extern crate mcpm_ffi as _;\n").unwrap();
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--crate-type", "staticlib", "--edition", "2024", "--out-dir"]).arg(folder).arg(source);
    rustc.arg("--print").arg(format!("native-static-libs={}", names.display()));
    rustc.arg("--extern").arg(format!("mcpm_ffi={}", built.join("libmcpm_ffi.rlib").display()));
    rustc.arg("-L").arg(format!("dependency={}", built.join("deps").display()));
    run(&mut rustc);
    fs::read_to_string(names).unwrap()
}

#[test]
fn the_installed_c_library_is_linked_statically() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("usr");
    install(&prefix, &["libmcpm_ffi.so", "libmcpm_ffi.a"]);
    let flags = pkg_config(&prefix, &["--static", "--cflags", "--libs"]);
    let private = fs::read_to_string(prefix.join("lib/pkgconfig/mcpm.pc")).unwrap();
    let private = private.lines().find_map(|line| line.strip_prefix("Libs.private: ")).unwrap();
    let needed = native_libraries(folder.path());
    let set = |names: &str| names.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(set(private), set(&needed), "`static_libs` in bindings/c/install");

    // As bindings/c/README.md describes: otherwise the linker prefers the shared library.
    let flags = flags.replace("-lmcpm", "-l:libmcpm.a");
    let program = folder.path().join("static");
    let mut command = strict("gcc", "c11");
    command.arg(mcpm_tests::root().join("bindings/c/examples/run.c"));
    run(command.args(flags.split_whitespace()).arg("-o").arg(&program));
    assert_starts(&program, "");
    fs::remove_file(program).unwrap();

    let program = cmake(folder.path(), &prefix, "mcpm::static");
    // The shared library has been removed.
    fs::rename(prefix.join("lib"), prefix.join("moved")).unwrap();
    assert_starts(&program, "");
}

#[test]
fn compilers_check_the_marks_of_the_header() {
    let folder = tempfile::tempdir().unwrap();
    let compiles = |(compiler, standard): (&str, &str), body: &str| {
        let source = folder.path().join("marks.c");
        let text =
            format!("#include <stdlib.h>\n#include \"mcpm.h\"\nvoid f(void);\nvoid f(void) {{ {body} }}\n");
        fs::write(&source, text).unwrap();
        let mut command = strict(compiler, standard);
        command.arg("-I").arg(mcpm_tests::root().join("bindings/c/include"));
        command.args(["-c", "-o", "/dev/null"]).arg(&source).output().unwrap().status.success()
    };
    for compiler in COMPILERS {
        assert!(compiles(compiler, "mcpm_workload_builder_free(mcpm_workload_builder_new());"));
        assert!(compiles(compiler, "mcpm_shutdown(NULL);"));
        assert!(!compiles(compiler, "mcpm_workload_builder_new();"), "{compiler:?}");
        assert!(!compiles(compiler, "mcpm_workloads_remove(\"name\", 1, NULL);"), "{compiler:?}");
        // Only GCC knows which function frees a result.
        let frees_wrongly = compiles(compiler, "free(mcpm_workload_builder_new());");
        assert_eq!(frees_wrongly, compiler.0.starts_with("clang"), "{compiler:?}");
    }
}

#[test]
fn every_handle_that_is_freed_is_marked_in_the_header() {
    let header = fs::read_to_string(mcpm_tests::root().join("bindings/c/include/mcpm.h")).unwrap();
    let code = header.lines().filter(|line| !line.trim_start().starts_with(['*', '#', '/']));
    let code: Vec<&str> = code.collect();
    let code = code.join(" ");
    let (mut results, mut passed, mut unmarked) = (0, 0, Vec::new());
    for declaration in code.split(';') {
        // A callback is a type of a pointer to a function.
        let is_callback = declaration.contains("typedef ") && declaration.contains("(*");
        let (returned, _) = declaration.split_once('(').unwrap_or_default();
        if returned.contains(" *") && !returned.contains("const ") {
            results += 1;
            if !returned.contains("MCPM_OWNED ") {
                unmarked.push(returned);
            }
        }
        for argument in declaration.split(['(', ',', ')']).map(str::trim) {
            let is_result = argument.contains(" **") && !argument.starts_with("const ");
            let is_handle = argument.contains(" *") && !argument.contains(" **");
            let frees = is_handle && declaration.contains("_free(");
            let is_passed = is_callback && is_handle && argument != "void *user_data";
            // A pointer to a constant is borrowed, and so is the answer that a callback sets.
            let is_borrowed = argument.starts_with("const ") || argument.contains("mcpm_prompt_answer *");
            if is_result || frees || (is_passed && !is_borrowed) {
                results += usize::from(is_result);
                passed += usize::from(is_passed);
                if !argument.starts_with("MCPM_OWNED ") {
                    unmarked.push(argument);
                }
            }
        }
    }
    assert!(unmarked.is_empty(), "{unmarked:?}: use `Owned` in mcpm-ffi/src/c");
    // If this fails, the test no longer understands the header.
    assert!(results >= 60 && passed >= 12, "only {results} results and {passed} of callbacks were found");
}
