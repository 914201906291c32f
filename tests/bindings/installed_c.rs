//! The installed C library, with pkg-config and CMake.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{programs::text, run};

/// Installs the library that the tests use below a folder.
fn installed(prefix: &Path) {
    let library = PathBuf::from(mcpm_tests::library());
    let built = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&library, built.path().join(library.file_name().unwrap())).unwrap();
    run(Command::new(mcpm_tests::root().join("bindings/c/install"))
        .arg(prefix)
        .arg("--from")
        .arg(built.path()));
}

#[test]
fn the_installed_c_library_is_used_with_pkg_config() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("usr");
    installed(&prefix);
    let pkg_config = |argument| {
        let mut command = Command::new("pkg-config");
        run(command.args([argument, "mcpm"]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")))
    };
    assert_eq!(pkg_config("--validate"), "");
    assert_eq!(pkg_config("--modversion").trim_end(), env!("CARGO_PKG_VERSION"));
    let flags = pkg_config("--cflags") + &pkg_config("--libs");
    let example = mcpm_tests::root().join("bindings/c/examples/run.c");
    for (compiler, standard) in [("gcc", "c11"), ("clang", "c17"), ("g++", "c++17"), ("clang++", "c++20")] {
        let program = folder.path().join(format!("run-{compiler}"));
        let mut command = Command::new(compiler);
        command.arg(format!("-std={standard}")).args(["-Wall", "-Wextra", "-Werror", "-pedantic"]);
        if standard.starts_with("c++") {
            command.args(["-x", "c++"]);
        }
        command.arg(&example).args(["-x", "none"]).args(flags.split_whitespace()).arg("-o").arg(&program);
        run(&mut command);
        let usage = Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib")).output().unwrap();
        assert_eq!(
            (usage.status.code(), text(&usage).as_str()),
            (Some(2), "usage: run IMAGE [OPTION VALUE]...\n")
        );
    }
}

#[test]
fn the_installed_c_library_is_used_with_cmake() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("usr");
    installed(&prefix);
    let version = env!("CARGO_PKG_VERSION");
    let example = mcpm_tests::root().join("bindings/c/examples/run.c");
    let project = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject(app C)\nfind_package(mcpm {version} REQUIRED CONFIG)\n\
         add_executable(run {})\ntarget_link_libraries(run PRIVATE mcpm::mcpm)\n",
        example.display()
    );
    std::fs::write(folder.path().join("CMakeLists.txt"), project).unwrap();
    let build = folder.path().join("build");
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
    run(Command::new("cmake").arg("-S").arg(folder.path()).arg("-B").arg(&build).arg(&prefix));
    run(Command::new("cmake").arg("--build").arg(&build));
    assert_eq!(Command::new(build.join("run")).output().unwrap().status.code(), Some(2));
}
