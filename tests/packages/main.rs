//! Tests the packages of a release and their installer (`mcpm-cli/packaging`), and checks the workflows that build them
//! (`.github/workflows`).
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bare_debian;
mod installer;
mod new_user;
mod workflows;

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// The targets that packages are built for.
const TARGETS: [&str; 4] = [
    "aarch64-apple-darwin",
    "x86_64-apple-darwin",
    "aarch64-unknown-linux-musl",
    "x86_64-unknown-linux-musl",
];

/// Serves the files of a folder, like the releases of a repository.
struct FileServer {
    process: Child,
    url: String,
}

impl FileServer {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new("python3");
        command.args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory"]).arg(folder);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let mut words = said.split_whitespace().skip_while(|word| *word != "port");
        let port = words.nth(1).unwrap();
        Self { url: format!("http://127.0.0.1:{port}"), process }
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn packaging() -> PathBuf {
    mcpm_tests::root().join("mcpm-cli/packaging")
}

/// Runs a command that must succeed, and returns its standard output.
#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// The SHA-256 checksum of a file.
fn checksum(file: &Path) -> String {
    let line = run(Command::new("sha256sum").arg("--").arg(file));
    line.split(' ').next().unwrap().to_owned()
}

#[test]
fn installer_and_formula_name_the_release_and_its_checksums() {
    let folder = tempfile::tempdir().unwrap();
    for target in TARGETS {
        fs::write(folder.path().join(format!("mcpm-{target}.tar.gz")), target).unwrap();
    }
    let mut release = Command::new(packaging().join("release"));
    run(release.arg(folder.path()).arg("https://git.example/owner/mcpm"));
    let release_url =
        format!("https://git.example/owner/mcpm/releases/download/v{}", env!("CARGO_PKG_VERSION"));
    let installer = fs::read_to_string(folder.path().join("install.sh")).unwrap();
    assert!(installer.contains(&format!("${{MCPM_RELEASE_URL:-{release_url}}}")), "{installer}");
    let formula = fs::read_to_string(folder.path().join("mcpm.rb")).unwrap();
    for target in TARGETS {
        let archive = format!("mcpm-{target}.tar.gz");
        let (file, url) = (folder.path().join(&archive), format!("{release_url}/{archive}"));
        let source = format!("      url \"{url}\"\n      sha256 \"{}\"\n", checksum(&file));
        assert!(formula.contains(&source), "{formula}");
    }
    assert!(!formula.contains('@'), "{formula}");
    run(Command::new("ruby").arg("-c").arg(folder.path().join("mcpm.rb")));
    let sums = ["install.sh.sha256", "mcpm.rb.sha256"];
    run(Command::new("sha256sum").args(["--check", "--strict"]).args(sums).current_dir(folder.path()));
}
