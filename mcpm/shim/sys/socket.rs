//! Sockets on the container's loopback, and to mcpm.

use super::{Errno, Fd, Result, call, number, opened};

const UNIX: usize = 1;
const IPV4: usize = 2;
const STREAM: usize = 1;
const DATAGRAM: usize = 2;
const CLOEXEC: usize = 0x8_0000;
const NONBLOCK: usize = 0x800;
const NO_SIGNAL: usize = 0x4000;
const SOL_SOCKET: usize = 1;
const REUSE_ADDRESS: usize = 2;
const ERROR: usize = 4;
const RECEIVE_TIMEOUT: usize = 20;
const SOL_TCP: usize = 6;
const NO_DELAY: usize = 1;
const BACKLOG: usize = 1024;

/// An IPv4 address and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketAddress {
    pub(crate) address: [u8; 4],
    pub(crate) port: u16,
}

/// The kernel's form of an IPv4 address and port.
#[repr(C)]
struct InetAddress {
    family: u16,
    port: [u8; 2],
    address: [u8; 4],
    zero: [u8; 8],
}

impl InetAddress {
    const SIZE: usize = size_of::<Self>();
    const NONE: Self = Self { family: 0, port: [0; 2], address: [0; 4], zero: [0; 8] };

    fn of(place: SocketAddress) -> Self {
        Self { family: IPV4 as u16, port: place.port.to_be_bytes(), address: place.address, zero: [0; 8] }
    }

    fn place(&self) -> SocketAddress {
        SocketAddress { address: self.address, port: u16::from_be_bytes(self.port) }
    }
}

/// The kernel's form of a path, or of an abstract name, which begins with a zero byte.
#[repr(C)]
struct UnixAddress {
    family: u16,
    path: [u8; 108],
}

fn socket(family: usize, kind: usize) -> Result<Fd> {
    // SAFETY: the call takes no pointer.
    unsafe { call(number::SOCKET, [family, kind | CLOEXEC, 0, 0, 0, 0]) }.map(opened)
}

fn set(fd: &Fd, level: usize, option: usize) -> Result<()> {
    let on: i32 = 1;
    // SAFETY: the kernel reads four bytes there.
    unsafe { call(number::SETSOCKOPT, [fd.arg(), level, option, &raw const on as usize, 4, 0]) }.map(drop)
}

fn bound(kind: usize, place: SocketAddress) -> Result<Fd> {
    let fd = socket(IPV4, kind | NONBLOCK)?;
    set(&fd, SOL_SOCKET, REUSE_ADDRESS)?;
    let address = InetAddress::of(place);
    // SAFETY: the kernel reads an address of that size there.
    unsafe { call(number::BIND, [fd.arg(), &raw const address as usize, InetAddress::SIZE, 0, 0, 0]) }?;
    Ok(fd)
}

/// Listens for connections.
pub(crate) fn listen(place: SocketAddress) -> Result<Fd> {
    let fd = bound(STREAM, place)?;
    // SAFETY: the call takes no pointer.
    unsafe { call(number::LISTEN, [fd.arg(), BACKLOG, 0, 0, 0, 0]) }?;
    Ok(fd)
}

/// Receives datagrams.
pub(crate) fn bind_udp(place: SocketAddress) -> Result<Fd> {
    bound(DATAGRAM, place)
}

/// Accepts a connection, and returns its local address.
pub(crate) fn accept(listener: &Fd) -> Result<(Fd, SocketAddress)> {
    // SAFETY: no address is requested.
    let fd =
        unsafe { call(number::ACCEPT4, [listener.arg(), 0, 0, CLOEXEC | NONBLOCK, 0, 0]) }.map(opened)?;
    // Without this option, bytes are only delayed.
    let _ = set(&fd, SOL_TCP, NO_DELAY);
    let mut address = InetAddress::NONE;
    let mut size = InetAddress::SIZE as u32;
    // SAFETY: the kernel writes at most `size` bytes of an address, and its size.
    unsafe {
        call(number::GETSOCKNAME, [fd.arg(), &raw mut address as usize, &raw mut size as usize, 0, 0, 0])
    }?;
    Ok((fd, address.place()))
}

/// Begins to connect within this container; the connection becomes writable when it has succeeded or failed.
pub(crate) fn connect(place: SocketAddress) -> Result<Fd> {
    let fd = socket(IPV4, STREAM | NONBLOCK)?;
    let _ = set(&fd, SOL_TCP, NO_DELAY);
    let address = InetAddress::of(place);
    // SAFETY: the kernel reads an address of that size there.
    match unsafe {
        call(number::CONNECT, [fd.arg(), &raw const address as usize, InetAddress::SIZE, 0, 0, 0])
    } {
        Ok(_) | Err(Errno::IN_PROGRESS) => Ok(fd),
        Err(error) => Err(error),
    }
}

/// Returns whether a connection is connected; `Err(AGAIN)` while it is connecting.
pub(crate) fn connect_result(fd: &Fd) -> Result<()> {
    let (mut error, mut size) = (0_i32, 4_u32);
    // SAFETY: the kernel writes at most four bytes, and their count.
    unsafe {
        call(
            number::GETSOCKOPT,
            [fd.arg(), SOL_SOCKET, ERROR, &raw mut error as usize, &raw mut size as usize, 0],
        )
    }?;
    if error != 0 {
        return Err(Errno(error));
    }
    let mut address = InetAddress::NONE;
    let mut size = InetAddress::SIZE as u32;
    const NOT_CONNECTED: Errno = Errno(107);
    // SAFETY: the kernel writes at most `size` bytes of an address, and its size.
    match unsafe {
        call(number::GETPEERNAME, [fd.arg(), &raw mut address as usize, &raw mut size as usize, 0, 0, 0])
    } {
        Ok(_) => Ok(()),
        Err(NOT_CONNECTED) => Err(Errno::AGAIN),
        Err(error) => Err(error),
    }
}

impl UnixAddress {
    /// The address and its size, which is part of a name.
    fn of(place: &[u8]) -> Result<(Self, usize)> {
        let mut address = Self { family: UNIX as u16, path: [0; 108] };
        let Some(room) = address.path[..107].get_mut(..place.len()) else { return Err(Errno::NOT_FOUND) };
        room.copy_from_slice(place);
        let is_name = place.first() == Some(&0);
        Ok((address, if is_name { size_of::<u16>() + place.len() } else { size_of::<Self>() }))
    }
}

/// Connects to a Unix socket; `blocking` is its mode from then on.
pub(crate) fn connect_unix(place: &[u8], blocking: bool) -> Result<Fd> {
    let fd = socket(UNIX, if blocking { STREAM } else { STREAM | NONBLOCK })?;
    let (address, size) = UnixAddress::of(place)?;
    // SAFETY: the kernel reads an address of that size there.
    unsafe { call(number::CONNECT, [fd.arg(), &raw const address as usize, size, 0, 0, 0]) }?;
    Ok(fd)
}

fn bound_unix(kind: usize, place: &[u8]) -> Result<Fd> {
    let fd = socket(UNIX, kind)?;
    let (address, size) = UnixAddress::of(place)?;
    // SAFETY: the kernel reads an address of that size there.
    unsafe { call(number::BIND, [fd.arg(), &raw const address as usize, size, 0, 0, 0]) }?;
    Ok(fd)
}

/// Listens on an unused Unix address.
pub(crate) fn listen_unix(place: &[u8]) -> Result<Fd> {
    let fd = bound_unix(STREAM | NONBLOCK, place)?;
    // SAFETY: the call takes no pointer.
    unsafe { call(number::LISTEN, [fd.arg(), BACKLOG, 0, 0, 0, 0]) }?;
    Ok(fd)
}

/// Accepts a connection to a Unix socket.
pub(crate) fn accept_unix(listener: &Fd) -> Result<Fd> {
    // SAFETY: no address is requested.
    unsafe { call(number::ACCEPT4, [listener.arg(), 0, 0, CLOEXEC | NONBLOCK, 0, 0]) }.map(opened)
}

/// Receives datagrams on an unused Unix address, with a timeout in seconds.
pub(crate) fn bind_unix_datagram(place: &[u8], seconds: u32) -> Result<Fd> {
    let fd = bound_unix(DATAGRAM, place)?;
    let limit: [i64; 2] = [i64::from(seconds), 0];
    // SAFETY: the kernel reads a time of two numbers there.
    unsafe {
        let at = &raw const limit as usize;
        call(number::SETSOCKOPT, [fd.arg(), SOL_SOCKET, RECEIVE_TIMEOUT, at, size_of_val(&limit), 0])
    }?;
    Ok(fd)
}

/// Sends one datagram to a Unix address, if there is a receiver.
pub(crate) fn send_unix_datagram(place: &[u8], bytes: &[u8]) -> Result<()> {
    let fd = socket(UNIX, DATAGRAM | NONBLOCK)?;
    let (address, size) = UnixAddress::of(place)?;
    let (from, to) = (bytes.as_ptr() as usize, &raw const address as usize);
    // SAFETY: the kernel reads that many bytes, and an address of that size.
    unsafe { call(number::SENDTO, [fd.arg(), from, bytes.len(), NO_SIGNAL, to, size]) }.map(drop)
}

/// Sends bytes; a closed connection is an error instead of a signal.
pub(crate) fn send(fd: &Fd, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the kernel reads that many bytes there.
    unsafe { call(number::SENDTO, [fd.arg(), bytes.as_ptr() as usize, bytes.len(), NO_SIGNAL, 0, 0]) }
}

/// Receives one datagram and its sender's address.
pub(crate) fn receive_from(fd: &Fd, buffer: &mut [u8]) -> Result<(usize, SocketAddress)> {
    let mut address = InetAddress::NONE;
    let mut size = InetAddress::SIZE as u32;
    // SAFETY: the kernel writes at most that many bytes, an address of at most `size` bytes, and its size.
    let count = unsafe {
        call(
            number::RECVFROM,
            [
                fd.arg(),
                buffer.as_mut_ptr() as usize,
                buffer.len(),
                0,
                &raw mut address as usize,
                &raw mut size as usize,
            ],
        )
    }?;
    Ok((count, address.place()))
}

/// Sends one datagram.
pub(crate) fn send_to(fd: &Fd, bytes: &[u8], place: SocketAddress) -> Result<()> {
    let address = InetAddress::of(place);
    // SAFETY: the kernel reads that many bytes, and an address of that size.
    unsafe {
        call(
            number::SENDTO,
            [
                fd.arg(),
                bytes.as_ptr() as usize,
                bytes.len(),
                NO_SIGNAL,
                &raw const address as usize,
                InetAddress::SIZE,
            ],
        )
    }
    .map(drop)
}

/// Creates two connected sockets.
pub(crate) fn socket_pair() -> Result<(Fd, Fd)> {
    let mut ends = [0_i32; 2];
    // SAFETY: the kernel writes two numbers there.
    unsafe { call(number::SOCKETPAIR, [UNIX, STREAM | CLOEXEC, 0, ends.as_mut_ptr() as usize, 0, 0]) }?;
    Ok((Fd(ends[0]), Fd(ends[1])))
}

/// Whether the other end of a socket is closed and all of its bytes were received.
pub(crate) fn is_closed_by_peer(socket: &Fd) -> bool {
    const PEEK_WITHOUT_WAITING: usize = 0x2 | 0x40;
    let mut byte = [0_u8];
    let to = byte.as_mut_ptr() as usize;
    // SAFETY: the kernel writes at most one byte there.
    let count = unsafe { call(number::RECVFROM, [socket.arg(), to, 1, PEEK_WITHOUT_WAITING, 0, 0]) };
    count == Ok(0)
}

/// Ends the sending direction.
pub(crate) fn shutdown_write(fd: &Fd) {
    // SAFETY: the call takes no pointer. If the connection is gone, there is nothing to end.
    let _ = unsafe { call(number::SHUTDOWN, [fd.arg(), 1, 0, 0, 0, 0]) };
}
