//! Tests of the plan's format, with the shim's own parser.
//!
//! mcpm sends the plan to the shim. The property tests at the end stand in for a fuzz target: cargo-fuzz needs a
//! nightly compiler, which the tests do not install, and the parser belongs to the shim, a program without the standard
//! library, so only tests include it in the library.

use std::path::PathBuf;

use proptest::prelude::*;

use super::{encode::encode, *};
use crate::isolation::shim_records as records;

#[path = "../../../../shim/plan.rs"]
mod shim_plan;

use shim_plan::{MountOperation as ShimOperation, Plan};

fn plan() -> SandboxPlan {
    SandboxPlan {
        ids: IdMap::single(0, 1000, 0, 100),
        network: SandboxNetwork::Private,
        hostname: "box".to_owned(),
        root: "/var/lib/root/".into(),
        mounts: Vec::new(),
        user: 0,
        group: 5,
        groups: vec![7, 8],
        working_dir: "/".to_owned(),
        command: SandboxCommand::Program { args: vec!["server".to_owned(), String::new()] },
        env: [("A".to_owned(), "1=2".to_owned())].into(),
        limits: SandboxLimits {
            processes: Some(64),
            open_files: None,
            file_bytes: Some(1 << 40),
            cgroup: Some("/sys/fs/cgroup/a".into()),
            separate_cgroups: vec!["/sys/fs/cgroup/pids/a".into()],
            memory_events: Some("/sys/fs/cgroup/a/memory.events".into()),
        },
        writable: vec!["/tmp".to_owned()],
        program_folder: "/var/lib/mcpm".into(),
    }
}

#[test]
fn a_plan_round_trips_through_the_shim() {
    let bytes = encode(&plan()).unwrap();
    let parsed = Plan::parse(&bytes).unwrap();
    let filters = syscall_filter::programs().unwrap();
    assert_eq!(
        parsed,
        Plan {
            uid_map: b"0 1000 1".to_vec(),
            gid_map: b"0 100 1".to_vec(),
            uid_mapper: Vec::new(),
            gid_mapper: Vec::new(),
            shares_network: false,
            host_name: b"box".to_vec(),
            root: b"/var/lib/root\0".to_vec(),
            mounts: Vec::new(),
            user: 0,
            group: 5,
            groups: vec![7, 8],
            working_dir: b"/\0".to_vec(),
            slot: None,
            args: vec![b"server\0".to_vec(), b"\0".to_vec()],
            env: vec![b"A=1=2\0".to_vec()],
            limits: vec![(4, 0), (6, 64), (1, 1 << 40)],
            cgroup: Some(b"/sys/fs/cgroup/a\0".to_vec()),
            cgroup_tasks: vec![b"/sys/fs/cgroup/pids/a/tasks\0".to_vec()],
            memory_events: Some(b"/sys/fs/cgroup/a/memory.events\0".to_vec()),
            writable: vec![b"/tmp\0".to_vec(), b"/dev\0".to_vec(), b"/proc\0".to_vec()],
            filters: filters.to_vec(),
        }
    );
    // The filters make up most of the plan.
    for cut in (0..bytes.len()).rev().step_by(7) {
        assert_eq!(Plan::parse(&bytes[..cut]), None, "cut at {cut}");
    }
    let mut with_ranges = plan();
    let ranges = vec![(0, 1000, 1), (1, 100_000, 65535)];
    with_ranges.ids.privileged_groups = Some(PrivilegedMap { program: "/usr/bin/newgidmap".into(), ranges });
    let parsed = Plan::parse(&encode(&with_ranges).unwrap()).unwrap();
    let words = ["/usr/bin/newgidmap", "0", "1000", "1", "1", "100000", "65535"];
    assert_eq!(parsed.gid_mapper, words.map(|word| format!("{word}\0").into_bytes()));
    assert_eq!(parsed.uid_mapper, [b""; 0]);
    let isolated = SandboxPlan {
        command: SandboxCommand::Isolated { slot: "3".to_owned() },
        network: SandboxNetwork::Host,
        ..plan()
    };
    let parsed = Plan::parse(&encode(&isolated).unwrap()).unwrap();
    assert_eq!(
        (parsed.slot.as_deref(), parsed.args.len(), parsed.shares_network),
        (Some(&b"3"[..]), 0, true)
    );
}

#[test]
fn each_mount_operation_round_trips_through_the_shim() {
    let text = |text: &str| [text.as_bytes(), b"\0"].concat();
    let overlay = |writable: Option<(PathBuf, PathBuf)>| MountOperation::Overlay {
        target: "/".to_owned(),
        lower: vec!["/l/2".into(), "/l/1".into()],
        writable,
    };
    for (operation, expected) in [
        (
            MountOperation::Tmpfs(TmpfsMount {
                target: "/tmp/".to_owned(),
                size: 1 << 30,
                mode: 0o1777,
                no_exec: true,
            }),
            ShimOperation::Tmpfs {
                target: text("/tmp"),
                attributes: 8,
                options: ["size", "1073741824", "nr_inodes", "262144", "mode", "1777"].map(text).to_vec(),
            },
        ),
        (
            MountOperation::Bind(BindMount {
                source: "/home/a".into(),
                target: "/work".to_owned(),
                read_only: true,
                no_exec: true,
                devices: false,
            }),
            ShimOperation::Bind { target: text("/work"), attributes: 1 | 4 | 8, source: text("/home/a") },
        ),
        (
            MountOperation::Bind(BindMount {
                source: "/dev/null".into(),
                target: "/dev/null".to_owned(),
                devices: true,
                ..BindMount::default()
            }),
            ShimOperation::Bind { target: text("/dev/null"), attributes: 0, source: text("/dev/null") },
        ),
        (
            overlay(None),
            ShimOperation::Overlay {
                target: text("/"),
                lower: vec![text("/l/2"), text("/l/1")],
                upper: Vec::new(),
            },
        ),
        (
            overlay(Some(("/u".into(), "/w".into()))),
            ShimOperation::Overlay {
                target: text("/"),
                lower: vec![text("/l/2"), text("/l/1")],
                upper: vec![text("/u"), text("/w")],
            },
        ),
        (
            MountOperation::File { path: "/f".to_owned(), content: b"a\0b".to_vec(), mode: 0o644 },
            ShimOperation::File { path: text("/f"), mode: 0o644, content: b"a\0b".to_vec() },
        ),
        (
            MountOperation::Symlink { path: "/l".to_owned(), to: "../x".to_owned() },
            ShimOperation::Symlink { path: text("/l"), to: text("../x") },
        ),
        (
            MountOperation::Folder { path: "/d".to_owned(), mode: 0o700 },
            ShimOperation::Folder { path: text("/d"), mode: 0o700 },
        ),
        (MountOperation::Proc { target: "/proc".to_owned() }, ShimOperation::Proc { target: text("/proc") }),
        (
            MountOperation::DevPts { target: "/dev/pts".to_owned() },
            ShimOperation::DevPts { target: text("/dev/pts") },
        ),
        (MountOperation::ReadOnly { target: "/".to_owned() }, ShimOperation::ReadOnly { target: text("/") }),
        (MountOperation::Mask { path: "/m".to_owned() }, ShimOperation::Mask { path: text("/m") }),
    ] {
        let parsed =
            Plan::parse(&encode(&SandboxPlan { mounts: vec![operation], ..plan() }).unwrap()).unwrap();
        assert_eq!(parsed.mounts, [expected]);
    }
}

#[test]
fn texts_that_no_program_can_have_are_refused() {
    for invalid in [
        SandboxPlan { working_dir: "tmp".to_owned(), ..plan() },
        SandboxPlan { working_dir: String::new(), ..plan() },
        SandboxPlan { root: "root".into(), ..plan() },
        SandboxPlan { hostname: "a\0b".to_owned(), ..plan() },
        SandboxPlan { command: SandboxCommand::Program { args: Vec::new() }, ..plan() },
        SandboxPlan { env: [("A".to_owned(), "\0".to_owned())].into(), ..plan() },
        SandboxPlan { mounts: vec![MountOperation::Mask { path: "m".to_owned() }], ..plan() },
        SandboxPlan { writable: vec!["/a\0".to_owned()], ..plan() },
    ] {
        assert_eq!(encode(&invalid).unwrap_err().kind(), crate::ErrorKind::InvalidOption, "{invalid:?}");
    }
}

/// How many plans are tried: more in a nightly run.
fn cases() -> ProptestConfig {
    let more = if std::env::var_os("MCPM_NIGHTLY").is_some() { 100 } else { 1 };
    ProptestConfig { cases: 256 * more, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_damaged_plan_is_read_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        length in any::<prop::sample::Index>(),
    ) {
        let source = Some(("/u".into(), "/w".into()));
        let overlay = MountOperation::Overlay { target: "/".to_owned(), lower: vec!["/l".into()], writable: source };
        let mut bytes = encode(&SandboxPlan { mounts: vec![overlay], ..plan() }).unwrap();
        // The filters, which make up most of the plan, have no structure that could be damaged.
        let end = bytes.iter().rposition(|byte| *byte == b'w').unwrap_or(bytes.len()).min(600);
        for (at, value) in changes {
            bytes[at.index(end)] = value;
        }
        let _ = Plan::parse(&bytes);
        bytes.truncate(length.index(bytes.len()));
        prop_assert_eq!(Plan::parse(&bytes), None);
    }

    #[test]
    fn any_plan_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Plan::parse(&bytes);
    }

    #[test]
    fn any_mount_operation_is_read_or_refused(
        letter in prop::sample::select(b"tboptydelfrx".to_vec()),
        rest in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let length = u32::try_from(rest.len() + 1).unwrap().to_le_bytes();
        let _ = Plan::parse(&[&b"m"[..], &length, &[letter], &rest].concat());
    }
}
