//! Tests with root folders and volumes whose links lead elsewhere: no mount and no created file may be outside of the
//! root folder.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use super::{sandbox_tests::*, *};
use crate::testing::with_timeout;

/// Returns each file below a folder with its content or what it links to.
fn snapshot(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display().to_string();
        if path.is_dir() && !path.is_symlink() {
            found.extend(snapshot(&path));
            found.insert(name, "a folder".to_owned());
        } else {
            found.insert(name, fs::read_to_string(&path).unwrap_or_default());
        }
    }
    found
}

/// Prepares a root folder with links to the folder `machine` beside it.
fn hostile_root(bed: &TestBed) {
    let (root, machine) = (bed.path("root"), bed.path("machine"));
    fs::create_dir_all(machine.join("etc")).unwrap();
    fs::write(machine.join("etc/passwd"), "of the machine").unwrap();
    fs::write(machine.join("secret"), "of the machine").unwrap();
    symlink(&machine, root.join("absolute")).unwrap();
    symlink("../machine", root.join("relative")).unwrap();
    symlink("../../../../../../../../../../../../etc", root.join("above")).unwrap();
    symlink(machine.join("etc"), root.join("etc")).unwrap();
    symlink(machine.join("secret"), root.join("file")).unwrap();
    symlink(machine.join("new"), root.join("dangling")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    symlink("/proc/1/root/tmp", root.join("first")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    fs::create_dir(root.join("real")).unwrap();
    symlink("..", root.join("real/up")).unwrap();
    symlink("../../machine", root.join("real/out")).unwrap();
}

fn operations(path: &str) -> Vec<MountOperation> {
    let path = || path.to_owned();
    vec![
        memory(&path(), 0o755),
        bind("/usr", &path(), true),
        bind("/dev/null", &path(), true),
        MountOperation::Proc { target: path() },
        MountOperation::DevPts { target: path() },
        MountOperation::Folder { path: path(), mode: 0o755 },
        MountOperation::Symlink { path: path(), to: "/a".to_owned() },
        MountOperation::File { path: path(), content: b"of the sandbox".to_vec(), mode: 0o644 },
        MountOperation::ReadOnly { target: path() },
        MountOperation::Mask { path: path() },
    ]
}

#[tokio::test]
async fn no_link_leads_a_mount_or_a_file_out_of_the_root() {
    let paths = [
        "/absolute",
        "/absolute/etc",
        "/absolute/etc/passwd",
        "/absolute/created/here",
        "/relative/etc/passwd",
        "/above/mcpm-test",
        "/etc",
        "/etc/passwd",
        "/etc/hosts",
        "/file",
        "/dangling",
        "/dangling/below",
        "/magic/tmp/mcpm-test",
        "/first/mcpm-test",
        "/loop",
        "/loop/below",
        "/real/up/up/../../machine/secret",
        "/real/up/../../machine/new",
        "/real/out/secret",
        "/../machine/secret",
        "/../../../../../../../../etc/mcpm-test",
        "/missing/../../machine/secret",
        "/real/../..",
    ];
    for path in paths {
        for operation in operations(path) {
            let bed = TestBed::new();
            hostile_root(&bed);
            let before = snapshot(&bed.path("machine"));
            let mut plan = bed.plan(&["true"]);
            plan.mounts = vec![operation.clone()];
            plan.working_dir = "/".to_owned();
            // Whether it succeeds, or ends before its program starts, which is missing.
            let _ = bed.spawn(&plan).await.map(drop);
            assert_eq!(snapshot(&bed.path("machine")), before, "{operation:?}");
            assert!(
                !Path::new("/etc/mcpm-test").exists() && !Path::new("/tmp/mcpm-test").exists(),
                "{operation:?}"
            );
        }
    }
    run_as_ordinary_user("hostile_root_tests::no_link_leads_a_mount_or_a_file_out_of_the_root");
}

/// Exchanges a folder of a volume and a link, without end.
const SWAPPER: &str = "
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
count = 0
while True:
    if libc.renameat2(-100, b'/volume/spot', -100, b'/volume/link', 2) != 0:
        raise OSError(ctypes.get_errno(), 'cannot exchange')
    count += 1
    if count == 100:
        print('swapping', flush=True)
";
/// Reads and writes below the folder or the link.
const READER: &str = "for i in 1 2 3 4 5 6 7 8 9 10; do cat /volume/spot/secret /volume/spot/etc/passwd; \
                      echo x > /volume/spot/new-of-server; done 2> /dev/null; true";

#[tokio::test]
async fn a_race_of_links_in_a_volume_leads_no_mount_and_no_server_out_of_the_root() {
    let bed = TestBed::new();
    let (machine, volume) = (bed.path("machine"), bed.path("volume"));
    for (folder, owner) in [(machine.clone(), "of the machine"), (volume.join("spot"), "of the volume")] {
        fs::create_dir_all(folder.join("etc")).unwrap();
        fs::write(folder.join("etc/passwd"), owner).unwrap();
        fs::write(folder.join("secret"), owner).unwrap();
    }
    symlink(format!("../../../../../../../..{}", machine.display()), volume.join("link")).unwrap();
    let before = snapshot(&machine);
    let plan_of = |bed: &TestBed, command: &[&str]| {
        let mut plan = bed.plan(command);
        plan.mounts.insert(1, bind(volume.clone(), "/volume", false));
        plan.writable.push("/volume".to_owned());
        plan
    };
    // Another server has the same volume.
    let other = TestBed::new();
    let mut swapper = other.spawn(&plan_of(&other, &["python3", "-c", SWAPPER])).await.unwrap();
    let mut lines = BufReader::new(swapper.stdout.take().unwrap()).lines();
    assert_eq!(with_timeout(lines.next_line()).await.unwrap().as_deref(), Some("swapping"));
    let paths = ["/volume/spot/secret", "/volume/spot/etc/passwd", "/volume/spot/new/folder"];
    let mut started = 0;
    for path in [paths; 3].concat() {
        for operation in operations(path) {
            let mut plan = plan_of(&bed, &["sh", "-c", READER]);
            // After the volume.
            plan.mounts.insert(2, operation.clone());
            let mut said = String::new();
            // A step that meets the link may fail.
            if let Ok(mut process) = with_timeout(bed.spawn(&plan)).await {
                with_timeout(process.stdout.take().unwrap().read_to_string(&mut said)).await.unwrap();
                with_timeout(process.wait()).await.unwrap();
                started += 1;
            }
            assert!(!said.contains("of the machine"), "{operation:?}: {said}");
            assert_eq!(snapshot(&machine), before, "{operation:?}");
        }
    }
    assert!(started > 0, "no server has raced with the other one");
    // It would have reported a failed exchange.
    swapper.kill();
    let mut problem = String::new();
    with_timeout(swapper.stderr.take().unwrap().read_to_string(&mut problem)).await.unwrap();
    assert_eq!(problem, "");
    run_as_ordinary_user(
        "hostile_root_tests::a_race_of_links_in_a_volume_leads_no_mount_and_no_server_out_of_the_root",
    );
}

#[tokio::test]
async fn links_are_followed_within_the_root() {
    let bed = TestBed::new();
    let root = bed.path("root");
    fs::create_dir_all(root.join("run/lock")).unwrap();
    fs::create_dir(root.join("etc")).unwrap();
    symlink("/run", root.join("var")).unwrap();
    symlink("../run/missing/resolv.conf", root.join("etc/resolv.conf")).unwrap();
    let mut plan = bed.plan(&[
        "sh",
        "-c",
        "cat /run/lock/a /etc/resolv.conf; test -h /var && stat -c %F /etc/resolv.conf",
    ]);
    let file = |path: &str, content: &str| MountOperation::File {
        path: path.to_owned(),
        content: content.into(),
        mode: 0o600,
    };
    plan.mounts = programs_of_this_machine().collect();
    plan.mounts.extend([file("/var/lock/a", "one\n"), file("/etc/resolv.conf", "two\n")]);
    plan.mounts.extend(standard_mounts());
    plan.working_dir = "/".to_owned();
    assert_eq!(bed.run(&plan).await.output(), "one\ntwo\nregular file\n");
    run_as_ordinary_user("hostile_root_tests::links_are_followed_within_the_root");
}

#[tokio::test]
async fn process_files_are_not_mounted_over_a_link() {
    let bed = TestBed::new();
    fs::create_dir(bed.path("root/other")).unwrap();
    symlink("other", bed.path("root/proc")).unwrap();
    let mut plan = bed.plan(&["true"]);
    plan.mounts = vec![MountOperation::Proc { target: "/proc".to_owned() }];
    let error = bed.start_error(&plan).await.to_string();
    assert!(error.starts_with("cannot mount `/proc`: Too many levels of symbolic links"), "{error}");
    run_as_ordinary_user("hostile_root_tests::process_files_are_not_mounted_over_a_link");
}

#[tokio::test]
async fn the_root_is_the_top_of_every_path() {
    let bed = TestBed::new();
    let script = "ls -d /../../.. /tmp/../../..; cd /; cd ../..; pwd; ls / | tr '\\n' ' '; \
                  cat /proc/self/mountinfo | grep -c -v -E ' (/usr|/bin|/lib|/lib64|/proc|/dev|/tmp|/)'";
    let output = bed.run(&bed.plan(&["sh", "-c", script])).await;
    assert_eq!(
        output.stdout, "/../../..\n/tmp/../../..\n/\nbin dev lib lib64 proc tmp usr 0\n",
        "{output:?}"
    );
    run_as_ordinary_user("hostile_root_tests::the_root_is_the_top_of_every_path");
}
