//! System calls of 64-bit ARM.

use core::arch::{asm, global_asm};

// The kernel leaves the count of arguments on the stack, which is aligned.
global_asm!(
    ".globl _start",
    "_start:",
    "mov x29, xzr",
    "mov x30, xzr",
    "mov x0, sp",
    "bl {entry}",
    "brk #1",
    entry = sym crate::entry,
);

pub(super) mod number {
    pub(crate) const EPOLL_CREATE1: usize = 20;
    pub(crate) const EPOLL_CTL: usize = 21;
    pub(crate) const EPOLL_PWAIT: usize = 22;
    pub(crate) const IOCTL: usize = 29;
    pub(crate) const CLOSE: usize = 57;
    pub(crate) const READ: usize = 63;
    pub(crate) const WRITE: usize = 64;
    pub(crate) const SIGNALFD4: usize = 74;
    pub(crate) const EXIT_GROUP: usize = 94;
    pub(crate) const KILL: usize = 129;
    pub(crate) const RT_SIGPROCMASK: usize = 135;
    pub(crate) const PRCTL: usize = 167;
    pub(crate) const SOCKET: usize = 198;
    pub(crate) const BIND: usize = 200;
    pub(crate) const LISTEN: usize = 201;
    pub(crate) const CONNECT: usize = 203;
    pub(crate) const GETSOCKNAME: usize = 204;
    pub(crate) const SENDTO: usize = 206;
    pub(crate) const RECVFROM: usize = 207;
    pub(crate) const SETSOCKOPT: usize = 208;
    pub(crate) const GETSOCKOPT: usize = 209;
    pub(crate) const SOCKETPAIR: usize = 199;
    pub(crate) const GETPEERNAME: usize = 205;
    pub(crate) const SENDMSG: usize = 211;
    pub(crate) const RECVMSG: usize = 212;
    pub(crate) const SHUTDOWN: usize = 210;
    pub(crate) const CLONE: usize = 220;
    pub(crate) const EXECVE: usize = 221;
    pub(crate) const MMAP: usize = 222;
    pub(crate) const ACCEPT4: usize = 242;
    pub(crate) const WAIT4: usize = 260;
    pub(crate) const OPENAT: usize = 56;
    pub(crate) const PREAD64: usize = 67;
    pub(crate) const PWRITE64: usize = 68;
    pub(crate) const GETXATTR: usize = 8;
    pub(crate) const PPOLL: usize = 73;
    pub(crate) const CLOCK_GETTIME: usize = 113;
    pub(crate) const SECCOMP: usize = 277;
}

/// What the kernel calls this processor in a filter of system calls.
pub(super) const AUDIT_ARCH: u32 = 0xc000_00b7;

/// Makes a system call.
///
/// # Safety
/// The arguments must be what that call expects; memory it is pointed to must be valid for it.
pub(super) unsafe fn syscall(number: usize, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the instruction changes this register and the memory that the arguments name, which the caller
    // answers for.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") args[0] as isize => result,
            in("x1") args[1], in("x2") args[2], in("x3") args[3], in("x4") args[4], in("x5") args[5],
            options(nostack),
        );
    }
    result
}
