//! Tests of attempts of a server to escape from its sandbox, each of which must fail.

use std::{
    env,
    fs::{self, File},
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{MetadataExt as _, PermissionsExt as _},
            net::{SocketAddr, UnixListener, UnixStream},
        },
    },
    path::Path,
    process::Command,
};

use super::{sandbox_tests::*, *};
use crate::runtime::{ContainerSpec, builtin::tests::Fixture};

/// Names and helpers for the attempts.
const PRELUDE: &str = "
import ctypes, errno, fcntl, mmap, os, platform, pty, resource, signal, socket, stat, struct, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    'x86_64': dict(mount=165, umount2=166, pivot_root=155, chroot=161, unshare=272, setns=308, clone=56, ptrace=101,
        process_vm_readv=310, kcmp=312, keyctl=250, add_key=248, request_key=249, bpf=321, userfaultfd=323,
        perf_event_open=298, fanotify_init=300, open_by_handle_at=304, init_module=175, finit_module=313,
        kexec_load=246, personality=135, swapon=167, reboot=169, sethostname=170, settimeofday=164, syslog=103,
        acct=163, quotactl=179, ioctl=16),
    'aarch64': dict(mount=40, umount2=39, pivot_root=41, chroot=51, unshare=97, setns=268, clone=220, ptrace=117,
        process_vm_readv=270, kcmp=272, keyctl=219, add_key=217, request_key=218, bpf=280, userfaultfd=282,
        perf_event_open=241, fanotify_init=262, open_by_handle_at=265, init_module=105, finit_module=273,
        kexec_load=104, personality=92, swapon=224, reboot=142, sethostname=161, settimeofday=170, syslog=116,
        acct=89, quotactl=60, ioctl=29),
}[platform.machine()] | dict(io_uring_setup=425, io_uring_enter=426, io_uring_register=427, open_tree=428,
    move_mount=429, fsopen=430, fsconfig=431, fsmount=432, fspick=433, clone3=435, pidfd_getfd=438,
    process_madvise=440, mount_setattr=442, quotactl_fd=443)
USER_NAMESPACE = 0x10000000
def call(name, *args):
    ctypes.set_errno(0)
    args = [ctypes.c_char_p(arg) if isinstance(arg, bytes) else ctypes.c_long(arg) for arg in args]
    if libc.syscall(ctypes.c_long(NUMBERS[name]), *args) < 0:
        raise OSError(ctypes.get_errno(), '')
    return 'allowed'
def write(path, text='1'):
    # Without truncating it, as programs write to settings.
    file = os.open(path, os.O_WRONLY)
    os.write(file, text.encode())
    return 'allowed'
def create(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    return 'allowed'
def read(path):
    with open(path, 'rb') as file:
        return 'empty' if not file.read(1) else 'allowed'
def terminal(operation, argument):
    _, file = os.openpty()
    fcntl.ioctl(file, operation, argument)
    return 'allowed'
def send_signal(process, number):
    os.kill(process, number)
    return 'allowed'
def connect(address):
    client = socket.socket(socket.AF_UNIX)
    client.connect(address)
    return 'allowed'
def connect_abstract(name):
    return connect('\\0' + name)
def open_socket(*args):
    socket.socket(*args)
    return 'allowed'
def is_supported(*args):
    try:
        open_socket(*args)
    except OSError as error:
        return error.errno != errno.EAFNOSUPPORT
    return True
# Settings of a process and of its network, which only affect these, or which the kernel protects when they are written.
OWN_SETTINGS = {'attr', 'autogroup', 'clear_refs', 'comm', 'coredump_filter', 'fail-nth', 'gid_map', 'loginuid',
    'make-it-fail', 'mem', 'net', 'oom_adj', 'oom_score_adj', 'projid_map', 'sched', 'task', 'timens_offsets',
    'timerslack_ns', 'uid_map'}
def writable_files(top, ignored):
    # Nothing is written. Links and the covers of hidden files are not regular files.
    found = []
    for folder, folders, files in os.walk(top):
        if folder == top:
            folders[:] = [name for name in folders if not name.isdigit() and name not in ignored]
            files = [name for name in files if name not in ignored]
        for path in [os.path.join(folder, name) for name in files]:
            try:
                if stat.S_ISREG(os.lstat(path).st_mode):
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                    found.append(path)
            except OSError:
                pass
    return found
def shared_namespaces():
    names = sorted(os.listdir('/proc/self/ns'))
    return [name for name in names if os.readlink('/proc/self/ns/' + name) in HOST_NAMESPACES]
def foreign_architecture():
    # getpid of 32-bit programs.
    if platform.machine() != 'x86_64':
        return 'killed'
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex('b814000000cd80c3'))
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    return f'allowed {function()}'
def open_files():
    found = []
    for file in range(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0]):
        try:
            os.fstat(file)
            found.append(file)
        except OSError:
            pass
    return f'{found}'
OPEN_FILES = open_files()
def attempt(number, code):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            outcome = str(eval(code))
        except OSError as error:
            outcome = errno.errorcode.get(error.errno, str(error.errno))
        except Exception as error:
            outcome = repr(error)
        os.write(writer, outcome.encode())
        os._exit(0)
    os.close(writer)
    outcome = os.fdopen(reader).read() or 'killed'
    os.waitpid(child, 0)
    print(number, outcome, flush=True)
";

/// Attempts as Python expressions, each with the outcomes that count as a failure of the attempt.
const ATTEMPTS: &[(&str, &[&str])] = &[
    // Mounts and roots.
    ("call('mount', b'none', b'/tmp', b'tmpfs', 0, 0)", &["EPERM"]),
    ("call('mount', b'none', b'/', b'', 0x1020, 0)", &["EPERM"]),
    ("call('umount2', b'/proc/sys', 2)", &["EPERM"]),
    ("call('pivot_root', b'/', b'/')", &["EPERM"]),
    ("call('chroot', b'/tmp')", &["EPERM"]),
    ("call('open_tree', -100, b'/', 1)", &["EPERM"]),
    ("call('move_mount', 0, b'', 0, b'', 0)", &["EPERM"]),
    ("call('fsopen', b'proc', 0)", &["EPERM"]),
    ("call('fsconfig', 0, 0, 0, 0, 0)", &["EPERM"]),
    ("call('fsmount', 0, 0, 0)", &["EPERM"]),
    ("call('fspick', -100, b'/', 0)", &["EPERM"]),
    ("call('mount_setattr', -100, b'/', 0, 0, 0)", &["EPERM"]),
    // Namespaces.
    ("call('unshare', USER_NAMESPACE)", &["EPERM"]),
    ("call('unshare', 0x20000)", &["EPERM"]),
    ("call('setns', os.open('/proc/self/ns/user', os.O_RDONLY), 0)", &["EPERM"]),
    ("call('clone', USER_NAMESPACE | 17, 0, 0, 0, 0)", &["EPERM"]),
    ("call('clone', 0x40000000 | 17, 0, 0, 0, 0)", &["EPERM"]),
    ("call('clone3', 0, 0)", &["ENOSYS"]),
    ("call('sethostname', b'x', 1)", &["EPERM"]),
    ("shared_namespaces()", &["[]", "['time', 'time_for_children']"]),
    ("os.stat('/dev/shm').st_dev == HOST_SHARED_MEMORY", &["False"]),
    // Other processes.
    ("call('ptrace', 16, 1, 0, 0)", &["EPERM"]),
    ("call('ptrace', 0, 0, 0, 0)", &["EPERM"]),
    ("call('process_vm_readv', 1, 0, 0, 0, 0, 0)", &["EPERM"]),
    ("call('kcmp', 1, 1, 0, 0, 0)", &["EPERM"]),
    ("call('pidfd_getfd', os.pidfd_open(1), 0, 0)", &["EPERM"]),
    ("call('process_madvise', os.pidfd_open(1), 0, 0, 0, 0)", &["EPERM"]),
    ("os.listdir('/proc/1/root')", &["EACCES"]),
    ("os.readlink('/proc/1/exe')", &["EACCES"]),
    ("os.readlink('/proc/1/fd/2')", &["EACCES"]),
    ("read('/proc/1/environ')", &["EACCES"]),
    ("read('/proc/1/mem')", &["EACCES"]),
    ("os.readlink('/proc/1/ns/user')", &["EACCES"]),
    ("send_signal(HOST_PROCESS, 0)", &["ESRCH"]),
    ("read(f'/proc/{HOST_PROCESS}/environ')", &["ENOENT"]),
    ("len([name for name in os.listdir('/proc') if name.isdigit()]) > 5", &["False"]),
    // Interfaces of the kernel with a history.
    ("call('keyctl', 0, -3, 0)", &["EPERM"]),
    ("call('add_key', b'user', b'a', b'b', 1, -4)", &["EPERM"]),
    ("call('request_key', b'user', b'a', 0, -4)", &["EPERM"]),
    ("call('bpf', 0, 0, 0)", &["EPERM"]),
    ("call('io_uring_setup', 1, 0)", &["ENOSYS"]),
    ("call('io_uring_enter', 0, 0, 0, 0, 0)", &["ENOSYS"]),
    ("call('io_uring_register', 0, 0, 0, 0)", &["ENOSYS"]),
    ("call('userfaultfd', 0)", &["EPERM"]),
    ("call('perf_event_open', 0, 0, -1, -1, 0)", &["EPERM"]),
    ("call('fanotify_init', 0, 0)", &["EPERM"]),
    ("call('open_by_handle_at', -100, 0, 0)", &["EPERM"]),
    ("call('init_module', 0, 0, b'')", &["EPERM"]),
    ("call('finit_module', 0, b'', 0)", &["EPERM"]),
    ("call('kexec_load', 0, 0, 0, 0)", &["EPERM"]),
    ("call('personality', 0x400000)", &["EPERM"]),
    ("call('swapon', b'/tmp/a', 0)", &["EPERM"]),
    ("call('reboot', 0xfee1dead, 672274793, 0x1234567, 0)", &["EPERM"]),
    ("call('settimeofday', 0, 0)", &["EPERM"]),
    ("call('syslog', 3, 0, 0)", &["EPERM"]),
    ("call('acct', 0)", &["EPERM"]),
    ("call('quotactl', 0, 0, 0, 0)", &["EPERM"]),
    ("call('quotactl_fd', 0, 0, 0, 0)", &["ENOSYS"]),
    ("foreign_architecture()", &["killed"]),
    // Sockets.
    ("open_socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)", &["EPERM"]),
    ("open_socket(socket.AF_PACKET, socket.SOCK_RAW, 0)", &["EAFNOSUPPORT"]),
    ("open_socket(40, socket.SOCK_STREAM, 0)", &["EAFNOSUPPORT"]),
    ("open_socket(38, socket.SOCK_SEQPACKET, 0)", &["EAFNOSUPPORT"]),
    (
        "[family for family in range(64) if is_supported(family, socket.SOCK_RAW, 0)]",
        &["[1, 2, 10, 16]", "[1, 2, 16]"],
    ),
    (
        "[protocol for protocol in range(64) if is_supported(socket.AF_NETLINK, socket.SOCK_RAW, protocol)]",
        &["[0]"],
    ),
    ("connect_abstract(HOST_SOCKET)", &["ECONNREFUSED"]),
    ("socket.create_connection(('1.1.1.1', 80))", &["ENETUNREACH"]),
    // Process files and devices.
    ("write('/proc/sys/kernel/core_pattern')", &["EROFS", "EACCES"]),
    ("write('/proc/sys/net/ipv4/ip_forward')", &["EROFS", "EACCES"]),
    ("write('/proc/sys/kernel/hostname', 'x')", &["EROFS", "EACCES"]),
    ("write('/proc/sysrq-trigger', 'h')", &["EROFS", "EACCES", "ENOENT"]),
    // Every user may wait for a lack of resources.
    ("writable_files('/proc', {'pressure'})", &["[]"]),
    ("writable_files('/proc/self/', OWN_SETTINGS)", &["[]"]),
    ("write('/proc/self/uid_map', '0 0 1')", &["EPERM"]),
    ("write('/proc/self/gid_map', '0 0 1')", &["EPERM"]),
    ("write('/proc/self/setgroups', 'allow')", &["EACCES"]),
    ("write('/proc/self/oom_score_adj', '-1000')", &["EACCES"]),
    ("read('/proc/kcore')", &["empty", "ENOENT"]),
    ("read('/proc/keys')", &["empty", "ENOENT"]),
    ("read('/proc/timer_list')", &["empty", "ENOENT"]),
    ("read('/dev/mem')", &["ENOENT"]),
    ("os.listdir('/sys')", &["ENOENT", "[]"]),
    ("os.listdir('/run')", &["ENOENT", "[]"]),
    ("os.mknod('/tmp/memory', stat.S_IFCHR | 0o666, os.makedev(1, 1))", &["EPERM", "EROFS"]),
    ("os.mknod('/dev/shm/disk', stat.S_IFBLK | 0o666, os.makedev(8, 0))", &["EPERM"]),
    ("create('/dev/a')", &["EROFS", "EACCES"]),
    // Terminals.
    ("terminal(0x5412, b'x')", &["EPERM"]),
    ("terminal(0x541c, struct.pack('b', 3))", &["EPERM"]),
    ("call('ioctl', os.openpty()[1], 0x100005412, b'x')", &["EPERM"]),
    // Files of the machine, and those that mcpm has open.
    ("create('/usr/bin/mcpm-test')", &["EROFS", "EACCES"]),
    ("os.unlink('/bin/sh')", &["EROFS", "EACCES", "EXDEV"]),
    ("bool(os.statvfs('/usr').f_flag & os.ST_NOSUID)", &["True"]),
    ("OPEN_FILES", &["[]"]),
    // Privileges.
    ("os.setuid(12345)", &["EPERM", "EINVAL"]),
    ("os.setgroups([0])", &["EPERM"]),
    ("os.chown('/tmp', 12345, 12345)", &["EPERM", "EINVAL", "EROFS"]),
    (
        "resource.setrlimit(resource.RLIMIT_CORE, (1, 1))",
        &["ValueError('not allowed to raise maximum limit')"],
    ),
];

/// Attempts that a read-only root defeats.
const READ_ONLY_ROOT_ATTEMPTS: &[(&str, &[&str])] = &[("create('/a')", &["EROFS", "EACCES"])];
/// Attempts that Landlock's scopes defeat.
const SCOPED_ATTEMPTS: &[(&str, &[&str])] =
    &[("send_signal(1, 9)", &["EPERM"]), ("send_signal(1, 0)", &["EPERM"])];
/// The first version of Landlock with scopes.
const SCOPES_VERSION: u32 = 6;

/// Where the system bus of a machine and the session bus of a user listen.
const BUSES: [&str; 2] = ["/run/dbus/system_bus_socket", "/run/user/1000/bus"];
/// Attempts to find one of these buses.
const BUS_ATTEMPTS: &[(&str, &[&str])] = &[
    ("connect('/run/dbus/system_bus_socket')", &["ENOENT"]),
    ("connect('/var/run/dbus/system_bus_socket')", &["ENOENT"]),
    ("connect('/run/user/1000/bus')", &["ENOENT"]),
    ("connect('/proc/1/root/run/dbus/system_bus_socket')", &["EACCES"]),
    ("[name for name in os.environ if 'DBUS' in name or 'XDG' in name]", &["[]"]),
];
/// Set in a run of a test that has an empty `/run`.
const HAS_OWN_RUN_FOLDER: &str = "MCPM_TEST_OWN_RUN_FOLDER";

/// Returns the Python program that makes attempts and prints their outcomes.
fn script(attempts: &[(&str, &[&str])], host_socket: &str) -> String {
    let calls = attempts.iter().enumerate();
    let calls: String = calls.map(|(number, (code, _))| format!("attempt({number}, {code:?})\n")).collect();
    let namespaces = fs::read_dir("/proc/self/ns").unwrap().map(|entry| entry.unwrap().path());
    let namespaces: Vec<_> = namespaces.map(|path| fs::read_link(path).unwrap()).collect();
    let (process, shared_memory) = (std::process::id(), fs::metadata("/dev/shm").unwrap().dev());
    format!(
        "HOST_PROCESS = {process}\nHOST_SOCKET = {host_socket:?}\nHOST_NAMESPACES = {namespaces:?}\n\
         HOST_SHARED_MEMORY = {shared_memory}\n{PRELUDE}\n{calls}"
    )
}

/// Returns the attempts with other outcomes than the expected ones.
#[track_caller]
fn unexpected_outcomes(attempts: &[(&str, &[&str])], output: &str) -> Vec<String> {
    let outcomes: Vec<&str> =
        output.lines().filter_map(|line| line.split_once(' ')).map(|(_, outcome)| outcome).collect();
    assert_eq!(outcomes.len(), attempts.len(), "{output}");
    let rows = attempts.iter().zip(outcomes);
    let wrong = rows.filter(|((_, expected), outcome)| !expected.contains(outcome));
    wrong.map(|((code, expected), outcome)| format!("{code}: {outcome} instead of {expected:?}")).collect()
}

/// Runs attempts in a sandbox, and returns those with other outcomes.
async fn unexpected(
    plan: &SandboxPlan,
    bed: &TestBed,
    attempts: &[(&str, &[&str])],
    host_socket: &str,
) -> Vec<String> {
    let command = program(&["python3", "-c", &script(attempts, host_socket)]);
    let ended = bed.run(&SandboxPlan { command, ..plan.clone() }).await;
    unexpected_outcomes(attempts, &ended.output())
}

/// Listens on an abstract socket of this machine, and returns its name.
fn abstract_socket(path: &Path) -> (String, UnixListener) {
    let name = path.display().to_string();
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    (name, UnixListener::bind_addr(&address).unwrap())
}

/// Opens a file that a careless program leaves to its children.
fn inherited_file() -> File {
    let file = File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    file
}

/// Returns the attempts that Landlock's scopes defeat, if this machine's kernel has them.
async fn scoped_attempts(
    plan: &SandboxPlan,
    bed: &TestBed,
) -> &'static [(&'static str, &'static [&'static str])] {
    let version = bed.spawn(plan).await.unwrap().landlock_version();
    if version >= Some(SCOPES_VERSION) { SCOPED_ATTEMPTS } else { &[] }
}

#[tokio::test]
async fn no_attempt_leads_out_of_a_sandbox() {
    let bed = TestBed::new();
    let plan = bed.plan(&["true"]);
    let (name, _listener) = abstract_socket(&bed.path("socket"));
    let _inherited = inherited_file();
    let attempts = [ATTEMPTS, READ_ONLY_ROOT_ATTEMPTS, scoped_attempts(&plan, &bed).await].concat();
    let wrong = unexpected(&plan, &bed, &attempts, &name).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    run_as_ordinary_user("escape_tests::no_attempt_leads_out_of_a_sandbox");
}

#[tokio::test]
async fn no_attempt_leads_out_of_a_container() {
    let (fixture, bed) = (Fixture::new(), TestBed::new());
    let (name, _listener) = abstract_socket(fixture.folder.path());
    let _inherited = inherited_file();
    let scoped = scoped_attempts(&bed.plan(&["true"]), &bed).await;
    for read_only_root in [false, true] {
        let of_root = if read_only_root { READ_ONLY_ROOT_ATTEMPTS } else { &[] };
        let attempts = [ATTEMPTS, of_root, scoped].concat();
        let script = script(&attempts, &name);
        let change = |spec: &mut ContainerSpec| {
            spec.args = ["python3", "-c", &script].map(str::to_owned).to_vec();
            spec.confinement.read_only_root = read_only_root;
        };
        let (code, output) = fixture.run("", change).await;
        assert_eq!(code, 0, "{output}");
        let wrong = unexpected_outcomes(&attempts, &output);
        assert!(wrong.is_empty(), "read-only root: {read_only_root}\n{}", wrong.join("\n"));
    }
    run_as_ordinary_user("escape_tests::no_attempt_leads_out_of_a_container");
}

#[tokio::test]
async fn another_user_of_a_sandbox_has_no_more_ways_out() {
    let bed = TestBed::new();
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (name, _listener) = abstract_socket(&bed.path("socket"));
    let plan = SandboxPlan { user: 1000, group: 1000, ..bed.plan(&["true"]) };
    let attempts = [ATTEMPTS, READ_ONLY_ROOT_ATTEMPTS].concat();
    let wrong = unexpected(&plan, &bed, &attempts, &name).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn the_machines_network_does_not_include_its_abstract_sockets() {
    let bed = TestBed::new();
    let plan = SandboxPlan { network: SandboxNetwork::Host, ..bed.plan(&["true"]) };
    let (name, _listener) = abstract_socket(&bed.path("socket"));
    let version = bed.spawn(&plan).await.unwrap().landlock_version();
    let expected: &[&str] = if version >= Some(SCOPES_VERSION) { &["EPERM"] } else { &["allowed"] };
    let attempts = [("connect_abstract(HOST_SOCKET)", expected)];
    assert_eq!(unexpected(&plan, &bed, &attempts, &name).await, Vec::<String>::new());
    run_as_ordinary_user("escape_tests::the_machines_network_does_not_include_its_abstract_sockets");
}

/// Runs a test of this file again as root, with an empty `/run` that no other program sees.
#[track_caller]
fn run_with_own_run_folder(test: &str) {
    let name = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    let mut again = Command::new("unshare");
    again.args(["--mount", "sh", "-c", "mount -t tmpfs none /run && exec \"$@\"", "sh"]);
    again
        .arg(env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &name])
        .env(HAS_OWN_RUN_FOLDER, "1");
    let outcome = again.output().unwrap();
    let passed = String::from_utf8_lossy(&outcome.stdout).contains("1 passed");
    assert!(outcome.status.success() && passed, "with another `/run`: {outcome:?}");
}

/// Listens on a socket that any user may connect to.
fn listen_for_all(path: &str) -> UnixListener {
    fs::create_dir_all(Path::new(path).parent().unwrap()).unwrap();
    let listener = UnixListener::bind(path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
    listener
}

#[tokio::test]
async fn no_bus_of_the_machine_is_reached() {
    let (is_root, has_own_folder) =
        (rustix::process::geteuid().is_root(), env::var_os(HAS_OWN_RUN_FOLDER).is_some());
    if is_root && !has_own_folder {
        return run_with_own_run_folder("no_bus_of_the_machine_is_reached");
    }
    // Root's listeners are also those of the second run.
    let _listeners = is_root.then(|| BUSES.map(listen_for_all));
    let name = format!("/tmp/dbus-{}", std::process::id());
    let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract_listener = UnixListener::bind_addr(&abstract_address).unwrap();
    // Programs outside of the sandbox can connect.
    UnixStream::connect_addr(&abstract_address).unwrap();
    for bus in BUSES.into_iter().filter(|_| has_own_folder) {
        UnixStream::connect(bus).unwrap();
    }
    for network in [SandboxNetwork::Private, SandboxNetwork::Host] {
        let bed = TestBed::new();
        let plan = SandboxPlan { network, ..bed.plan(&["true"]) };
        let version = bed.spawn(&plan).await.unwrap().landlock_version();
        let abstract_outcome: &[&str] = match network {
            SandboxNetwork::Private => &["ECONNREFUSED"],
            SandboxNetwork::Host if version >= Some(SCOPES_VERSION) => &["EPERM"],
            SandboxNetwork::Host => &["allowed"],
        };
        let attempts = [BUS_ATTEMPTS, &[("connect_abstract(HOST_SOCKET)", abstract_outcome)]].concat();
        let bed = TestBed::new();
        let plan = SandboxPlan { network, ..bed.plan(&["true"]) };
        assert_eq!(unexpected(&plan, &bed, &attempts, &name).await, Vec::<String>::new(), "{network:?}");
    }
    run_as_ordinary_user("escape_tests::no_bus_of_the_machine_is_reached");
}
