//! Tests of sandboxes with real processes, as root and as an ordinary user.
//!
//! If the tests run as root, each runs a second time as an ordinary user: the test starts this binary again.

use std::{
    env, fs,
    fs::File,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command as StdCommand, Stdio},
};

use rustix::process::{geteuid, getgid, getuid};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use super::{process::SandboxProcess, *};
use crate::{
    ErrorKind, Result,
    platform::{Signal, signal_process},
    runtime::Exit,
    testing::with_timeout,
};

/// The user of the second run.
pub(crate) const ORDINARY_USER: u32 = 65534;
const MIB: u64 = 1024 * 1024;

/// Runs this test again as an ordinary user, if this process is root's. The path to the binary may be accessible to
/// root only, but this process's own program is not.
#[track_caller]
pub(crate) fn run_as_ordinary_user(test: &str) {
    run_as_ordinary_user_with(test, None);
}

/// Runs this test again as an ordinary user, with a variable that names a path.
#[track_caller]
fn run_as_ordinary_user_with(test: &str, variable: Option<(&str, &Path)>) {
    if !geteuid().is_root() {
        return;
    }
    let sandbox = module_path!().rsplit_once("::").unwrap().0.split_once("::").unwrap().1;
    let name = match test.split("::").count() {
        1 => format!("{sandbox}::sandbox_tests::{test}"),
        2 => format!("{sandbox}::{test}"),
        // The whole path of a test of another module.
        _ => test.to_owned(),
    };
    let mut again = StdCommand::new("/proc/self/exe");
    again.args(["--exact", "--nocapture", &name]).uid(ORDINARY_USER).gid(ORDINARY_USER).current_dir("/");
    again.envs(variable);
    let outcome = again.output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&outcome.stdout), String::from_utf8_lossy(&outcome.stderr));
    assert!(
        outcome.status.success() && stdout.contains("1 passed"),
        "as an ordinary user:\n{stdout}\n{stderr}"
    );
}

/// A folder of this machine in which a sandbox is prepared.
pub(super) struct TestBed {
    folder: tempfile::TempDir,
}

impl TestBed {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        Self { folder }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn exit_file(&self) -> File {
        File::options().read(true).write(true).create(true).truncate(true).open(self.path("exit")).unwrap()
    }

    pub(super) fn exit_record(&self) -> String {
        fs::read_to_string(self.path("exit")).unwrap()
    }

    /// A sandbox with the programs of this machine, and otherwise empty.
    pub(super) fn plan(&self, args: &[&str]) -> SandboxPlan {
        let ids = if geteuid().is_root() {
            IdMap::identity().unwrap()
        } else {
            IdMap::single(0, getuid().as_raw(), 0, getgid().as_raw())
        };
        let mut mounts = vec![memory("/", 0o755)];
        mounts.extend(programs_of_this_machine());
        mounts.extend(standard_mounts());
        mounts.extend([memory("/tmp", 0o1777), MountOperation::ReadOnly { target: "/".to_owned() }]);
        SandboxPlan {
            ids,
            network: SandboxNetwork::Private,
            hostname: "box".to_owned(),
            root: self.path("root"),
            mounts,
            user: 0,
            group: 0,
            groups: Vec::new(),
            working_dir: "/tmp".to_owned(),
            command: program(args),
            env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
            limits: SandboxLimits::default(),
            writable: vec!["/tmp".to_owned()],
            program_folder: self.folder.path().to_owned(),
        }
    }

    pub(super) async fn spawn(&self, plan: &SandboxPlan) -> Result<SandboxProcess> {
        let streams = SandboxStreams {
            stdin: SandboxStream::Piped,
            stdout: SandboxStream::Piped,
            stderr: SandboxStream::Piped,
        };
        spawn(plan, streams, self.exit_file()).await
    }

    /// Runs a sandbox without input to its end.
    pub(super) async fn run(&self, plan: &SandboxPlan) -> Ended {
        let mut process = with_timeout(self.spawn(plan)).await.unwrap();
        process.stdin = None;
        let (mut stdout, mut stderr) = (String::new(), String::new());
        let (mut out, mut err) = (process.stdout.take().unwrap(), process.stderr.take().unwrap());
        let read =
            async { tokio::try_join!(out.read_to_string(&mut stdout), err.read_to_string(&mut stderr)) };
        with_timeout(read).await.unwrap();
        let exit = with_timeout(process.wait()).await.unwrap();
        Ended { code: exit.code, stdout, stderr }
    }

    pub(super) async fn start_error(&self, plan: &SandboxPlan) -> crate::Error {
        with_timeout(self.spawn(plan)).await.unwrap_err()
    }
}

/// A sandbox that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    code: i64,
    pub(super) stdout: String,
    stderr: String,
}

impl Ended {
    /// Returns the standard output of a successful run.
    #[track_caller]
    pub(super) fn output(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{}", self.stdout);
        self.stdout
    }
}

/// Makes a system call fail for this thread and the processes that it starts, as on a kernel without that call.
pub(super) fn deny_system_call(number: libc::c_long, errno: libc::c_int) {
    let rules = [(number, Vec::new())].into();
    let denied = SeccompAction::Errno(errno.unsigned_abs());
    let architecture = env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, architecture).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

pub(super) fn program(args: &[&str]) -> SandboxCommand {
    SandboxCommand::Program { args: args.iter().map(ToString::to_string).collect() }
}

pub(super) fn memory(target: &str, mode: u32) -> MountOperation {
    MountOperation::Tmpfs(TmpfsMount { target: target.to_owned(), size: 16 * MIB, mode, no_exec: false })
}

pub(super) fn bind(source: impl Into<PathBuf>, target: &str, read_only: bool) -> MountOperation {
    let (source, target) = (source.into(), target.to_owned());
    MountOperation::Bind(BindMount { source, target, read_only, ..BindMount::default() })
}

pub(super) fn programs_of_this_machine() -> impl Iterator<Item = MountOperation> {
    let folders = ["/usr", "/bin", "/lib", "/lib64"].into_iter().filter(|folder| Path::new(folder).exists());
    folders.map(|folder| bind(folder, folder, true))
}

#[tokio::test]
async fn exit_codes_and_streams_are_those_of_the_program() {
    let bed = TestBed::new();
    let ended = bed.run(&bed.plan(&["sh", "-c", "echo out; echo err >&2; exit 7"])).await;
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (7, "out\n", "err\n"));
    assert_eq!(bed.exit_record(), "7 0\n");
    assert_eq!(parse_exit_record("7 0\n"), Some(Exit::with_code(7)));
    let mut process = bed.spawn(&bed.plan(&["cat"])).await.unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(b"a line\n").await.unwrap();
    drop(stdin);
    let mut copied = String::new();
    with_timeout(process.stdout.take().unwrap().read_to_string(&mut copied)).await.unwrap();
    assert_eq!((copied.as_str(), with_timeout(process.wait()).await.unwrap().code), ("a line\n", 0));
    run_as_ordinary_user("exit_codes_and_streams_are_those_of_the_program");
}

#[tokio::test]
async fn signals_reach_the_program_and_a_kill_is_recorded() {
    let bed = TestBed::new();
    let waits = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done";
    for (signal, code) in [(Signal::TERM, 9), (Signal::KILL, 137), (Signal::HUP, 129)] {
        let mut process = bed.spawn(&bed.plan(&["sh", "-c", waits])).await.unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert_eq!(with_timeout(lines.next_line()).await.unwrap().as_deref(), Some("ready"));
        assert!(process.monitor_pid().is_some() && fs::exists(format!("/proc/{}", process.pid())).unwrap());
        process.signal(signal).unwrap();
        let exit = with_timeout(process.wait()).await.unwrap();
        assert_eq!((exit.code, bed.exit_record()), (code, format!("{code} 0\n")));
        // The server has ended, and so has everything else in the sandbox.
        process.signal(signal).unwrap();
        assert_eq!(with_timeout(lines.next_line()).await.unwrap(), None);
    }
    run_as_ordinary_user("signals_reach_the_program_and_a_kill_is_recorded");
}

#[tokio::test]
async fn a_failed_start_names_the_step() {
    let bed = TestBed::new();
    let run = bed.plan(&["missing-program"]);
    let mount = SandboxPlan { mounts: vec![bind("/missing", "/a", true)], ..bed.plan(&["true"]) };
    let folder = SandboxPlan { working_dir: "/missing".to_owned(), ..bed.plan(&["true"]) };
    let root = SandboxPlan { root: bed.path("missing"), ..bed.plan(&["true"]) };
    for (plan, kind, message, code) in [
        (run, ErrorKind::StartFailed, "cannot run `missing-program`: not found", 127),
        (mount, ErrorKind::Engine, "cannot mount `/missing`: No such file", 125),
        (folder, ErrorKind::StartFailed, "cannot change to the folder `/missing`: No such file", 125),
        (root, ErrorKind::Engine, "cannot mount `", 125),
    ] {
        let error = bed.start_error(&plan).await;
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().starts_with(message), "{error}");
        assert_eq!(bed.exit_record(), format!("{code} 0\n"), "{error}");
    }
    run_as_ordinary_user("a_failed_start_names_the_step");
}

#[tokio::test]
async fn a_sandbox_has_the_planned_names_ids_and_folders() {
    let bed = TestBed::new();
    fs::create_dir(bed.path("volume")).unwrap();
    let plan = SandboxPlan {
        user: if geteuid().is_root() { 1000 } else { 0 },
        group: if geteuid().is_root() { 100 } else { 0 },
        groups: if geteuid().is_root() { vec![7, 8] } else { Vec::new() },
        ..bed.plan(&[
            "sh",
            "-c",
            "hostname; id -u; id -g; id -G; pwd; umask; cat /etc/motd; ls /dev; echo $$; echo a > /tmp/a && cat /tmp/a; \
             grep -E 'Cap(Prm|Eff|Bnd|Inh|Amb)|NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\\t\\n'; \
             head -c 3 /dev/zero | wc -c; cat /proc/net/dev | wc -l; cut -d' ' -f6 /proc/self/stat",
        ])
    };
    let at = plan.mounts.len() - 1;
    let file =
        MountOperation::File { path: "/etc/motd".to_owned(), content: b"hello\n".to_vec(), mode: 0o644 };
    let mut plan = plan;
    plan.mounts.insert(at, file);
    let zeros = "0000000000000000";
    let privileges =
        ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map(|set| format!("{set}:{zeros}")).concat();
    let (user, group, groups) = if geteuid().is_root() { (1000, 100, "100 7 8") } else { (0, 0, "0") };
    let devices = "fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero";
    let expected = format!(
        "box\n{user}\n{group}\n{groups}\n/tmp\n0022\nhello\n{devices}\n2\na\n{privileges}NoNewPrivs:1Seccomp:23\n3\n1\n"
    );
    assert_eq!(bed.run(&plan).await.output(), expected);
    run_as_ordinary_user("a_sandbox_has_the_planned_names_ids_and_folders");
}

#[tokio::test]
async fn an_overlay_keeps_changes_out_of_its_layers() {
    let bed = TestBed::new();
    for (folder, file) in [("one", "a"), ("two", "b")] {
        fs::create_dir(bed.path(folder)).unwrap();
        fs::write(bed.path(folder).join(file), folder).unwrap();
        fs::write(bed.path(folder).join("both"), folder).unwrap();
    }
    for folder in ["changes", "work"] {
        fs::create_dir(bed.path(folder)).unwrap();
    }
    let root = |writable: Option<(PathBuf, PathBuf)>| MountOperation::Overlay {
        target: "/".to_owned(),
        lower: vec![bed.path("two"), bed.path("one")],
        writable,
    };
    let command = ["sh", "-c", "cat /a /b /both; echo changed > /a; rm /b; ls /"];
    let mut plan =
        SandboxPlan { working_dir: "/".to_owned(), writable: vec!["/".to_owned()], ..bed.plan(&command) };
    plan.mounts = vec![root(Some((bed.path("changes"), bed.path("work"))))];
    plan.mounts.extend(programs_of_this_machine());
    plan.mounts.extend(standard_mounts());
    let listed = "a\nbin\nboth\ndev\nlib\nlib64\nproc\nusr\n";
    assert_eq!(bed.run(&plan).await.output(), format!("onetwotwo{listed}"));
    assert_eq!(fs::read_to_string(bed.path("one/a")).unwrap(), "one");
    assert_eq!(fs::read_to_string(bed.path("changes/a")).unwrap(), "changed\n");
    // Folders for mounts cannot be created on top of layers alone, but in a file system that is mounted there.
    plan.mounts = vec![root(None), memory("/mnt", 0o755)];
    assert_eq!(bed.start_error(&plan).await.to_string().split(": ").next(), Some("cannot mount `/mnt`"));
    run_as_ordinary_user("an_overlay_keeps_changes_out_of_its_layers");
}

/// The role of [`process_with_a_sandbox`], and the folder that it uses.
const SANDBOX_TO_HOLD: &str = "MCPM_TEST_SANDBOX";

/// The process of the test below; does nothing when run as a test.
#[tokio::test]
async fn process_with_a_sandbox() {
    let Some(folder) = env::var_os(SANDBOX_TO_HOLD) else { return };
    let bed = TestBed { folder: tempfile::TempDir::new_in(folder).unwrap() };
    fs::create_dir(bed.path("root")).unwrap();
    // The stream stays open as long as a process that has a copy of it is alive.
    let output = || SandboxStream::File(rustix::io::dup(std::io::stderr()).unwrap());
    let streams = SandboxStreams { stdin: SandboxStream::Null, stdout: output(), stderr: output() };
    let plan = bed.plan(&["sh", "-c", "setsid sleep 1000 & (sleep 1000 &) ; echo started; exec sleep 1000"]);
    let mut process = spawn(&plan, streams, bed.exit_file()).await.unwrap();
    process.wait().await.unwrap();
}

#[tokio::test]
async fn nothing_survives_the_process_that_started_it() {
    let bed = TestBed::new();
    let name = format!("{}::process_with_a_sandbox", module_path!().split_once("::").unwrap().1);
    let mut holder = tokio::process::Command::new("/proc/self/exe");
    holder.args(["--exact", "--nocapture", &name]).env(SANDBOX_TO_HOLD, bed.folder.path());
    holder.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut holder = holder.spawn().unwrap();
    let mut lines = BufReader::new(holder.stderr.take().unwrap()).lines();
    assert_eq!(with_timeout(lines.next_line()).await.unwrap().as_deref(), Some("started"));
    holder.kill().await.unwrap();
    assert_eq!(with_timeout(lines.next_line()).await.unwrap(), None);
    run_as_ordinary_user("nothing_survives_the_process_that_started_it");
}

#[tokio::test]
async fn a_sandbox_ends_with_its_handle_and_with_its_monitor() {
    let bed = TestBed::new();
    let plan = bed.plan(&["sh", "-c", "setsid sleep 1000 & exec sleep 1000"]);
    let mut dropped = bed.spawn(&plan).await.unwrap();
    let mut stdout = dropped.stdout.take().unwrap();
    drop(dropped);
    assert_eq!(with_timeout(stdout.read_to_end(&mut Vec::new())).await.unwrap(), 0);
    // The first one is still recording its end.
    let other = TestBed::new();
    let mut process = other.spawn(&SandboxPlan { root: other.path("root"), ..plan }).await.unwrap();
    signal_process(process.monitor_pid().unwrap(), Signal::KILL).unwrap();
    let mut stdout = process.stdout.take().unwrap();
    assert_eq!(with_timeout(stdout.read_to_end(&mut Vec::new())).await.unwrap(), 0);
    // The killed monitor could not record the exit code.
    assert_eq!((with_timeout(process.wait()).await.unwrap().code, other.exit_record().as_str()), (137, ""));
    run_as_ordinary_user("a_sandbox_ends_with_its_handle_and_with_its_monitor");
}

#[tokio::test]
async fn a_fork_bomb_reaches_the_limit_of_processes() {
    let bed = TestBed::new();
    let bomb = "
import os, time
count = 0
try:
    while count < 1000:
        if os.fork() == 0:
            time.sleep(1000)
        count += 1
except BlockingIOError:
    print('bounded' if count < 30 else count)
";
    let limits = SandboxLimits { processes: Some(30), open_files: Some(64), ..SandboxLimits::default() };
    // The kernel does not limit root of this machine.
    let user = if geteuid().is_root() { 1000 } else { 0 };
    let plan = SandboxPlan { limits, user, ..bed.plan(&["python3", "-c", bomb]) };
    assert_eq!(bed.run(&plan).await.output(), "bounded\n");
    run_as_ordinary_user("a_fork_bomb_reaches_the_limit_of_processes");
}

#[tokio::test]
async fn usual_programs_run_under_the_filter() {
    let bed = TestBed::new();
    let script = "
import asyncio, ctypes, multiprocessing, os, pty, socket, sqlite3, subprocess, tempfile, threading
threads = [threading.Thread(target=lambda: None) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
assert multiprocessing.get_context('spawn').Pool(2).map(abs, [-1, -2]) == [1, 2]
assert subprocess.run(['sh', '-c', 'echo $((1+2))'], capture_output=True, text=True).stdout == '3\\n'
async def main():
    server = await asyncio.start_server(lambda r, w: w.close(), '127.0.0.1', 80)
    reader, writer = await asyncio.open_connection('127.0.0.1', 80)
    assert await reader.read() == b''
    server.close()
asyncio.run(main())
socket.create_server(('::1', 443), family=socket.AF_INET6).close()
a, b = socket.socketpair()
sqlite3.connect('/tmp/a.db').execute('create table t(x)')
os.makedirs('/tmp/x/y'); open('/tmp/x/f', 'w').close(); os.rename('/tmp/x/f', '/tmp/x/y/f')
os.mkfifo('/tmp/fifo')
assert os.openpty() and os.get_terminal_size and socket.if_nameindex()[0][1] == 'lo'
os.kill(os.getpid(), 0)
with tempfile.NamedTemporaryFile(dir='/dev/shm') as f: f.write(b'x')
print('done')
";
    assert_eq!(bed.run(&bed.plan(&["python3", "-c", script])).await.output(), "done\n");
    run_as_ordinary_user("usual_programs_run_under_the_filter");
}

#[tokio::test]
async fn without_the_privileges_for_a_map_a_single_id_is_mapped() {
    if geteuid().is_root() {
        return run_as_ordinary_user("without_the_privileges_for_a_map_a_single_id_is_mapped");
    }
    let bed = TestBed::new();
    let mut plan = bed.plan(&["cat", "/proc/self/uid_map", "/proc/self/gid_map"]);
    for program in ["/bin/false", "/missing"] {
        let map = PrivilegedMap { program: program.into(), ranges: vec![(0, 100_000, 10)] };
        (plan.ids.privileged_users, plan.ids.privileged_groups) = (Some(map.clone()), Some(map));
        let maps = bed.run(&plan).await.output();
        let expected = [0, getuid().as_raw(), 1, 0, getgid().as_raw(), 1].map(|number| number.to_string());
        assert_eq!(maps.split_whitespace().collect::<Vec<_>>(), expected);
    }
}

/// Set in the second run of the test below to the folder with root's program.
const SET_USER_ID_FOLDER: &str = "MCPM_TEST_SET_USER_ID_FOLDER";

#[tokio::test]
async fn set_user_id_programs_give_no_privileges() {
    let bed = TestBed::new();
    let folder = match env::var_os(SET_USER_ID_FOLDER) {
        Some(folder) => PathBuf::from(folder),
        // Only root can create a program for the attempt.
        None if !geteuid().is_root() => return,
        None => {
            fs::set_permissions(bed.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
            fs::create_dir(bed.path("programs")).unwrap();
            fs::copy("/usr/bin/id", bed.path("programs/id")).unwrap();
            fs::set_permissions(bed.path("programs/id"), fs::Permissions::from_mode(0o6755)).unwrap();
            bed.path("programs")
        }
    };
    // Outside of a sandbox, the program runs as root.
    let outside = StdCommand::new(folder.join("id")).arg("-u").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&outside.stdout), "0\n", "{outside:?}");
    let (user, group) = if geteuid().is_root() { (1000, 1000) } else { (0, 0) };
    let mut plan = SandboxPlan { user, group, ..bed.plan(&["/volume/id", "-u"]) };
    plan.mounts.insert(1, bind(&folder, "/volume", false));
    assert_eq!(bed.run(&plan).await.output(), format!("{user}\n"));
    let variable = (SET_USER_ID_FOLDER, folder.as_path());
    run_as_ordinary_user_with("set_user_id_programs_give_no_privileges", Some(variable));
}
