//! System calls of x86-64.

use core::arch::{asm, global_asm};

// The kernel leaves the number of arguments on the stack; the code makes no assumption about its alignment.
global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {entry}",
    "ud2",
    entry = sym crate::entry,
);

pub(super) mod number {
    pub(crate) const READ: usize = 0;
    pub(crate) const WRITE: usize = 1;
    pub(crate) const CLOSE: usize = 3;
    pub(crate) const MMAP: usize = 9;
    pub(crate) const RT_SIGPROCMASK: usize = 14;
    pub(crate) const IOCTL: usize = 16;
    pub(crate) const SETITIMER: usize = 38;
    pub(crate) const SOCKET: usize = 41;
    pub(crate) const CONNECT: usize = 42;
    pub(crate) const SENDTO: usize = 44;
    pub(crate) const RECVFROM: usize = 45;
    pub(crate) const SOCKETPAIR: usize = 53;
    pub(crate) const GETPEERNAME: usize = 52;
    pub(crate) const SENDMSG: usize = 46;
    pub(crate) const RECVMSG: usize = 47;
    pub(crate) const SHUTDOWN: usize = 48;
    pub(crate) const BIND: usize = 49;
    pub(crate) const LISTEN: usize = 50;
    pub(crate) const GETSOCKNAME: usize = 51;
    pub(crate) const SETSOCKOPT: usize = 54;
    pub(crate) const GETSOCKOPT: usize = 55;
    pub(crate) const CLONE: usize = 56;
    pub(crate) const CLONE3: usize = 435;
    pub(crate) const EXECVE: usize = 59;
    pub(crate) const WAIT4: usize = 61;
    pub(crate) const KILL: usize = 62;
    pub(crate) const PRCTL: usize = 157;
    pub(crate) const EXIT_GROUP: usize = 231;
    pub(crate) const EPOLL_CTL: usize = 233;
    pub(crate) const EPOLL_PWAIT: usize = 281;
    pub(crate) const ACCEPT4: usize = 288;
    pub(crate) const SIGNALFD4: usize = 289;
    pub(crate) const EPOLL_CREATE1: usize = 291;
    pub(crate) const OPENAT: usize = 257;
    pub(crate) const PREAD64: usize = 17;
    pub(crate) const PWRITE64: usize = 18;
    pub(crate) const GETXATTR: usize = 191;
    pub(crate) const PPOLL: usize = 271;
    pub(crate) const CLOCK_GETTIME: usize = 228;
    pub(crate) const SECCOMP: usize = 317;
    pub(crate) const DUP3: usize = 292;
    pub(crate) const FCNTL: usize = 72;
    pub(crate) const CHDIR: usize = 80;
    pub(crate) const FCHDIR: usize = 81;
    pub(crate) const MKDIRAT: usize = 258;
    pub(crate) const UNLINKAT: usize = 263;
    pub(crate) const SYMLINKAT: usize = 266;
    pub(crate) const FCHMOD: usize = 91;
    pub(crate) const UMASK: usize = 95;
    pub(crate) const SETSID: usize = 112;
    pub(crate) const RT_SIGACTION: usize = 13;
    pub(crate) const SETRESUID: usize = 117;
    pub(crate) const SETRESGID: usize = 119;
    pub(crate) const SETGROUPS: usize = 116;
    pub(crate) const CAPSET: usize = 126;
    pub(crate) const PIVOT_ROOT: usize = 155;
    pub(crate) const MOUNT: usize = 165;
    pub(crate) const UMOUNT2: usize = 166;
    pub(crate) const SETHOSTNAME: usize = 170;
    pub(crate) const UNSHARE: usize = 272;
    pub(crate) const PRLIMIT64: usize = 302;
    pub(crate) const STATX: usize = 332;
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
pub(super) const FOLDER: u64 = 0x10000;
pub(super) const NO_FOLLOW: u64 = 0x20000;

/// What the kernel calls this processor in a filter of system calls.
pub(super) const AUDIT_ARCH: u32 = 0xc000_003e;

/// Makes a system call.
///
/// # Safety
/// The arguments must be those that the call expects; memory that they point to must be valid for the call.
pub(super) unsafe fn syscall(number: usize, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the instruction changes these registers and the memory that the arguments point to, which the caller
    // guarantees to be valid.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}
