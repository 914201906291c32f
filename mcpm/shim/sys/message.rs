//! Messages on Unix sockets that pass open files.

use super::{Errno, Fd, Result, call, number};

/// A piece of a message.
#[repr(C)]
pub(super) struct IoVec {
    pub(super) start: usize,
    pub(super) length: usize,
}

/// The kernel's description of a message.
#[repr(C)]
pub(super) struct MessageHeader {
    pub(super) name: usize,
    pub(super) name_length: u32,
    pub(super) pieces: *const IoVec,
    pub(super) piece_count: usize,
    pub(super) control: usize,
    pub(super) control_length: usize,
    pub(super) flags: i32,
}

/// Most open files in a message.
const MAX_FILES: usize = 8;

/// Receives bytes and exactly `COUNT` open files, which programs do not inherit.
pub(crate) fn receive_files<const COUNT: usize>(socket: &Fd, bytes: &mut [u8]) -> Result<[Fd; COUNT]> {
    const CLOEXEC: usize = 0x4000_0000;
    const HEADER_BYTES: usize = 16;
    #[repr(C)]
    struct Control {
        length: usize,
        level: i32,
        kind: i32,
        files: [i32; MAX_FILES],
    }
    let mut control = Control { length: 0, level: 0, kind: 0, files: [-1; MAX_FILES] };
    let piece = IoVec { start: bytes.as_mut_ptr() as usize, length: bytes.len() };
    let message = MessageHeader {
        name: 0,
        name_length: 0,
        pieces: &raw const piece,
        piece_count: 1,
        control: &raw mut control as usize,
        control_length: size_of::<Control>(),
        flags: 0,
    };
    let at = &raw const message as usize;
    // SAFETY: the kernel writes at most that many bytes and open files there.
    let count = unsafe { call(number::RECVMSG, [socket.arg(), at, CLOEXEC, 0, 0, 0]) }?;
    if count != bytes.len() || control.length != HEADER_BYTES + COUNT * size_of::<i32>() {
        return Err(Errno::INVALID);
    }
    Ok(core::array::from_fn(|at| Fd(control.files[at])))
}
