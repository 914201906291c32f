//! System calls of the shim as safe functions. All unsafe code is here, in the submodules, and in the allocator.

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod arch;
mod credentials;
mod files;
mod landlock;
mod message;
mod mount;
mod namespace;
mod process;
mod seccomp;
mod socket;

pub(crate) use credentials::*;
pub(crate) use files::*;
pub(crate) use landlock::*;
pub(crate) use message::*;
pub(crate) use mount::*;
pub(crate) use namespace::*;
pub(crate) use process::*;
pub(crate) use seccomp::*;
pub(crate) use socket::*;

use alloc::vec::Vec;

use arch::{number, syscall};

/// An error of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    pub(crate) const NOT_PERMITTED: Self = Self(1);
    pub(crate) const NOT_FOUND: Self = Self(2);
    pub(crate) const NO_PROCESS: Self = Self(3);
    pub(crate) const INTERRUPTED: Self = Self(4);
    pub(crate) const AGAIN: Self = Self(11);
    pub(crate) const ACCESS: Self = Self(13);
    pub(crate) const BUSY: Self = Self(16);
    pub(crate) const EXISTS: Self = Self(17);
    pub(crate) const NOT_A_FOLDER: Self = Self(20);
    pub(crate) const INVALID: Self = Self(22);
    pub(crate) const NO_SYSTEM_CALL: Self = Self(38);
    pub(crate) const IN_PROGRESS: Self = Self(115);

    /// Returns the usual text of an error, for the errors that the setup of a sandbox can meet.
    pub(crate) fn text(self) -> &'static [u8] {
        match self.0 {
            1 => b"operation not permitted",
            2 => b"no such file or directory",
            3 => b"no such process",
            11 => b"resource temporarily unavailable",
            12 => b"out of memory",
            13 => b"permission denied",
            16 => b"device or resource busy",
            17 => b"file exists",
            19 => b"no such device",
            20 => b"not a directory",
            21 => b"is a directory",
            22 => b"invalid argument",
            28 => b"no space left on device",
            30 => b"read-only file system",
            38 => b"not supported by the kernel",
            40 => b"too many levels of symbolic links",
            87 => b"too many users",
            95 => b"operation not supported",
            _ => b"rejected by the kernel",
        }
    }
}

pub(crate) type Result<T> = core::result::Result<T, Errno>;

/// An open file, closed when it is dropped.
#[derive(Debug)]
pub(crate) struct Fd(pub(crate) i32);

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: the file was open, and its number is not used any more.
        unsafe { syscall(number::CLOSE, [self.arg(), 0, 0, 0, 0, 0]) };
    }
}

impl Fd {
    fn arg(&self) -> usize {
        self.0 as usize
    }
}

/// Makes a system call.
///
/// # Safety
/// As for [`syscall`].
unsafe fn call(number: usize, args: [usize; 6]) -> Result<usize> {
    // SAFETY: the caller answers for the arguments.
    let result = unsafe { syscall(number, args) };
    // The kernel returns an error as a small negative number.
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

fn opened(fd: usize) -> Fd {
    Fd(fd as i32)
}

/// Reads from any file.
pub(crate) fn read(fd: &Fd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes at most that many bytes there.
    unsafe { call(number::READ, [fd.arg(), buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) }
}

/// Writes to any file; a connection that is gone ends this process.
pub(crate) fn write(fd: &Fd, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the kernel reads that many bytes there.
    unsafe { call(number::WRITE, [fd.arg(), bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) }
}

/// Waits until a file can be written to.
pub(crate) fn wait_to_write(fd: &Fd) -> Result<()> {
    #[repr(C)]
    struct Watched {
        fd: i32,
        events: i16,
        happened: i16,
    }
    let mut watched = Watched { fd: fd.0, events: WRITABLE as i16, happened: 0 };
    // SAFETY: the kernel reads and writes one such structure there; without a timeout it waits for ever.
    unsafe { call(number::PPOLL, [&raw mut watched as usize, 1, 0, 0, 0, 0]) }.map(drop)
}

/// Writes to standard error; a failure cannot be reported.
pub(crate) fn print_error(parts: &[&[u8]]) {
    for part in [b"mcpm: " as &[u8]].iter().chain(parts).chain(&[b"\n" as &[u8]]) {
        // SAFETY: the kernel reads that many bytes there.
        unsafe { syscall(number::WRITE, [2, part.as_ptr() as usize, part.len(), 0, 0, 0]) };
    }
}

/// Appends a number in digits.
pub(crate) fn decimal(text: &mut Vec<u8>, number: u32) {
    if number >= 10 {
        decimal(text, number / 10);
    }
    text.push(b'0' + (number % 10) as u8);
}

/// Requests zeroed memory from the kernel; null if there is none.
pub(crate) fn map_memory(size: usize) -> *mut u8 {
    const READ_WRITE: usize = 3;
    const PRIVATE_ANONYMOUS: usize = 0x22;
    // SAFETY: no memory in use is named.
    let mapped = unsafe { call(number::MMAP, [0, size, READ_WRITE, PRIVATE_ANONYMOUS, usize::MAX, 0]) };
    mapped.map_or(core::ptr::null_mut(), |address| address as *mut u8)
}

/// Returns the milliseconds of the monotonic clock.
pub(crate) fn now() -> u64 {
    const MONOTONIC: usize = 1;
    let mut time = [0_i64; 2];
    // SAFETY: the kernel writes a time of two numbers there.
    let _ = unsafe { call(number::CLOCK_GETTIME, [MONOTONIC, &raw mut time as usize, 0, 0, 0, 0]) };
    let [seconds, nanos] = time;
    (seconds * 1000 + nanos / 1_000_000) as u64
}

/// Ends the process.
pub(crate) fn exit(code: i32) -> ! {
    loop {
        // SAFETY: the call takes no pointer, and does not return.
        unsafe { syscall(number::EXIT_GROUP, [code as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Events of an [`Epoll`].
pub(crate) const READABLE: u32 = 0x1;
pub(crate) const WRITABLE: u32 = 0x4;
const EDGE: u32 = 1 << 31;
const PEER_CLOSED: u32 = 0x2000;

/// One event. On x86-64 the kernel packs it.
#[cfg_attr(target_arch = "x86_64", repr(C, packed))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C))]
#[derive(Clone, Copy)]
pub(crate) struct Event {
    events: u32,
    token: u64,
}

impl Event {
    pub(crate) const NONE: Self = Self { events: 0, token: 0 };

    pub(crate) fn token(self) -> u64 {
        self.token
    }
}

/// Waits for events of many files.
pub(crate) struct Epoll(Fd);

impl Epoll {
    pub(crate) fn new() -> Result<Self> {
        const CLOEXEC: usize = 0x8_0000;
        // SAFETY: the call takes no pointer.
        unsafe { call(number::EPOLL_CREATE1, [CLOEXEC, 0, 0, 0, 0, 0]) }.map(opened).map(Self)
    }

    /// Watches a file for as long as it can be read (level-triggered).
    pub(crate) fn watch(&self, fd: &Fd, token: u64) -> Result<()> {
        self.control(1, fd, READABLE, token)
    }

    /// Watches a connection for changes (edge-triggered).
    pub(crate) fn watch_edge_triggered(&self, fd: &Fd, token: u64) -> Result<()> {
        self.control(1, fd, READABLE | WRITABLE | PEER_CLOSED | EDGE, token)
    }

    /// Reports the current state of a file again.
    pub(crate) fn rearm(&self, fd: &Fd, token: u64) -> Result<()> {
        self.control(3, fd, READABLE | WRITABLE | PEER_CLOSED | EDGE, token)
    }

    /// Stops watching a file.
    pub(crate) fn unwatch(&self, fd: &Fd) {
        let _ = self.control(2, fd, 0, 0);
    }

    fn control(&self, operation: usize, fd: &Fd, events: u32, token: u64) -> Result<()> {
        let event = Event { events, token };
        // SAFETY: the kernel reads one event there.
        unsafe {
            call(number::EPOLL_CTL, [self.0.arg(), operation, fd.arg(), &raw const event as usize, 0, 0])
        }
        .map(drop)
    }

    /// Waits for events and returns their number.
    pub(crate) fn wait(&self, events: &mut [Event]) -> Result<usize> {
        self.wait_for(events, None)
    }

    /// Waits for events for at most that many milliseconds.
    pub(crate) fn wait_for(&self, events: &mut [Event], limit: Option<u64>) -> Result<usize> {
        let limit = limit.map_or(usize::MAX, |limit| limit.min(60_000) as usize);
        // SAFETY: the kernel writes at most that many events there.
        unsafe {
            call(number::EPOLL_PWAIT, [self.0.arg(), events.as_mut_ptr() as usize, events.len(), limit, 0, 0])
        }
    }
}
