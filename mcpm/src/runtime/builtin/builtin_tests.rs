//! Tests the runtime with real processes, on the system folders of this machine.

use std::{collections::BTreeMap, fs, io::Read as _, os::unix::fs::PermissionsExt as _};

use futures_util::{
    StreamExt as _,
    future::{join_all, poll_immediate},
};
use rustix::fs::{Access, CWD, FileType, Mode, access, mknodat};
use tokio::io::AsyncWriteExt as _;

use super::{container::tests::spec, sandbox::sandbox_tests::run_as_ordinary_user, *};
use crate::{
    image::store::ImageConfig,
    runtime::{Confinement, ContainerState, LogStream, Mount, labels},
    state::ProcessId,
    testing::with_timeout,
};

/// A runtime in folders of its own.
pub(super) struct Fixture {
    pub(super) folder: tempfile::TempDir,
    pub(super) runtime: Builtin,
}

impl Fixture {
    pub(super) fn new() -> Self {
        Self::in_folder(tempfile::tempdir().unwrap())
    }

    pub(super) fn in_folder(folder: tempfile::TempDir) -> Self {
        let mut environment = Environment::from_lookup(|_| None);
        environment.state_dir = folder.path().join("state");
        environment.cache_dir = folder.path().join("cache");
        let runtime = Builtin::new(&environment).unwrap();
        Self { folder, runtime }
    }

    /// Builds an image on the system folders of this machine.
    pub(super) async fn build(&self, name: &str, dockerfile: &str) -> Result<String> {
        with_timeout(self.runtime.build(Self::request(name, dockerfile), &|_| {})).await
    }

    pub(super) fn request(name: &str, dockerfile: &str) -> BuildRequest {
        BuildRequest {
            context: Self::context(&format!("FROM {HOST_IMAGE}\n{dockerfile}")),
            tag: Some(name.to_owned()),
            args: BTreeMap::from([("WORD".to_owned(), "secret word".to_owned())]),
            hosts: Some(Vec::new()),
            ..BuildRequest::default()
        }
    }

    pub(super) fn context(dockerfile: &str) -> bytes::Bytes {
        let mut context = tar::Builder::new(Vec::new());
        for (path, content) in [("Dockerfile", dockerfile), ("hello.txt", "hello\n")] {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(0);
            context.append_data(&mut header, path, content.as_bytes()).unwrap();
        }
        context.into_inner().unwrap().into()
    }

    /// Runs a shell script in a container to its end; returns its exit code and its output.
    pub(super) async fn run(&self, script: &str, change: impl FnOnce(&mut ContainerSpec)) -> (i64, String) {
        let mut spec = self.spec("w", script);
        change(&mut spec);
        let id = self.runtime.create(&spec).await.unwrap();
        let mut attached = self.runtime.attach(&id).await.unwrap();
        with_timeout(self.runtime.start(&id)).await.unwrap();
        drop(attached.stdin);
        let mut text = Vec::new();
        while let Some(chunk) = with_timeout(attached.output.next()).await {
            text.extend_from_slice(&chunk.unwrap().bytes);
        }
        let exit = with_timeout(self.runtime.wait(&id)).await.unwrap();
        self.runtime.remove(&id).await.unwrap();
        (exit.code, String::from_utf8(text).unwrap())
    }

    pub(super) fn spec(&self, name: &str, script: &str) -> ContainerSpec {
        let args = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        ContainerSpec { image: HOST_IMAGE.to_owned(), args, ..spec(name) }
    }
}

#[tokio::test]
async fn a_container_lives_from_its_creation_to_its_removal() {
    run_as_ordinary_user("runtime::builtin::tests::a_container_lives_from_its_creation_to_its_removal");
    let fixture = Fixture::new();
    let runtime = &fixture.runtime;
    let mut spec = fixture.spec("w", "read line; echo \"got $line\"; echo problem >&2; exit 3");
    spec.labels.insert(labels::NAME.to_owned(), "w".to_owned());
    let id = runtime.create(&spec).await.unwrap();
    assert_eq!(runtime.create(&spec).await.unwrap_err().kind(), ErrorKind::NameTaken);
    let state = async |runtime: &Builtin| runtime.inspect("w").await.unwrap().unwrap().state;
    assert_eq!(state(runtime).await, ContainerState::Created);
    for _ in 0..2 {
        let mut attached = runtime.attach(&id).await.unwrap();
        with_timeout(runtime.start(&id)).await.unwrap();
        assert_eq!(state(runtime).await, ContainerState::Running);
        let info = runtime.inspect("w").await.unwrap().unwrap();
        assert!(fs::metadata(format!("/proc/{}", info.pid.unwrap())).is_ok());
        assert_eq!(info.lacks_control_groups, Hierarchy::of_this_user().is_none());
        attached.stdin.write_all(b"a line\n").await.unwrap();
        let mut stdout = Vec::new();
        while let Some(chunk) = with_timeout(attached.output.next()).await.transpose().unwrap() {
            if chunk.stream == LogStream::Stdout {
                stdout.extend_from_slice(&chunk.bytes);
            }
        }
        assert_eq!(stdout, b"got a line\n");
        let exit = with_timeout(runtime.wait(&id)).await.unwrap();
        assert_eq!(exit.code, 3);
        assert_eq!(state(runtime).await, ContainerState::Exited(exit));
    }
    // Messages of a stdio server are not logged.
    let logs = runtime.logs(&id, LogOptions::default()).await.unwrap();
    let logs: Vec<_> =
        logs.map(|chunk| String::from_utf8(chunk.unwrap().bytes.to_vec()).unwrap()).collect().await;
    assert_eq!(logs.concat(), "problem\nproblem\n");
    assert_eq!(runtime.list().await.unwrap().len(), 1);
    runtime.remove(&id).await.unwrap();
    runtime.remove(&id).await.unwrap();
    assert!(runtime.inspect("w").await.unwrap().is_none() && runtime.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_container_alone_is_in_its_control_groups_and_sees_them_as_roots() {
    let can_have_groups =
        rustix::process::geteuid().is_root() && access("/sys/fs/cgroup", Access::WRITE_OK).is_ok();
    if !can_have_groups {
        println!("skipped: only root can create control groups, and only where `/sys/fs/cgroup` is writable");
        return;
    }
    let fixture = Fixture::new();
    let runtime = &fixture.runtime;
    let spec = fixture.spec("w", "cat /proc/self/cgroup; echo end; exec sleep 600");
    let id = runtime.create(&spec).await.unwrap();
    let mut attached = runtime.attach(&id).await.unwrap();
    with_timeout(runtime.start(&id)).await.unwrap();
    let mut text = Vec::new();
    while !text.ends_with(b"end\n") {
        text.extend_from_slice(&with_timeout(attached.output.next()).await.unwrap().unwrap().bytes);
    }
    let text = String::from_utf8(text).unwrap();
    let paths: Vec<&str> = text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).collect();
    assert!(!paths.is_empty() && paths.iter().all(|path| *path == "/"), "{text}");
    let folder = runtime.containers.require(&id).unwrap();
    let planned = control_group::folders_of(folder.path());
    let groups_of = |process: ProcessId| {
        let text = fs::read_to_string(format!("/proc/{}/cgroup", process.pid)).unwrap();
        Hierarchy::of_this_user().unwrap().below(&text).unwrap().folders().to_vec()
    };
    let process = folder.running_process().unwrap();
    assert_eq!(groups_of(process.first), planned);
    let of_monitor = groups_of(process.monitor);
    assert!(of_monitor.iter().all(|group| !planned.contains(group)), "{of_monitor:?}");
    runtime.remove(&id).await.unwrap();
}

#[tokio::test]
async fn a_container_is_stopped_by_another_process_of_the_user() {
    run_as_ordinary_user("runtime::builtin::tests::a_container_is_stopped_by_another_process_of_the_user");
    let fixture = Fixture::new();
    let started = &fixture.runtime;
    // The other runtime knows the container only from its record.
    let mut other = fixture.runtime.clone();
    other.processes = Processes::default();
    for (script, code) in [
        ("trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done", 7),
        ("trap '' TERM; echo up; sleep 600", 137),
    ] {
        let spec = fixture.spec("w", script);
        let id = started.create(&spec).await.unwrap();
        let mut attached = started.attach(&id).await.unwrap();
        with_timeout(started.start(&id)).await.unwrap();
        with_timeout(attached.output.next()).await.unwrap().unwrap();
        let grace = Duration::from_secs(if code == 7 { 30 } else { 0 });
        let (stopped, exit, waited) =
            with_timeout(async { tokio::join!(other.stop(&id, grace), started.wait(&id), other.wait(&id)) })
                .await;
        stopped.unwrap();
        assert_eq!((exit.unwrap().code, waited.unwrap().code), (code, code), "{script}");
        other.remove(&id).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_last_lines_are_in_the_log_when_the_exit_is_known() {
    run_as_ordinary_user("runtime::builtin::tests::the_last_lines_are_in_the_log_when_the_exit_is_known");
    let fixture = Fixture::new();
    let runtime = &fixture.runtime;
    let id = runtime.create(&fixture.spec("w", "head -c 100000 /dev/zero; echo last")).await.unwrap();
    // The log takes less than that until it is read.
    let log = fixture.folder.path().join("state/containers/w/log");
    mknodat(CWD, &log, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let mut log = fs::File::options().read(true).write(true).open(log).unwrap();
    with_timeout(runtime.start(&id)).await.unwrap();
    let is_running = async || runtime.inspect("w").await.unwrap().unwrap().state == ContainerState::Running;
    with_timeout(async { while is_running().await {} }).await;
    let mut waiting = Box::pin(runtime.wait(&id));
    for _ in 0..1000 {
        assert!(poll_immediate(&mut waiting).await.is_none());
        is_running().await;
    }
    let reading = tokio::task::spawn_blocking(move || {
        let (mut text, mut chunk) = (Vec::new(), [0; 4096]);
        while !text.ends_with(b"last\n") {
            let count = log.read(&mut chunk).unwrap();
            text.extend_from_slice(&chunk[..count]);
        }
        log
    });
    // The pipe stays open until all output is written.
    let _log = with_timeout(reading).await.unwrap();
    with_timeout(waiting).await.unwrap();
}

#[tokio::test]
async fn a_flood_of_output_fills_two_bounded_files() {
    run_as_ordinary_user("runtime::builtin::tests::a_flood_of_output_fills_two_bounded_files");
    let fixture = Fixture::new();
    let runtime = &fixture.runtime;
    let script = "yes | head -c 50000000; yes | head -c 50000000 >&2; echo last >&2";
    let id = runtime.create(&fixture.spec("w", script)).await.unwrap();
    with_timeout(runtime.start(&id)).await.unwrap();
    assert_eq!(with_timeout(runtime.wait(&id)).await.unwrap().code, 0);
    let folder = fixture.folder.path().join("state/containers/w");
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(Result::unwrap).collect();
    let sizes = files.iter().filter(|entry| entry.file_type().unwrap().is_file());
    let sizes: Vec<u64> = sizes.map(|entry| entry.metadata().unwrap().len()).collect();
    // Each file of the log has at most 10 MiB and a frame. Nothing else in the folder has grown.
    assert!(sizes.iter().all(|size| *size < 11 << 20), "{files:?}: {sizes:?}");
    assert!((10 << 20..22 << 20).contains(&sizes.iter().sum::<u64>()), "{files:?}: {sizes:?}");
    let options = LogOptions { follow: false, tail: Some(1) };
    let tail = with_timeout(runtime.logs(&id, options)).await.unwrap();
    let tail: Vec<_> = tail.map(|chunk| chunk.unwrap().bytes.to_vec()).collect().await;
    assert_eq!(tail.concat(), b"last\n");
    runtime.remove(&id).await.unwrap();
}

#[tokio::test]
async fn of_two_processes_that_start_a_container_one_does() {
    run_as_ordinary_user("runtime::builtin::tests::of_two_processes_that_start_a_container_one_does");
    let fixture = Fixture::new();
    let shared = fixture.folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    let mut others = [(); 4].map(|()| fixture.runtime.clone());
    for other in &mut others {
        other.processes = Processes::default();
    }
    let mut spec = fixture.spec("w", "echo up >> /data/starts; exec sleep 600");
    let target = "/data".to_owned();
    spec.mounts.push(Mount { source: shared.clone(), target, read_only: false, relabel: None });
    for _ in 0..5 {
        let id = fixture.runtime.create(&spec).await.unwrap();
        let started = with_timeout(join_all(others.iter().map(|other| other.start(&id)))).await;
        started.into_iter().for_each(|outcome| outcome.unwrap());
        let attached = fixture.runtime.attach(&id).await.map(drop).unwrap_err();
        assert!(attached.message().contains("is running"), "{attached}");
        let info = fixture.runtime.inspect("w").await.unwrap().unwrap();
        assert_eq!(info.state, ContainerState::Running);
        // A removal waits for a start in progress.
        with_timeout(join_all(others.iter().map(|other| other.remove(&id)))).await;
        assert!(fixture.runtime.list().await.unwrap().is_empty());
    }
    let starts = fs::read_to_string(shared.join("starts")).unwrap_or_default();
    assert!(starts.lines().count() <= 5, "{starts}");
}

#[tokio::test]
async fn a_container_that_cannot_be_read_keeps_every_image() {
    let fixture = Fixture::new();
    let runtime = &fixture.runtime;
    let id = runtime.create(&fixture.spec("w", "")).await.unwrap();
    let config = ImageConfig { command: vec!["unused".to_owned()], ..ImageConfig::default() };
    let used = runtime.images.list().unwrap().remove(0);
    let unused = runtime.images.commit(Some(&used), Vec::new(), &config, None).unwrap().id;
    fs::write(fixture.folder.path().join("state/containers/w/container.json"), "{").unwrap();
    runtime.remove_image(&unused.to_string()).await.unwrap();
    assert!(runtime.images.get(&unused).unwrap().is_some());
    runtime.remove(&id).await.unwrap();
    runtime.remove_image(&unused.to_string()).await.unwrap();
    assert!(runtime.images.get(&unused).unwrap().is_none());
}

#[tokio::test]
async fn the_lock_of_the_store_is_not_waited_for_on_this_thread() {
    let fixture = Fixture::new();
    let images = &fixture.runtime.images;
    let image = host_image::ensure(images, &fixture.runtime.system).unwrap();
    let draft = images.draft().unwrap();
    let (removed, ()) =
        tokio::join!(fixture.runtime.remove_image(image.id.hex()), async move { drop(draft) });
    removed.unwrap();
    assert!(images.get(&image.id).unwrap().is_none());
}

#[tokio::test]
async fn a_long_name_is_truncated_as_the_name_of_the_host() {
    run_as_ordinary_user("runtime::builtin::tests::a_long_name_is_truncated_as_the_name_of_the_host");
    let fixture = Fixture::new();
    let name = "a".repeat(63);
    let (code, text) =
        fixture.run("hostname; cat /etc/hostname", |spec| spec.name = format!("{name}.P1")).await;
    assert_eq!((code, text), (0, format!("{name}\n{name}\n")));
}

const CAP_SYS_RESOURCE: u32 = 24;

/// Whether this process has a capability.
fn has_capability(number: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
    u64::from_str_radix(effective, 16).unwrap() & 1 << number != 0
}

#[tokio::test]
async fn a_container_has_its_mounts_its_limits_and_nothing_else() {
    run_as_ordinary_user("runtime::builtin::tests::a_container_has_its_mounts_its_limits_and_nothing_else");
    let fixture = Fixture::new();
    let shared = fixture.folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(shared.join("file"), "of this machine").unwrap();
    let mount =
        |read_only| Mount { source: shared.clone(), target: "/data".to_owned(), read_only, relabel: None };
    let test = async |script: &str, read_only: bool, read_only_root: bool| {
        fixture
            .run(script, |spec| {
                spec.mounts.push(mount(read_only));
                spec.confinement = Confinement {
                    read_only_root,
                    tmpfs: BTreeMap::from([("/scratch".to_owned(), 1 << 20)]),
                    ..Confinement::default()
                };
            })
            .await
    };
    for (script, read_only, read_only_root, expected) in [
        ("cat /data/file", true, false, Ok("of this machine")),
        ("echo x > /data/new", true, false, Err(())),
        ("echo x > /data/new && cat /data/new", false, true, Ok("x\n")),
        ("echo x > /new && cat /new", false, false, Ok("x\n")),
        ("echo x > /new", false, true, Err(())),
        ("echo x > /usr/new", false, false, Err(())),
        ("echo x > /scratch/new && cat /scratch/new", false, true, Ok("x\n")),
        ("head -c 2000000 /dev/zero > /scratch/new", false, true, Err(())),
        ("cat /etc/hostname", false, true, Ok("w\n")),
        ("pwd; ls /home", false, false, Ok("/\nmcpm\n")),
        ("cat /proc/1/environ", false, false, Err(())),
        ("grep CapEff /proc/self/status", false, false, Ok("CapEff:\t0000000000000000\n")),
        ("ls /proc/self/fd | wc -l", false, false, Ok("4\n")),
        ("cat /proc/self/oom_score_adj", false, true, Ok("500\n")),
        // Only a monitor with `CAP_SYS_RESOURCE` can prevent this.
        (
            "echo 0 > /proc/self/oom_score_adj; cat /proc/self/oom_score_adj",
            false,
            false,
            Ok(if has_capability(CAP_SYS_RESOURCE) { "500\n" } else { "0\n" }),
        ),
        ("ls /sys /root/.ssh", false, false, Err(())),
    ] {
        let (code, text) = test(script, read_only, read_only_root).await;
        match expected {
            Ok(expected) => assert_eq!((code, text.as_str()), (0, expected), "{script}"),
            Err(()) => assert_ne!(code, 0, "{script}: {text}"),
        }
    }
}

#[tokio::test]
async fn a_container_that_fills_the_disk_is_killed() {
    run_as_ordinary_user("runtime::builtin::tests::a_container_that_fills_the_disk_is_killed");
    let fixture = Fixture::new();
    let runtime = &fixture.runtime;
    // Space cannot be reserved faster than it is written.
    let (code, text) = fixture.run("fallocate -l 1G /reserved 2>&1", |_| {}).await;
    assert!(code != 0 && text.contains("not supported"), "{code}: {text}");
    let script = "n=0; while head -c 4194304 /dev/zero > /var/tmp/$n; do n=$((n + 1)); done; exec sleep 60";
    let id = runtime.create(&fixture.spec("disk", script)).await.unwrap();
    let (folder, plan, disk) = runtime.plan(&id).unwrap().unwrap();
    let disk = disk.map(|disk| disk.for_test(64 << 20));
    with_timeout(runtime.processes.start(&folder, &plan, disk)).await.unwrap();
    let exit = with_timeout(runtime.wait(&id)).await.unwrap();
    assert!(exit.exceeded_disk_limit && exit.code == 137, "{exit:?}");
    runtime.remove(&id).await.unwrap();
}
