//! Does what a new user does on a bare Debian without a container engine: installs mcpm, runs a server for a client,
//! and lets the client call a tool. Does so once with the Debian package, and once with a build from source by the
//! first commands in the README.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use mcpm_tests::harness::testbed;
use serde_json::Value;

use super::{bare_debian, run};

/// Makes a copy of a bare root file system the root of this process, and runs a script in it. The built-in runtime
/// needs more than `chroot`, in which the kernel rejects user namespaces. The folder of home directories is not on the
/// overlay, because overlays cannot be created on an overlay.
const IN_ROOT: &str = r#"
root=$1 work=$2 as_root=$3 as_user=$4
mkdir "$work/upper" "$work/work" "$work/root" "$work/home"
chmod 755 "$work" "$work/home"
mount -t overlay -o "lowerdir=$root,upperdir=$work/upper,workdir=$work/work" overlay "$work/root"
cd "$work/root"
mount -t proc proc proc
mount --rbind /dev dev
mount --bind "$work/home" home
cp /etc/resolv.conf etc/resolv.conf
cp /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/ca-certificates.crt
shift 4
for folder; do
  mkdir -p "./$folder"
  mount --bind "$folder" "./$folder"
  mount -o remount,bind,ro "./$folder"
done
mkdir outside
pivot_root . outside
cd /
umount -l outside
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -euc "$as_root" sh "$as_user"
"#;
/// The files of an ordinary user of the client, and those that the machine has besides the bare root file system.
const MACHINE: &str = "
apt-get update -qq >&2
apt-get install -qq --yes python3 $PACKAGES >&2
useradd --create-home --shell /bin/sh user
mkdir /home/user/.claude
chown user /home/user/.claude
";
/// Ends the script after the test has used the server.
const UNTIL_USED: &str = "
echo started
read -r used
mcpm rm mcp-server-time
";

/// A machine on which a script is running that has started a server.
struct Machine {
    work: tempfile::TempDir,
    script: Child,
}

impl Machine {
    /// Runs a script as root and another one as an ordinary user, who may read some folders of this machine.
    #[track_caller]
    fn start(packages: &str, as_root: &str, as_user: &str, folders: &[&Path]) -> Self {
        let work = tempfile::Builder::new().prefix("root").tempdir_in(testbed::path("MCPM_TESTBED")).unwrap();
        let machine = MACHINE.replace("$PACKAGES", packages);
        let as_root = format!("{machine}\n{as_root}\nexec su --login user --command \"$1\"");
        let as_user = format!("set -eu\n{as_user}{UNTIL_USED}");
        let mut command = Command::new("unshare");
        // All processes in it end with this process.
        command.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]);
        command.args(["sh", "-euc", IN_ROOT, "sh"]);
        command.arg(testbed::path("MCPM_TEST_DEBIAN_ROOT")).arg(work.path()).args([as_root, as_user]);
        command.args(folders).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut machine = Self { script: command.spawn().unwrap(), work };
        let mut output = BufReader::new(machine.script.stdout.as_mut().unwrap());
        let mut said = String::new();
        while !said.ends_with("started\n") {
            assert!(output.read_line(&mut said).unwrap() > 0, "{said}");
        }
        machine
    }

    /// The configuration file of the user's client.
    fn client_file(&self) -> PathBuf {
        self.work.path().join("home/user/.claude.json")
    }

    /// Makes a client that reads the file call a tool, then ends the machine.
    #[track_caller]
    fn use_and_end(mut self) {
        let client = mcpm_tests::root().join("tests/clients/fastmcp_config.py");
        let mut command = Command::new(testbed::path("MCPM_TEST_FASTMCP_PYTHON"));
        command.arg(client).arg(self.client_file()).args(["get_current_time", r#"{"timezone": "UTC"}"#]);
        let result: Value = serde_json::from_str(&run(&mut command)).unwrap();
        assert_eq!(result["timezone"], "UTC", "{result}");
        self.script.stdin.take().unwrap().write_all(b"used\n").unwrap();
        let mut rest = String::new();
        self.script.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        assert!(self.script.wait().unwrap().success(), "{rest}");
        assert_eq!(rest, "mcp-server-time\n");
        // The only entry was removed, and so was the file that was created for it.
        assert!(!self.client_file().exists());
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// The first block of commands in the README.
fn first_commands() -> String {
    let readme = fs::read_to_string(mcpm_tests::root().join("README.md")).unwrap();
    let (_, block) = readme.split_once("\n```sh\n").unwrap();
    let (commands, _) = block.split_once("\n```").unwrap();
    assert!(commands.contains("mcpm run ") && commands.contains("--client "), "{commands}");
    commands.to_owned()
}

#[test]
#[ignore = "nightly: compiles the program of the packages"]
fn a_new_user_installs_the_package_and_a_client_calls_a_tool() {
    let (folder, files) = bare_debian::build();
    let package = files.iter().find(|file| file.extension().is_some_and(|end| end == "deb")).unwrap();
    let install = format!("apt-get install -qq --yes {} >&2", package.display());
    let commands = "mcpm run uvx://mcp-server-time --client claude-code >&2";
    Machine::start("", &install, commands, &[&folder]).use_and_end();
}

#[test]
#[ignore = "nightly: compiles the program from the sources"]
fn the_first_commands_of_the_readme_lead_to_a_client_that_calls_a_tool() {
    let sources = mcpm_tests::root();
    let toolchain = PathBuf::from(run(Command::new("rustc").args(["--print", "sysroot"])).trim());
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = home.unwrap_or_else(|| env::home_dir().unwrap().join(".cargo"));
    // Ordinary users may be unable to read the sources that Cargo has unpacked, and the test does not build them again.
    let commands = format!(
        "export PATH=$HOME/.cargo/bin:{}/bin:$PATH CARGO_HOME=$HOME/.cargo CARGO_TARGET_DIR=$HOME/target
        mkdir -p .cargo/registry && ln -s {1}/registry/cache {1}/registry/index .cargo/registry/
        export CARGO_NET_OFFLINE=true
        cd {2}
        {{
        {3}
        }} >&2
        cd",
        toolchain.display(),
        cargo.display(),
        sources.display(),
        first_commands()
    );
    let folders = [toolchain.as_path(), &cargo.join("registry"), &sources];
    // Folders above these may be inaccessible to other users.
    let open = "chmod 755 /root";
    Machine::start("build-essential", open, &commands, &folders).use_and_end();
}
