use std::{
    env,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use super::*;

const LOCK_TO_HOLD: &str = "MCPM_TEST_LOCK";

/// A folder of a workload named `time`, without a lock file.
fn workload() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("time");
    std::fs::create_dir(&folder).unwrap();
    (root, folder.join("lock"))
}

/// The child process of the tests below; does nothing when run as a test.
#[test]
fn child_holds_the_lock_until_it_is_killed() {
    let Some(path) = env::var_os(LOCK_TO_HOLD) else { return };
    let _lock = Lock::acquire(Path::new(&path)).unwrap();
    // Bypasses the output capture of the test harness.
    io::stderr().write_all(b"held\n").unwrap();
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Starts this test binary again as a process that holds the lock, and waits until it does.
fn child(path: &Path) -> Child {
    let mut child = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "--nocapture",
            concat!(module_path!(), "::child_holds_the_lock_until_it_is_killed").split_once("::").unwrap().1,
        ])
        .env(LOCK_TO_HOLD, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "held"));
    child
}

#[test]
fn a_lock_is_held_once_and_says_by_whom() {
    let (_root, path) = workload();
    assert_eq!(Lock::holder(&path).unwrap(), None);
    let lock = Lock::acquire(&path).unwrap();
    let holder = Lock::holder(&path).unwrap().unwrap();
    assert_eq!(holder.process, Some(ProcessId::current()));
    let error = Lock::acquire(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NameTaken);
    let pid = std::process::id();
    assert_eq!(error.message(), format!("`time` is being started or is running (pid {pid})"));
    drop(lock);
    assert_eq!(Lock::holder(&path).unwrap(), None);
    let _again = Lock::acquire(&path).unwrap();
}

#[test]
fn a_killed_holder_frees_the_lock() {
    let (_root, path) = workload();
    let mut child = child(&path);
    let holder = Lock::holder(&path).unwrap().unwrap().process.unwrap();
    assert_eq!(holder.pid, child.id());
    assert_eq!(Lock::acquire(&path).unwrap_err().kind(), ErrorKind::NameTaken);
    assert!(holder.kill().unwrap());
    child.wait().unwrap();
    assert_eq!(Lock::holder(&path).unwrap(), None);
    let _lock = Lock::acquire(&path).unwrap();
    assert_eq!(Lock::holder(&path).unwrap().unwrap().process, Some(ProcessId::current()));
}

#[test]
fn a_holder_that_is_not_on_record_yet_is_not_mistaken_for_the_one_before() {
    let (_root, path) = workload();
    let dead = ProcessId { pid: std::process::id(), start_time: Some(1) };
    std::fs::write(&path, serde_json::to_vec(&dead).unwrap()).unwrap();
    let file = file::open(&path).unwrap();
    file.try_lock().unwrap();
    assert_eq!(Lock::holder(&path).unwrap(), Some(Holder { process: None }));
    let error = Lock::acquire(&path).unwrap_err();
    assert_eq!(error.message(), "`time` is being started or is running");
}

#[test]
fn probing_a_lock_does_not_block_acquire() {
    let (_root, path) = workload();
    drop(Lock::acquire(&path).unwrap());
    thread::scope(|scope| {
        let taker = scope.spawn(|| {
            for _ in 0..300 {
                drop(Lock::acquire(&path).unwrap());
            }
        });
        while !taker.is_finished() {
            Lock::holder(&path).unwrap();
        }
    });
}

#[test]
fn of_many_threads_one_gets_the_lock() {
    let (_root, path) = workload();
    let start = std::sync::Barrier::new(8);
    let locks: Vec<Result<Lock>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    Lock::acquire(&path)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(locks.iter().filter(|lock| lock.is_ok()).count(), 1);
}

#[test]
fn a_removed_workload_cannot_be_locked() {
    let (root, path) = workload();
    std::fs::remove_dir(root.path().join("time")).unwrap();
    assert_eq!(Lock::holder(&path).unwrap(), None);
    let error = Lock::acquire(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.message(), "no workload is named `time`");
}
