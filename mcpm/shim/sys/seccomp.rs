//! Redirects connections to addresses that stand for host names, and reports attempts to bypass the shim.
//!
//! A seccomp filter on the server's system calls notifies the shim before each `connect`, and before each `sendto` with
//! an address. The response is always to continue. Programs get public addresses for allowed names, to which the
//! container has no route; when a program connects to one of them, the shim replaces the address in the program's
//! memory with the loopback address on which the shim listens. Other connections out of the container fail anyway; they
//! are reported because their failure would otherwise be hard to explain.

use alloc::vec::Vec;
use core::cell::Cell;

use super::{
    Errno, Fd, Result,
    arch::AUDIT_ARCH,
    call, decimal,
    message::{IoVec, MessageHeader},
    number::{CONNECT, GETXATTR, IOCTL, OPENAT, PRCTL, PREAD64, PWRITE64, RECVMSG, SECCOMP, SENDMSG, SENDTO},
    opened, print_error,
};
use crate::names;

/// One instruction of a filter.
#[repr(C)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

/// Families of socket addresses.
const IPV4: u16 = 2;
const IPV6: u16 = 10;

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const USER_NOTIFICATION: u32 = 0x7fc0_0000;
/// Offsets in the data of a filter: the call's number, the architecture, the fifth argument in two halves.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const FIFTH_ARGUMENT: [u32; 2] = [48, 52];

const fn load(from: u32) -> Instruction {
    Instruction { code: LOAD, if_true: 0, if_false: 0, value: from }
}

const fn skip_if_equal(value: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction { code: JUMP_IF_EQUAL, if_true, if_false, value }
}

const fn ret(value: u32) -> Instruction {
    Instruction { code: RETURN, if_true: 0, if_false: 0, value }
}

static FILTER: [Instruction; 11] = [
    load(ARCH),
    // Programs of another architecture have other call numbers, and are not watched.
    skip_if_equal(AUDIT_ARCH, 0, 7),
    load(NUMBER),
    skip_if_equal(CONNECT as u32, 6, 0),
    skip_if_equal(SENDTO as u32, 0, 4),
    load(FIFTH_ARGUMENT[0]),
    skip_if_equal(0, 0, 3),
    load(FIFTH_ARGUMENT[1]),
    skip_if_equal(0, 0, 1),
    ret(ALLOW),
    ret(USER_NOTIFICATION),
];

#[repr(C)]
struct FilterProgram {
    length: u16,
    filter: usize,
}

/// Installs a filter of system calls on this process, which gains no privileges from programs. The instructions are
/// the kernel's, which checks them.
pub(crate) fn install_filter(instructions: &[u8]) -> Result<()> {
    const SET_FILTER: usize = 1;
    let length = u16::try_from(instructions.len() / size_of::<Instruction>()).map_err(|_| Errno::INVALID)?;
    let program = FilterProgram { length, filter: instructions.as_ptr() as usize };
    // SAFETY: the kernel reads that many instructions there.
    unsafe { call(SECCOMP, [SET_FILTER, 0, &raw const program as usize, 0, 0, 0]) }.map(drop)
}

/// A socket pair, over which the server's process passes the notification file.
pub(crate) struct SeccompSetup {
    ours: Fd,
    childs: Fd,
}

/// The open file in a message.
#[repr(C)]
struct ControlMessage {
    length: usize,
    level: i32,
    kind: i32,
    file: i32,
}

impl ControlMessage {
    const LENGTH: usize = 20;

    fn of(file: i32) -> Self {
        const SOCKET: i32 = 1;
        const FILES: i32 = 1;
        Self { length: Self::LENGTH, level: SOCKET, kind: FILES, file }
    }
}

fn with_message<T>(byte: &mut u8, control: &mut ControlMessage, use_it: impl FnOnce(usize) -> T) -> T {
    let piece = IoVec { start: &raw mut *byte as usize, length: 1 };
    let message = MessageHeader {
        name: 0,
        name_length: 0,
        pieces: &raw const piece,
        piece_count: 1,
        control: &raw mut *control as usize,
        control_length: size_of::<ControlMessage>(),
        flags: 0,
    };
    use_it(&raw const message as usize)
}

impl SeccompSetup {
    /// Creates the socket pair, before the server's process is forked.
    pub(crate) fn prepare() -> Option<Self> {
        let (ours, childs) = super::socket_pair().ok()?;
        Some(Self { ours, childs })
    }

    /// Installs the filter on the current process, which is the server's, and passes the notification file.
    pub(crate) fn install_filter(&self) {
        const NO_NEW_PRIVILEGES: usize = 38;
        const SET_FILTER: usize = 1;
        const NEW_LISTENER: usize = 8;
        let program = FilterProgram { length: FILTER.len() as u16, filter: FILTER.as_ptr() as usize };
        // SAFETY: the call takes no pointer. If it fails, installing the filter fails, too.
        let _ = unsafe { call(PRCTL, [NO_NEW_PRIVILEGES, 1, 0, 0, 0, 0]) };
        // SAFETY: the kernel reads that many instructions there.
        let made = unsafe { call(SECCOMP, [SET_FILTER, NEW_LISTENER, &raw const program as usize, 0, 0, 0]) };
        let Ok(file) = made else { return };
        let (mut byte, mut control) = (0, ControlMessage::of(file as i32));
        with_message(&mut byte, &mut control, |message| {
            // SAFETY: the kernel reads a message, a byte and an open file there, which all live on.
            let _ = unsafe { call(SENDMSG, [self.childs.arg(), message, 0, 0, 0, 0]) };
        });
    }

    /// Receives the notification file; `None` if the filter could not be installed, or the process is gone.
    pub(crate) fn into_listener(self, process: i32) -> Option<SeccompListener> {
        const CLOEXEC: usize = 0x4000_0000;
        let Self { ours, childs } = self;
        // If this process kept that end open, it would never see the end of the stream.
        drop(childs);
        let (mut byte, mut control) = (0, ControlMessage::of(-1));
        with_message(&mut byte, &mut control, |message| {
            // SAFETY: the kernel writes a byte and an open file there.
            unsafe { call(RECVMSG, [ours.arg(), message, CLOEXEC, 0, 0, 0]) }.ok()
        })
        .filter(|count| *count == 1 && control.file >= 0)?;
        // Whether the memory of processes can be opened at all: security modules, such as Yama with `ptrace_scope`, may
        // forbid it for every process. A restriction of a single process is found later.
        let redirects = matches!(ProcessMemory::open(process as u32), Ok(_) | Err(Errno::NO_PROCESS));
        Some(SeccompListener { file: Fd(control.file), redirects, complained: Cell::new(!redirects) })
    }
}

/// The notification file.
pub(crate) struct SeccompListener {
    file: Fd,
    /// Whether connections can be redirected.
    redirects: bool,
    /// Whether an unreachable program's memory was reported.
    complained: Cell<bool>,
}

/// A notification of the kernel.
#[repr(C)]
#[derive(Default)]
struct SeccompNotification {
    id: u64,
    process: u32,
    flags: u32,
    number: i32,
    arch: u32,
    instruction: u64,
    args: [u64; 6],
}

#[repr(C)]
struct SeccompResponse {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

impl SeccompListener {
    pub(crate) fn fd(&self) -> &Fd {
        &self.file
    }

    /// Whether connections to addresses that stand for names are redirected.
    pub(crate) fn redirects(&self) -> bool {
        self.redirects
    }

    /// Receives a notification and responds; returns the destination if it is outside the container.
    pub(crate) fn handle_next(&self) -> Option<Vec<u8>> {
        const RECEIVE: usize = 0xc050_2100;
        const SEND: usize = 0xc018_2101;
        const CONTINUE: u32 = 1;
        let mut notice = SeccompNotification::default();
        // SAFETY: the kernel writes a question of that size there.
        unsafe { call(IOCTL, [self.file.arg(), RECEIVE, &raw mut notice as usize, 0, 0, 0]) }.ok()?;
        let attempt = self.inspect_call(&notice);
        let answer = SeccompResponse { id: notice.id, value: 0, error: 0, flags: CONTINUE };
        // SAFETY: the kernel reads an answer of that size there. A process that is gone needs no answer.
        let _ = unsafe { call(IOCTL, [self.file.arg(), SEND, &raw const answer as usize, 0, 0, 0]) };
        attempt
    }

    /// Inspects the address of a call, if it can be read, and redirects it if necessary.
    fn inspect_call(&self, notice: &SeccompNotification) -> Option<Vec<u8>> {
        let connects = notice.number == CONNECT as i32;
        let (verb, at, length): (&[u8], _, _) = if connects {
            (b"connect ", notice.args[1], notice.args[2])
        } else {
            (b"send ", notice.args[4], notice.args[5])
        };
        let at = at as usize;
        let mut address = [0_u8; 28];
        let wanted = usize::try_from(length).ok()?.min(address.len());
        let memory = self.memory(notice).map_err(|error| self.complain(error)).ok()?;
        let count = memory.read(at, address.get_mut(..wanted)?).ok()?;
        let address = address.get(..count)?;
        if let Some(first) = synthetic_address_offset(address) {
            // Datagrams are not relayed. Resolvers connect sockets for them to sort addresses, and then return the
            // address in their memory.
            if connects && is_tcp(notice.process, notice.args[0]) {
                let written = memory.write(at + first, &[names::LOOPBACK_FIRST_BYTE]);
                written.err().into_iter().for_each(|error| self.complain(error));
            }
            return None;
        }
        Some([verb, &format_address(address)?].concat())
    }

    /// Reports once that a program's connections cannot be inspected, unless it is gone.
    fn complain(&self, error: Errno) {
        let gone = matches!(error, Errno::NOT_FOUND | Errno::NO_PROCESS);
        if !gone && !self.complained.replace(true) {
            print_error(&[
                b"a program denies access to its memory: it can reach hosts only through the proxy, not directly",
            ]);
        }
    }

    /// Opens the memory of the process that made the call, and waits for the response.
    fn memory(&self, notice: &SeccompNotification) -> Result<ProcessMemory> {
        // The number that kernels before 5.8 know as well.
        const ID_VALID: usize = 0x8008_2102;
        let memory = ProcessMemory::open(notice.process)?;
        // SAFETY: the kernel reads a number of eight bytes there. It fails if another process has that number now.
        unsafe { call(IOCTL, [self.file.arg(), ID_VALID, &raw const notice.id as usize, 0, 0, 0]) }?;
        Ok(memory)
    }
}

/// Another process's memory. It is opened as a file, because engines deny the system calls for it.
struct ProcessMemory(Fd);

impl ProcessMemory {
    /// Opens the memory of a process for reading and writing; both need the same permission.
    fn open(process: u32) -> Result<Self> {
        const READ_WRITE: usize = 2;
        const HERE: usize = -100_isize as usize;
        const CLOEXEC: usize = 0x8_0000;
        let mut path = b"/proc/".to_vec();
        decimal(&mut path, process);
        path.extend_from_slice(b"/mem\0");
        // SAFETY: the kernel reads a path that ends with a zero byte.
        let file = unsafe { call(OPENAT, [HERE, path.as_ptr() as usize, READ_WRITE | CLOEXEC, 0, 0, 0]) };
        file.map(opened).map(Self)
    }

    fn read(&self, from: usize, to: &mut [u8]) -> Result<usize> {
        // SAFETY: the kernel writes at most that many bytes there; what it reads is another process's.
        unsafe { call(PREAD64, [self.0.arg(), to.as_mut_ptr() as usize, to.len(), from, 0, 0]) }
    }

    fn write(&self, to: usize, bytes: &[u8]) -> Result<usize> {
        // SAFETY: the kernel reads that many bytes there; what it writes is another process's.
        unsafe { call(PWRITE64, [self.0.arg(), bytes.as_ptr() as usize, bytes.len(), to, 0, 0]) }
    }
}

/// Whether a process's file is a socket for TCP connections. The kernel states the protocol of a socket in an
/// extended attribute: `TCP`, `TCPv6`, `MPTCP`, `UDP` and so on.
fn is_tcp(process: u32, file: u64) -> bool {
    let Ok(file) = u32::try_from(file) else { return false };
    let mut path = b"/proc/".to_vec();
    decimal(&mut path, process);
    path.extend_from_slice(b"/fd/");
    decimal(&mut path, file);
    path.push(0);
    let attribute = b"system.sockprotoname\0";
    let mut protocol = [0_u8; 32];
    let (path, attribute, to) =
        (path.as_ptr() as usize, attribute.as_ptr() as usize, protocol.as_mut_ptr() as usize);
    // SAFETY: the kernel reads two texts that end with a zero byte, and writes at most that many bytes.
    let found = unsafe { call(GETXATTR, [path, attribute, to, protocol.len(), 0, 0]) };
    let protocol = found.ok().and_then(|count| protocol.get(..count)).unwrap_or_default();
    protocol.windows(3).any(|part| part == b"TCP")
}

/// Returns the offset of an IPv4 address in a socket address, which may be an IPv4-mapped IPv6 address.
fn ipv4(address: &[u8]) -> Option<usize> {
    const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    match u16::from_ne_bytes(*address.first_chunk()?) {
        IPV4 => Some(4),
        IPV6 if address.get(8..)?.starts_with(&MAPPED) => Some(20),
        _ => None,
    }
}

/// Returns the offset of the address, if it is one that stands for a name.
fn synthetic_address_offset(address: &[u8]) -> Option<usize> {
    let first = ipv4(address)?;
    names::is_public(address.get(first..first + 4)?).then_some(first)
}

/// Returns `ADDRESS PORT` of a socket address outside the container.
fn format_address(address: &[u8]) -> Option<Vec<u8>> {
    let (family, rest) = address.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let mut text = Vec::new();
    match u16::from_ne_bytes(*family) {
        IPV4 => {
            let bytes: &[u8; 4] = rest.first_chunk()?;
            // Loopback addresses and the unspecified address are inside the container.
            if bytes[0] == 127 || bytes == &[0; 4] {
                return None;
            }
            for (at, byte) in bytes.iter().enumerate() {
                if at > 0 {
                    text.push(b'.');
                }
                number(&mut text, u16::from(*byte), 10);
            }
        }
        IPV6 => {
            let bytes: &[u8; 16] = rest.get(4..)?.first_chunk()?;
            let last = u128::from_be_bytes(*bytes);
            // The same, written as IPv4 or as IPv6.
            if last <= 1 || last >> 24 == 0xffff_7f || last == 0xffff_0000_0000 {
                return None;
            }
            for (at, group) in bytes.chunks_exact(2).enumerate() {
                if at > 0 {
                    text.push(b':');
                }
                number(&mut text, u16::from_be_bytes([group[0], group[1]]), 16);
            }
        }
        _ => return None,
    }
    text.push(b' ');
    number(&mut text, u16::from_be_bytes(*port), 10);
    Some(text)
}

fn number(text: &mut Vec<u8>, number_: u16, base: u16) {
    if number_ >= base {
        number(text, number_ / base, base);
    }
    text.extend(b"0123456789abcdef".get(usize::from(number_ % base)));
}
