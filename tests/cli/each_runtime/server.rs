//! Provides a server that executes scripts of a test, with a shell in its own container.
//!
//! The image contains a static shell, the everything-server, and a program that tries connections. Beside the
//! everything-server, a shell loop runs scripts whose names it reads from a named pipe. The scripts have the privileges
//! of the server, and not the privileges that `docker exec` would give them.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use mcpm_tests::harness::{runtimes::TestRuntime, testbed};

use crate::support::{Home, Outcome, docker};

/// The image. An engine builds it only once, so change the tag together with the image.
pub(crate) const IMAGE: &str = "mcpm-rt/server:2";
/// The options of a server that speaks HTTP.
pub(super) const HTTP: [&str; 4] = ["--transport", "streamable-http", "--target-port", "3000"];
/// The command that starts the server.
pub(super) const HTTP_SERVER: &str = "exec /everything-server -http 0.0.0.0:3000 -stateless=false";
const LOOP: &str = "while read -r ask < /box/asks; do /busybox sh /box/$ask > /box/answers 2>&1; done &";

/// Runs a test with a home folder, on a runtime that has the image.
pub(super) fn run(runtime: TestRuntime, _test: &str, body: impl FnOnce(&Home)) {
    make_image();
    let home = Home::on(runtime);
    home.set("MCPM_SECRETS_PASSWORD", "correct horse");
    home.provide_images(&[IMAGE]);
    body(&home);
}

pub(crate) fn make_image() {
    if !docker(&["image", "ls", "--quiet", IMAGE]).is_empty() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    for folder in ["tmp", "proc", "dev", "etc"] {
        fs::create_dir(root.path().join(folder)).unwrap();
    }
    for (variable, name) in
        [("MCPM_TEST_BUSYBOX", "busybox"), ("MCPM_TEST_EVERYTHING_SERVER", "everything-server")]
    {
        fs::copy(testbed::path(variable), root.path().join(name)).unwrap();
    }
    let source = mcpm_tests::root().join("tests/cli/each_runtime/probe.c");
    let compiled =
        Command::new("cc").args(["-static", "-O1", "-o"]).arg(root.path().join("probe")).arg(source).status();
    assert!(compiled.unwrap().success());
    let archive = tempfile::NamedTempFile::new().unwrap();
    let tar = Command::new("tar").arg("-cf").arg(archive.path()).arg("-C").arg(root.path()).arg(".").status();
    assert!(tar.unwrap().success());
    let changes = ["ENTRYPOINT [\"/busybox\", \"sh\", \"-c\"]", "CMD [\"exec /everything-server\"]"];
    let changes: Vec<&str> = changes.iter().flat_map(|change| ["--change", change]).collect();
    docker(&[&["import"][..], &changes, &[archive.path().to_str().unwrap(), IMAGE]].concat());
}

/// Starts a server that runs scripts.
#[track_caller]
pub(super) fn start(home: &Home, name: &str, options: &[&str]) -> Outcome {
    let folder = home.path("box");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    for pipe in ["asks", "answers"] {
        let path = folder.join(pipe);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    }
    let command = format!("{LOOP} exec /everything-server");
    let volume = format!("{}:/box", folder.display());
    let run = ["run", IMAGE, "--name", name, "--transport", "stdio", "--volume", &volume];
    home.run(&[&run[..], options, &["--", &command]].concat()).succeeded()
}

/// The output of a script in the container, including errors.
#[track_caller]
pub(super) fn says(home: &Home, script: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let ask = format!("ask-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    home.write(&format!("box/{ask}"), script);
    fs::write(home.path("box/asks"), format!("{ask}\n")).unwrap();
    String::from_utf8(fs::read(home.path("box/answers")).unwrap()).unwrap()
}

/// Makes a folder and its content accessible to a server of any user.
pub(super) fn open_to_all(folder: &Path) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.symlink_metadata().unwrap() {
            found if found.is_dir() => open_to_all(&path),
            found if found.is_file() => {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap()
            }
            _ => {}
        }
    }
}
