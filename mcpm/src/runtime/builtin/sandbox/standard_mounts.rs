//! The mounts of `/proc` and `/dev`, which every container and every build has.

use super::{BindMount, MountOperation, TmpfsMount};

/// Devices through which a server learns nothing about the machine, and cannot change it.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Process files about the machine instead of the sandbox, as Docker hides them.
const HIDDEN: [&str; 10] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
];
/// Settings of the machine, which root could change in files that it owns.
const READ_ONLY: [&str; 6] =
    ["/proc/bus", "/proc/dynamic_debug", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];
/// Bytes of `/dev`, which only contains links and places of mounts.
const DEVICES_BYTES: u64 = 64 * 1024;
/// Bytes of shared memory, as in containers of engines.
const SHARED_MEMORY_BYTES: u64 = 64 * 1024 * 1024;

/// Returns the mounts of `/proc` and `/dev`, which belong after the root file system.
pub(crate) fn standard_mounts() -> Vec<MountOperation> {
    let path = |name: &str| format!("/dev/{name}");
    let link = |name: &str, to: &str| MountOperation::Symlink { path: path(name), to: to.to_owned() };
    let read_only = |target: &str| MountOperation::ReadOnly { target: target.to_owned() };
    let memory = |target: &str, size, mode| {
        MountOperation::Tmpfs(TmpfsMount { target: target.to_owned(), size, mode, no_exec: true })
    };
    let device = |name: &str| {
        MountOperation::Bind(BindMount {
            source: path(name).into(),
            target: path(name),
            no_exec: true,
            devices: true,
            ..BindMount::default()
        })
    };
    let mut mounts = vec![MountOperation::Proc { target: "/proc".to_owned() }];
    mounts.extend(READ_ONLY.map(read_only));
    mounts.extend(HIDDEN.map(|path| MountOperation::Mask { path: path.to_owned() }));
    mounts.push(memory("/dev", DEVICES_BYTES, 0o755));
    mounts.extend(DEVICES.map(device));
    mounts.extend([
        link("fd", "/proc/self/fd"),
        link("stdin", "/proc/self/fd/0"),
        link("stdout", "/proc/self/fd/1"),
        link("stderr", "/proc/self/fd/2"),
        MountOperation::DevPts { target: path("pts") },
        link("ptmx", "pts/ptmx"),
        memory("/dev/shm", SHARED_MEMORY_BYTES, 0o1777),
        read_only("/dev"),
    ]);
    mounts
}
