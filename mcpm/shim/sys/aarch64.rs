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
    pub(crate) const CLONE3: usize = 435;
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
    pub(crate) const DUP3: usize = 24;
    pub(crate) const FCNTL: usize = 25;
    pub(crate) const CHDIR: usize = 49;
    pub(crate) const FCHDIR: usize = 50;
    pub(crate) const MKDIRAT: usize = 34;
    pub(crate) const UNLINKAT: usize = 35;
    pub(crate) const SYMLINKAT: usize = 36;
    pub(crate) const FCHMOD: usize = 52;
    pub(crate) const UMASK: usize = 166;
    pub(crate) const SETSID: usize = 157;
    pub(crate) const RT_SIGACTION: usize = 134;
    pub(crate) const SETRESUID: usize = 147;
    pub(crate) const SETRESGID: usize = 149;
    pub(crate) const SETGROUPS: usize = 159;
    pub(crate) const CAPSET: usize = 91;
    pub(crate) const PIVOT_ROOT: usize = 41;
    pub(crate) const MOUNT: usize = 40;
    pub(crate) const UMOUNT2: usize = 39;
    pub(crate) const SETHOSTNAME: usize = 161;
    pub(crate) const UNSHARE: usize = 97;
    pub(crate) const SETITIMER: usize = 103;
    pub(crate) const PRLIMIT64: usize = 261;
    pub(crate) const STATX: usize = 291;
    pub(crate) const OPEN_TREE: usize = 428;
    pub(crate) const MOVE_MOUNT: usize = 429;
    pub(crate) const FSOPEN: usize = 430;
    pub(crate) const FSCONFIG: usize = 431;
    pub(crate) const FSMOUNT: usize = 432;
    pub(crate) const CLOSE_RANGE: usize = 436;
    pub(crate) const OPENAT2: usize = 437;
    pub(crate) const MOUNT_SETATTR: usize = 442;
    pub(crate) const LANDLOCK_CREATE_RULESET: usize = 444;
    pub(crate) const LANDLOCK_ADD_RULE: usize = 445;
    pub(crate) const LANDLOCK_RESTRICT_SELF: usize = 446;
}

/// Flags of open files whose values depend on the processor: the file is a folder; symbolic links are not followed.
pub(super) const FOLDER: u64 = 0x4000;
pub(super) const NO_FOLLOW: u64 = 0x8000;

/// What the kernel calls this processor in a filter of system calls.
pub(super) const AUDIT_ARCH: u32 = 0xc000_00b7;

/// Makes a system call.
///
/// # Safety
/// The arguments must be those that the call expects; memory that they point to must be valid for the call.
pub(super) unsafe fn syscall(number: usize, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the instruction changes this register and the memory that the arguments point to, which the caller
    // guarantees to be valid.
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
