//! New namespaces, and the host name, session, loopback interface and signals of this process.

use super::{Fd, Result, SIGCHLD, call, exit, number};

const NEW_MOUNTS: usize = 0x2_0000;
const NEW_CGROUPS: usize = 0x200_0000;
const NEW_HOST_NAME: usize = 0x400_0000;
const NEW_IPC: usize = 0x800_0000;
const NEW_USERS: usize = 0x1000_0000;
const NEW_PROCESSES: usize = 0x2000_0000;
const NEW_NETWORK: usize = 0x4000_0000;
const INTO_CGROUP: usize = 0x2_0000_0000;

/// Forks a process that runs `work` in namespaces of its own, except for the control group namespace, and in the
/// control group of version 2 with this folder; returns the id of that process. `work` returns its exit code.
pub(crate) fn fork_into_namespaces(
    with_network: bool,
    cgroup: Option<&Fd>,
    work: impl FnOnce() -> i32,
) -> Result<i32> {
    let network = if with_network { NEW_NETWORK } else { 0 };
    let flags = NEW_USERS | NEW_MOUNTS | NEW_PROCESSES | NEW_IPC | NEW_HOST_NAME | network;
    let process = match cgroup {
        // SAFETY: the call passes no stack and shares no memory, so the child continues with a copy of this process.
        None => unsafe { call(number::CLONE, [flags | SIGCHLD as usize, 0, 0, 0, 0, 0]) },
        Some(cgroup) => {
            // `struct clone_args`: the stack, the thread-local storage and the process ids are left out.
            let args = [flags | INTO_CGROUP, 0, 0, 0, SIGCHLD as usize, 0, 0, 0, 0, 0, cgroup.arg()];
            // SAFETY: as above; the kernel reads a structure of that size there.
            unsafe { call(number::CLONE3, [args.as_ptr() as usize, size_of_val(&args), 0, 0, 0, 0]) }
        }
    };
    match process? {
        0 => exit(work()),
        process => Ok(process as i32),
    }
}

/// Makes the current control groups the roots of the hierarchies that this process sees.
pub(crate) fn unshare_cgroups() -> Result<()> {
    // SAFETY: the call takes no pointer.
    unsafe { call(number::UNSHARE, [NEW_CGROUPS, 0, 0, 0, 0, 0]) }.map(drop)
}

/// Sets the host name.
pub(crate) fn set_host_name(name: &[u8]) -> Result<()> {
    // SAFETY: the kernel reads that many bytes there.
    unsafe { call(number::SETHOSTNAME, [name.as_ptr() as usize, name.len(), 0, 0, 0, 0]) }.map(drop)
}

/// Starts a new session, without a terminal. It fails for a process that leads one already.
pub(crate) fn start_session() -> Result<()> {
    // SAFETY: the call takes no pointer.
    unsafe { call(number::SETSID, [0; 6]) }.map(drop)
}

/// Starts the loopback interface of this network namespace.
pub(crate) fn start_loopback() -> Result<()> {
    const IPV4: usize = 2;
    const DATAGRAM_CLOEXEC: usize = 2 | 0x8_0000;
    const SET_FLAGS: usize = 0x8914;
    const UP_AND_RUNNING: u16 = 0x1 | 0x40;
    #[repr(C)]
    struct InterfaceRequest {
        name: [u8; 16],
        flags: u16,
        rest: [u8; 22],
    }
    let mut request = InterfaceRequest { name: [0; 16], flags: UP_AND_RUNNING, rest: [0; 22] };
    request.name[..2].copy_from_slice(b"lo");
    // SAFETY: the call takes no pointer.
    let socket = unsafe { call(number::SOCKET, [IPV4, DATAGRAM_CLOEXEC, 0, 0, 0, 0]) }.map(super::opened)?;
    // SAFETY: the kernel reads a structure of that size there.
    unsafe { call(number::IOCTL, [socket.arg(), SET_FLAGS, &raw const request as usize, 0, 0, 0]) }.map(drop)
}

/// Sets all signals to their defaults, because a program inherits which signals are ignored.
pub(crate) fn reset_signals() {
    const LAST: usize = 64;
    const MASK_SIZE: usize = 8;
    // No handler, flags, restorer and mask.
    let default = [0_u64; 4];
    for signal in 1..=LAST {
        // SAFETY: the kernel reads a structure of that size there. It rejects the two signals that cannot be ignored.
        let _ =
            unsafe { call(number::RT_SIGACTION, [signal, &raw const default as usize, 0, MASK_SIZE, 0, 0]) };
    }
}
