//! Runs a server in a sandbox: the command `sandbox` of the shim. mcpm starts it outside of any container, with a
//! socket to mcpm as standard input.
//!
//! This process stays outside as the monitor: it forwards signals, ends the sandbox when mcpm is gone, and records the
//! exit code. Its child is the first process of new namespaces. The child builds the file system, drops all privileges,
//! and then starts the program of the plan or, if the plan names a slot, requests the configuration over the mounted
//! socket and starts the server, as in the container of an engine.

use alloc::vec::Vec;

use crate::{
    START_FAILED, child,
    confinement::Confinement,
    failure::{Failure, Result, failed, report_process, report_ready},
    mounts,
    plan::Plan,
    report::Step,
    serve,
    sys::{self, Epoll, Errno, Event, Fd, decimal},
    uplink,
};

const KILL: u32 = 9;
/// The exit code of a process that was killed.
const KILLED: i32 = 128 + KILL as i32;

/// The message of the monitor to the sandbox's first process once its ids are mapped: whether the supplementary groups
/// may be changed.
const GROUPS_ALLOWED: u8 = b'g';
const GROUPS_DENIED: u8 = b'd';

/// The open files that mcpm sends.
struct Files {
    stdin: Fd,
    /// A pipe whose other end only mcpm has, and mcpm's process as a file descriptor. If mcpm is gone, at least one of
    /// them becomes readable.
    lifelines: [Fd; 2],
    exit_code: Fd,
}

/// Runs a sandbox until it ends; returns its exit code.
pub(crate) fn run() -> i32 {
    // A parent that ignores SIGCHLD passes that setting on, and the monitor would not learn that its child has ended.
    sys::reset_signals();
    // The program that contains mcpm may have left other files open.
    match sys::close_files_from(3).and_then(|()| sys::copy_standard_stream(0)) {
        Ok(control) => monitor(control),
        Err(error) => {
            failed(Step::ReceivePlan, b"")(error).print();
            START_FAILED
        }
    }
}

fn monitor(control: Fd) -> i32 {
    let (files, plan) = match receive_plan(&control).map_err(failed(Step::ReceivePlan, b"")) {
        Ok(received) => received,
        Err(failure) => return give_up(&control, &failure),
    };
    let Files { stdin, lifelines, exit_code } = files;
    let [pipe, mcpm] = &lifelines;
    let started = start(&control, &stdin, &[pipe, mcpm, &exit_code], &plan);
    // If this process kept the stream open, mcpm would not notice that the server closes it.
    drop(stdin);
    sys::close_standard_stream(0);
    sys::close_standard_stream(1);
    let code = match started {
        Ok(sandbox) => supervise(control, &plan, &sandbox, &lifelines),
        Err(failure) => give_up(&control, &failure),
    };
    let out_of_memory = code == KILLED && killed_for_memory(&plan);
    // mcpm learns the code from this process, too; the record is for others.
    let _ = sys::write_all(&exit_code, &exit_record(code, out_of_memory));
    remove_cgroups(&plan);
    code
}

/// Attempts to remove a control group, and the milliseconds between them.
const REMOVAL_ATTEMPTS: usize = 100;
const REMOVAL_DELAY_MS: u64 = 10;

/// Removes the control groups of a sandbox that has ended, because mcpm may have been killed.
fn remove_cgroups(plan: &Plan) {
    let separate = plan.cgroup_tasks.iter().map(|tasks| [folder_of(tasks), b"\0"].concat());
    for folder in plan.cgroup.iter().cloned().chain(separate) {
        // A process may leave its group a moment after its end, of which no event tells.
        for _ in 0..REMOVAL_ATTEMPTS {
            match sys::remove_folder(&folder) {
                Err(Errno::BUSY) => pause(REMOVAL_DELAY_MS),
                _ => break,
            }
        }
    }
}

fn pause(milliseconds: u64) {
    let _ = Epoll::new().and_then(|epoll| epoll.wait_for(&mut [Event::NONE], Some(milliseconds)));
}

/// Returns the folder of a file, given its path.
fn folder_of(file: &[u8]) -> &[u8] {
    file.rsplitn(2, |byte| *byte == b'/').last().unwrap_or(file)
}

/// Prints and reports a failed step; returns the exit code for that.
fn give_up(control: &Fd, failure: &Failure) -> i32 {
    failure.print();
    failure.report(control);
    START_FAILED
}

fn receive_plan(control: &Fd) -> sys::Result<(Files, Plan)> {
    let mut length = [0; 4];
    let [plan, stdin, pipe, process, exit_code] = sys::receive_files(control, &mut length)?;
    let bytes = sys::read_to_end(&plan, u32::from_le_bytes(length) as usize)?;
    let parsed = Plan::parse(&bytes).ok_or(Errno::INVALID)?;
    Ok((Files { stdin, lifelines: [pipe, process], exit_code }, parsed))
}

/// A running sandbox.
struct Sandbox {
    /// The process id of its first process.
    process: i32,
    /// The socket to that process, which ends with it unless the monitor is alive.
    link: Fd,
    /// The signals for the monitor.
    signals: Fd,
}

/// Starts the sandbox's first process, which closes the files in `unused` and waits until its ids are mapped.
fn start(control: &Fd, stdin: &Fd, unused: &[&Fd], plan: &Plan) -> Result<Sandbox> {
    sys::set_process_name(c"mcpm-monitor");
    // mcpm itself handles signals of its terminal. The call fails for the leader of a process group, which needs no new
    // session.
    let _ = sys::start_session();
    let signals = sys::signals().map_err(failed(Step::Start, b""))?;
    let (link, childs) = sys::socket_pair().map_err(failed(Step::Start, b""))?;
    let open_cgroup = |path: &Vec<u8>| sys::open_folder(path).map_err(failed(Step::JoinCgroup, path));
    let cgroup = plan.cgroup.as_ref().map(open_cgroup).transpose()?;
    let fork = |into: Option<&Fd>, joined: &[Vec<u8>]| {
        sys::fork_into_namespaces(!plan.shares_network, into, || {
            let unused = unused.iter().copied().chain([&link, &signals]).chain(&cgroup);
            unused.for_each(|file| drop(sys::take_copy(file)));
            first_process(sys::take_copy(control), sys::take_copy(stdin), &childs, plan, joined)
        })
    };
    let process = match (fork(cgroup.as_ref(), &plan.cgroup_tasks), &plan.cgroup) {
        // A filter of system calls cannot examine the arguments of `clone3`, so it may allow only `clone`.
        (Err(Errno::NOT_PERMITTED | Errno::NO_SYSTEM_CALL), Some(folder)) => {
            let folder = folder.strip_suffix(&[0]).unwrap_or(folder);
            fork(None, &[[folder, b"/cgroup.procs\0"].concat()])
        }
        (Err(error), Some(folder)) if can_create_namespaces(plan) => {
            return Err(failed(Step::JoinCgroup, folder)(error));
        }
        (process, _) => process,
    };
    let process = process.map_err(failed(Step::CreateNamespaces, b""))?;
    Ok(Sandbox { process, link, signals })
}

/// Whether the namespaces of the sandbox can be created outside of its control group, so that the group is the reason
/// for a failure.
fn can_create_namespaces(plan: &Plan) -> bool {
    let process = sys::fork_into_namespaces(!plan.shares_network, None, || 0);
    process.is_ok_and(|process| sys::wait(process).is_ok())
}

/// Maps the ids of the sandbox, lets it go on, and watches it until it ends; returns its exit code.
fn supervise(control: Fd, plan: &Plan, sandbox: &Sandbox, lifelines: &[Fd; 2]) -> i32 {
    report_process(&control, sandbox.process);
    let admitted = admit(plan, sandbox.process)
        .and_then(|answer| sys::send(&sandbox.link, &[answer]).map_err(failed(Step::Start, b"")).map(drop));
    let failure = admitted.err().map(|failure| {
        sys::signal(sandbox.process, KILL);
        give_up(&control, &failure)
    });
    // mcpm waits until no process has this socket.
    drop(control);
    let ended = watch(sandbox, lifelines).unwrap_or_else(|error| {
        failed(Step::Start, b"")(error).print();
        sys::signal(sandbox.process, KILL);
        START_FAILED
    });
    failure.unwrap_or(ended)
}

/// Forwards signals to the sandbox until it ends, and ends it when mcpm is gone; returns its exit code.
fn watch(sandbox: &Sandbox, lifelines: &[Fd; 2]) -> sys::Result<i32> {
    const SIGNALS: u64 = 0;
    const LIFELINES: u64 = 1;
    let epoll = Epoll::new()?;
    epoll.watch(&sandbox.signals, SIGNALS)?;
    lifelines.iter().try_for_each(|lifeline| epoll.watch(lifeline, LIFELINES))?;
    let mut events = [Event::NONE; 4];
    loop {
        let count = match epoll.wait(&mut events) {
            Err(Errno::INTERRUPTED) => continue,
            count => count?,
        };
        for event in events.iter().take(count) {
            if event.token() == LIFELINES {
                sys::signal(sandbox.process, KILL);
                lifelines.iter().for_each(|lifeline| epoll.unwatch(lifeline));
            } else if let Some(code) = child::handle_signals(&sandbox.signals, sandbox.process) {
                return Ok(code);
            }
        }
    }
}

/// Maps the ids of the sandbox; returns the answer for its first process.
fn admit(plan: &Plan, process: i32) -> Result<u8> {
    let mut digits = Vec::new();
    decimal(&mut digits, process as u32);
    let folder = [b"/proc/" as &[u8], &digits, b"/"].concat();
    let map = |name: &[u8], content: &[u8]| write_file(&[&folder, name, b"\0"].concat(), content);
    let step = |map: &[u8]| failed(Step::MapIds, map);
    digits.push(0);
    if oom_score().is_some_and(|score| score < OOM_SCORE) {
        let mut score = Vec::new();
        decimal(&mut score, OOM_SCORE as u32);
        // With `CAP_SYS_RESOURCE`, this is also the lowest score that the sandbox can set.
        map(b"oom_score_adj", &score).map_err(failed(Step::Limit, b"the OOM score"))?;
    }
    if !is_mapped_by(&plan.uid_mapper, &digits) {
        map(b"uid_map", &plan.uid_map).map_err(step(&plan.uid_map))?;
    }
    if is_mapped_by(&plan.gid_mapper, &digits) {
        return Ok(GROUPS_ALLOWED);
    }
    match map(b"gid_map", &plan.gid_map) {
        Ok(()) => Ok(GROUPS_ALLOWED),
        // A process without privileges may map groups only after it has disabled `setgroups`.
        Err(Errno::NOT_PERMITTED) => {
            map(b"setgroups", b"deny").map_err(step(b"setgroups"))?;
            map(b"gid_map", &plan.gid_map).map_err(step(&plan.gid_map))?;
            Ok(GROUPS_DENIED)
        }
        Err(error) => Err(step(&plan.gid_map)(error)),
    }
}

/// When memory runs out, servers are killed before other programs, as with an engine.
const OOM_SCORE: i32 = 500;

/// The OOM score of this process, which the sandbox inherits.
fn oom_score() -> Option<i32> {
    let text =
        sys::open_to_read(b"/proc/self/oom_score_adj\0").and_then(|file| sys::read_to_end(&file, 16)).ok()?;
    core::str::from_utf8(&text).ok()?.trim().parse().ok()
}

/// Seconds that a program may take to set a map of ids.
const MAPPING_SECONDS: u64 = 10;

/// Runs a program that sets a map of a process; returns whether it succeeded. `process` is the process id as text that
/// ends with a zero byte.
fn is_mapped_by(mapper: &[Vec<u8>], process: &[u8]) -> bool {
    let Some((program, numbers)) = mapper.split_first() else { return false };
    let run = || {
        // Otherwise its message about a map that it rejects would appear in the log of the server.
        sys::close_standard_stream(2);
        // The program may query a directory service that does not respond.
        if sys::end_after(MAPPING_SECONDS).is_err() {
            return START_FAILED;
        }
        let args: Vec<Vec<u8>> = [program, &process.to_vec()].into_iter().chain(numbers).cloned().collect();
        child::execute(&args, &[]);
        START_FAILED
    };
    sys::fork(run).is_ok_and(|child| sys::wait(child) == Ok(0))
}

/// The kernel takes the content of these files in one piece.
fn write_file(path: &[u8], content: &[u8]) -> sys::Result<()> {
    sys::open_to_write(path).and_then(|file| sys::write(&file, content)).map(drop)
}

/// Whether the kernel killed a process of the sandbox's control group for lack of memory.
fn killed_for_memory(plan: &Plan) -> bool {
    let Some(path) = &plan.memory_events else { return false };
    let Ok(events) = sys::open_to_read(path).and_then(|file| sys::read_to_end(&file, 256)) else {
        return false;
    };
    let count = events.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"oom_kill "));
    count.is_some_and(|count| count != b"0")
}

/// `CODE OUT_OF_MEMORY`, in digits.
fn exit_record(code: i32, out_of_memory: bool) -> Vec<u8> {
    let mut record = Vec::new();
    decimal(&mut record, code as u32);
    record.extend_from_slice(if out_of_memory { b" 1\n" } else { b" 0\n" });
    record
}

/// The sandbox's first process, which joins the control groups with the files in `joined`; returns its exit code.
fn first_process(control: Fd, stdin: Fd, link: &Fd, plan: &Plan, joined: &[Vec<u8>]) -> i32 {
    if let Err(failure) = set_up(stdin, link, plan, joined) {
        return give_up(&control, &failure);
    }
    let confinement = Confinement::new(&plan.writable, &plan.filters);
    report_ready(&control, confinement.landlock_version());
    let env: Vec<&[u8]> = plan.env.iter().map(Vec::as_slice).collect();
    match &plan.slot {
        Some(slot) => {
            drop(control);
            serve(uplink::MOUNTED, slot, &env, || {
                if let Err(failure) = confinement.install() {
                    failure.print();
                    sys::exit(START_FAILED);
                }
            })
        }
        None => run_program(control, &plan.args, &env, &confinement).unwrap_or_else(|error| {
            failed(Step::Start, b"")(error).print();
            START_FAILED
        }),
    }
}

/// The order matters: each step needs the privileges that a later one drops.
fn set_up(stdin: Fd, link: &Fd, plan: &Plan, joined: &[Vec<u8>]) -> Result<()> {
    sys::set_process_name(c"mcpm-sandbox");
    let groups_allowed = wait_for_monitor(link)?;
    join_cgroups(joined)?;
    sys::set_standard_stream(0, &stdin).map_err(failed(Step::Start, b"standard input"))?;
    drop(stdin);
    sys::start_session().map_err(failed(Step::Separate, b"the terminal"))?;
    sys::unshare_cgroups().map_err(failed(Step::Separate, b"the control groups"))?;
    if !plan.shares_network {
        set_up_network()?;
    }
    mounts::build(&plan.root, &plan.mounts)?;
    sys::set_umask(0o022);
    sys::set_host_name(&plan.host_name).map_err(failed(Step::HostName, &plan.host_name))?;
    for (resource, limit) in &plan.limits {
        sys::limit_resource(*resource, *limit)
            .map_err(failed(Step::Limit, b"the resources of the server"))?;
    }
    change_user(plan, groups_allowed)?;
    sys::change_folder(&plan.working_dir).map_err(failed(Step::EnterFolder, &plan.working_dir))?;
    sys::set_inspectable(false).map_err(failed(Step::DropPrivileges, b""))?;
    // The change of the user has reset this setting.
    stay_with_monitor(link)
}

/// Waits until the ids are mapped; returns whether the supplementary groups may be changed.
fn wait_for_monitor(link: &Fd) -> Result<bool> {
    stay_with_monitor(link)?;
    let mut answer = [0];
    loop {
        match sys::read(link, &mut answer) {
            Ok(1) => return Ok(answer == [GROUPS_ALLOWED]),
            // The monitor has failed, and has reported why.
            Ok(_) => sys::exit(START_FAILED),
            Err(Errno::INTERRUPTED) => {}
            Err(error) => return Err(failed(Step::Start, b"")(error)),
        }
    }
}

/// Makes the kernel kill this process when the monitor ends, which may have happened already.
fn stay_with_monitor(link: &Fd) -> Result<()> {
    sys::die_with_parent().map_err(failed(Step::Start, b""))?;
    if sys::is_closed_by_peer(link) {
        sys::exit(START_FAILED);
    }
    Ok(())
}

/// Moves this process, which has one thread, into control groups by their files: `tasks` in version 1, or
/// `cgroup.procs`. In both cases, the kernel takes `cgroup_mutex`. For `cgroup.procs`, it also takes
/// `cgroup_threadgroup_rwsem`, which waits for an RCU grace period (9 to 16 ms).
fn join_cgroups(files: &[Vec<u8>]) -> Result<()> {
    files
        .iter()
        .try_for_each(|file| write_file(file, b"0").map_err(failed(Step::JoinCgroup, folder_of(file))))
}

fn set_up_network() -> Result<()> {
    /// The server needs no privileges to listen on any port of its own network.
    const LOWEST_PORT: &[u8] = b"/proc/sys/net/ipv4/ip_unprivileged_port_start\0";
    sys::start_loopback().map_err(failed(Step::Network, b"lo"))?;
    write_file(LOWEST_PORT, b"0").map_err(failed(Step::Network, LOWEST_PORT))
}

fn change_user(plan: &Plan, groups_allowed: bool) -> Result<()> {
    sys::bound_capabilities().map_err(failed(Step::DropPrivileges, b""))?;
    if groups_allowed {
        sys::set_groups(&plan.groups).map_err(failed(Step::ChangeUser, b"the supplementary groups"))?;
    }
    sys::set_group(plan.group).map_err(failed(Step::ChangeUser, &numbered(b"group ", plan.group)))?;
    sys::set_user(plan.user).map_err(failed(Step::ChangeUser, &numbered(b"user ", plan.user)))?;
    sys::drop_capabilities().map_err(failed(Step::DropPrivileges, b""))
}

fn numbered(word: &[u8], number: u32) -> Vec<u8> {
    let mut text = word.to_vec();
    decimal(&mut text, number);
    text
}

/// Runs the plan's program until it ends; returns its exit code. A program that cannot be run is reported to mcpm.
fn run_program(
    control: Fd,
    args: &[Vec<u8>],
    env: &[&[u8]],
    confinement: &Confinement<'_>,
) -> sys::Result<i32> {
    let signals = sys::signals()?;
    let epoll = Epoll::new()?;
    epoll.watch(&signals, 0)?;
    let server = sys::fork(|| {
        if let Err(failure) = confinement.install() {
            return give_up(&control, &failure);
        }
        let errno = child::execute(args, env);
        let program = args.first().map_or(b"" as &[u8], Vec::as_slice);
        failed(Step::Run, program)(errno).report(&control);
        child::explain_failure(program, errno)
    })?;
    // mcpm waits until no process has this socket, that is, until the program has started.
    drop(control);
    // Only the server uses its streams.
    sys::close_standard_stream(0);
    sys::close_standard_stream(1);
    let mut events = [Event::NONE; 1];
    loop {
        match epoll.wait(&mut events) {
            Ok(_) | Err(Errno::INTERRUPTED) => {}
            Err(error) => return Err(error),
        }
        if let Some(code) = child::handle_signals(&signals, server) {
            return Ok(code);
        }
    }
}
