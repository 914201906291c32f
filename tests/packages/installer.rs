//! Tests `install.sh` with curl, with only the programs of BusyBox, and with failures.

use std::{
    collections::BTreeSet,
    env, fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use mcpm_tests::harness::testbed;

use super::{FileServer, checksum, packaging, run};

/// The programs that the installer calls, besides curl or wget.
const PROGRAMS: [&str; 13] =
    ["sh", "cat", "chmod", "cp", "cut", "gzip", "mkdir", "mktemp", "mv", "rm", "sha256sum", "tar", "uname"];

/// A release for this machine, whose program is a script, and a machine to install it on.
struct Machine {
    folder: tempfile::TempDir,
    release: FileServer,
}

impl Machine {
    fn new(program: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = folder.path().join("release");
        let bin = files.join(format!("{}/bin", name()));
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join("mcpm"), program).unwrap();
        let archive = files.join(name() + ".tar.gz");
        run(Command::new("tar").arg("-C").arg(&files).arg("-czf").arg(&archive).arg(name()));
        let line = format!("{}  {}.tar.gz\n", checksum(&archive), name());
        fs::write(files.join(name() + ".tar.gz.sha256"), line).unwrap();
        for below in ["home", "tmp", "bin"] {
            fs::create_dir(folder.path().join(below)).unwrap();
        }
        let release = FileServer::start(&files);
        let machine = Self { folder, release };
        let path = env::var_os("PATH").unwrap();
        let find = |program: &str| {
            env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.exists())
        };
        for program in PROGRAMS.iter().chain(&["curl"]) {
            symlink(find(program).unwrap(), machine.path("bin").join(program)).unwrap();
        }
        machine
    }

    /// Makes BusyBox provide all programs of this machine.
    fn with_busybox(self) -> Self {
        let busybox = testbed::path("MCPM_TEST_BUSYBOX");
        fs::remove_dir_all(self.path("bin")).unwrap();
        fs::create_dir(self.path("bin")).unwrap();
        for program in PROGRAMS.iter().chain(&["wget"]) {
            symlink(&busybox, self.path("bin").join(program)).unwrap();
        }
        self
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    fn program(&self) -> PathBuf {
        self.path("home/.local/bin/mcpm")
    }

    /// Runs the installer, and returns its exit code and output.
    fn install(&self, arguments: &[&str]) -> (Option<i32>, String) {
        self.run_script(&packaging().join("install.sh"), arguments)
    }

    fn run_script(&self, script: &Path, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(self.path("bin/sh"));
        command.arg(script).args(arguments).env_clear().env("MCPM_RELEASE_URL", &self.release.url);
        let path = format!("{}:{}", self.path("bin").display(), self.path("home/listed").display());
        command.env("PATH", path).env("HOME", self.path("home")).env("TMPDIR", self.path("tmp"));
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    }

    /// Returns all files and folders that the installer could have left.
    fn files(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut folders = vec![self.path("home"), self.path("tmp")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                found.insert(path.strip_prefix(self.folder.path()).unwrap().display().to_string());
                folders.extend(path.is_dir().then_some(path));
            }
        }
        found
    }
}

/// The name of the archive for this machine.
fn name() -> String {
    let system = if cfg!(target_os = "macos") { "apple-darwin" } else { "unknown-linux-musl" };
    format!("mcpm-{}-{system}", env::consts::ARCH)
}

const PROGRAM: &str = "#!/bin/sh\necho mcpm 9.8.7\n";

#[test]
fn program_is_installed_with_curl_and_with_busybox() {
    for machine in [Machine::new(PROGRAM), Machine::new(PROGRAM).with_busybox()] {
        let folder = machine.path("home/.local/bin");
        let said = format!("installed mcpm 9.8.7 as {0}/mcpm\n{0} is not in PATH\n", folder.display());
        assert_eq!(machine.install(&[]), (Some(0), said));
        assert_eq!(run(&mut Command::new(machine.program())), "mcpm 9.8.7\n");
        let files = ["home/.local", "home/.local/bin", "home/.local/bin/mcpm"];
        assert_eq!(machine.files(), files.map(str::to_owned).into());
    }
}

#[test]
fn program_is_installed_in_another_folder() {
    let machine = Machine::new(PROGRAM);
    let folder = machine.path("home/listed").display().to_string();
    let said = format!("installed mcpm 9.8.7 as {folder}/mcpm\n");
    assert_eq!(machine.install(&["--to", &folder]), (Some(0), said));
    for wrong in [&["--to"][..], &["--to", ""], &["--from", &folder], &["--to", &folder, "more"]] {
        let usage = "install.sh: usage: install.sh [--to DIR]\n".to_owned();
        assert_eq!(machine.install(wrong), (Some(1), usage));
    }
}

/// The running program keeps its file.
#[test]
fn installed_program_is_replaced_and_not_overwritten() {
    let machine = Machine::new(PROGRAM);
    let old = machine.path("tmp/old");
    fs::create_dir_all(machine.program().parent().unwrap()).unwrap();
    fs::write(machine.program(), "old").unwrap();
    fs::hard_link(machine.program(), &old).unwrap();
    assert_eq!(machine.install(&[]).0, Some(0));
    assert_eq!(fs::read_to_string(machine.program()).unwrap(), PROGRAM);
    assert_eq!(fs::read_to_string(old).unwrap(), "old");
}

#[test]
fn wrong_checksum_is_refused_and_leaves_nothing() {
    for machine in [Machine::new(PROGRAM), Machine::new(PROGRAM).with_busybox()] {
        let wrong = "0".repeat(64);
        let file = machine.path("release").join(name() + ".tar.gz.sha256");
        fs::write(file, format!("{wrong}  {}.tar.gz\n", name())).unwrap();
        let archive = machine.path("release").join(name() + ".tar.gz");
        let said = format!(
            "install.sh: {}/{}.tar.gz has the checksum {} instead of {wrong}; nothing was installed\n",
            machine.release.url,
            name(),
            checksum(&archive),
        );
        assert_eq!(machine.install(&[]), (Some(1), said));
        assert_eq!(machine.files(), BTreeSet::new());
    }
}

#[test]
fn missing_file_is_reported_and_leaves_nothing() {
    for missing in [".tar.gz", ".tar.gz.sha256"] {
        for machine in [Machine::new(PROGRAM), Machine::new(PROGRAM).with_busybox()] {
            fs::remove_file(machine.path("release").join(name() + missing)).unwrap();
            let (code, said) = machine.install(&[]);
            let message =
                format!("install.sh: cannot download {}/{}{missing}\n", machine.release.url, name());
            assert!(code == Some(1) && said.ends_with(&message), "{code:?} {said}");
            assert_eq!(machine.files(), BTreeSet::new());
        }
    }
}

#[test]
fn other_systems_are_refused_by_name() {
    for (system, processor) in [("FreeBSD", "amd64"), ("Linux", "riscv64"), ("Linux", "i686")] {
        let machine = Machine::new(PROGRAM);
        let uname = machine.path("bin/uname");
        fs::remove_file(&uname).unwrap();
        let script = format!("#!/bin/sh\n[ \"$1\" = -s ] && echo {system} || echo {processor}\n");
        fs::write(&uname, script).unwrap();
        fs::set_permissions(&uname, fs::Permissions::from_mode(0o755)).unwrap();
        let said = format!("install.sh: there is no release of mcpm for {system} on {processor}\n");
        assert_eq!(machine.install(&[]), (Some(1), said));
        assert_eq!(machine.files(), BTreeSet::new());
    }
}

#[test]
fn program_that_does_not_run_replaces_nothing() {
    let machine = Machine::new("#!/bin/sh\nexit 1\n");
    fs::create_dir_all(machine.program().parent().unwrap()).unwrap();
    fs::write(machine.program(), "old").unwrap();
    let before = machine.files();
    let said = format!(
        "install.sh: the program of {} does not run on this machine; nothing was installed\n",
        name()
    );
    assert_eq!(machine.install(&[]), (Some(1), said));
    assert_eq!(machine.files(), before);
    assert_eq!(fs::read_to_string(machine.program()).unwrap(), "old");
}

#[test]
fn script_that_was_cut_off_does_nothing() {
    let machine = Machine::new(PROGRAM);
    let text = fs::read_to_string(packaging().join("install.sh")).unwrap();
    let without_last_line = text.trim_end().rsplit_once('\n').unwrap().0;
    let script = machine.path("install.sh");
    fs::write(&script, without_last_line).unwrap();
    assert_eq!(machine.run_script(&script, &[]), (Some(0), String::new()));
    assert_eq!(machine.files(), BTreeSet::new());
}
