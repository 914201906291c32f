//! Mounts, most of which are created detached and then attached to open folders, so that no path is resolved twice. An
//! overlay is mounted at a path; the caller passes the path of an open folder in `/proc/self/fd`.

use super::{Fd, Result, call, files::HERE, files::terminated, number, opened};

const CLOEXEC: usize = 0x8_0000;
const EMPTY_PATH: usize = 0x1000;
const RECURSIVE: usize = 0x8000;

/// Attributes of a mount, with the kernel's values.
pub(crate) const READ_ONLY: u64 = 0x1;
pub(crate) const NO_SETUID: u64 = 0x2;
pub(crate) const NO_DEVICES: u64 = 0x4;
pub(crate) const NO_EXEC: u64 = 0x8;

/// Which mounts an operation affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The mount itself.
    One,
    /// The mount and all mounts below.
    All,
}

impl Depth {
    fn bits(self) -> usize {
        if self == Self::All { RECURSIVE } else { 0 }
    }
}

/// Copies the mount of a path of this process's root, or a part of it.
pub(crate) fn copy_mount(path: &[u8]) -> Result<Fd> {
    const CLONE: usize = 1;
    let flags = CLONE | CLOEXEC | RECURSIVE;
    // SAFETY: the kernel reads a path there, which ends with a zero byte.
    unsafe { call(number::OPEN_TREE, [HERE, terminated(path)?, flags, 0, 0, 0]) }.map(opened)
}

/// Copies the mount at an open file or folder.
pub(crate) fn copy_mount_of(place: &Fd) -> Result<Fd> {
    const CLONE: usize = 1;
    let flags = CLONE | CLOEXEC | RECURSIVE | EMPTY_PATH;
    // SAFETY: the kernel reads an empty path.
    unsafe { call(number::OPEN_TREE, [place.arg(), empty(), flags, 0, 0, 0]) }.map(opened)
}

/// Adds attributes to a mount.
pub(crate) fn restrict_mount(mount: &Fd, attributes: u64, depth: Depth) -> Result<()> {
    set_attributes(mount.arg(), empty(), EMPTY_PATH | depth.bits(), [attributes, 0, 0, 0])
}

/// Separates all mounts of this process from those of other namespaces.
pub(crate) fn make_mounts_private() -> Result<()> {
    const PRIVATE: u64 = 1 << 18;
    set_attributes(HERE, b"/\0".as_ptr() as usize, RECURSIVE, [0, 0, PRIVATE, 0])
}

/// `values` are the attributes to set and to clear, the propagation, and a user namespace.
fn set_attributes(from: usize, path: usize, flags: usize, values: [u64; 4]) -> Result<()> {
    let size = size_of_val(&values);
    // SAFETY: both callers pass a path that ends with a zero byte; the kernel reads a structure of that size.
    unsafe { call(number::MOUNT_SETATTR, [from, path, flags, &raw const values as usize, size, 0]) }.map(drop)
}

/// Attaches a detached mount to an open file or folder.
pub(crate) fn attach_mount(mount: &Fd, to: &Fd) -> Result<()> {
    const FROM_EMPTY_PATH: usize = 0x4;
    const TO_EMPTY_PATH: usize = 0x40;
    let args = [mount.arg(), empty(), to.arg(), empty(), FROM_EMPTY_PATH | TO_EMPTY_PATH, 0];
    // SAFETY: the kernel reads two empty paths.
    unsafe { call(number::MOVE_MOUNT, args) }.map(drop)
}

/// Creates a detached mount of a new file system. All texts end with a zero byte.
pub(crate) fn new_mount(kind: &[u8], options: &[(&[u8], &[u8])], attributes: u64) -> Result<Fd> {
    const OPEN_CLOEXEC: usize = 1;
    const SET_STRING: usize = 1;
    const CREATE: usize = 6;
    // SAFETY: the kernel reads a name there, which ends with a zero byte.
    let context =
        unsafe { call(number::FSOPEN, [terminated(kind)?, OPEN_CLOEXEC, 0, 0, 0, 0]) }.map(opened)?;
    for (name, value) in options {
        let args = [context.arg(), SET_STRING, terminated(name)?, terminated(value)?, 0, 0];
        // SAFETY: the kernel reads two texts there, which end with a zero byte.
        unsafe { call(number::FSCONFIG, args) }?;
    }
    // SAFETY: no text is read.
    unsafe { call(number::FSCONFIG, [context.arg(), CREATE, 0, 0, 0, 0]) }?;
    // SAFETY: the call takes no pointer.
    unsafe { call(number::FSMOUNT, [context.arg(), OPEN_CLOEXEC, attributes as usize, 0, 0, 0]) }.map(opened)
}

/// Mounts an overlay at a path of this process's root, without devices and set-user-id programs. Only this call
/// accepts options of more than 255 bytes on all kernels.
pub(crate) fn mount_overlay(target: &[u8], options: &[u8]) -> Result<()> {
    const NO_SETUID_NO_DEVICES: usize = 0x2 | 0x4;
    let kind = b"overlay\0".as_ptr() as usize;
    let (target, options) = (terminated(target)?, terminated(options)?);
    // SAFETY: the kernel reads four texts there, which end with a zero byte.
    unsafe { call(number::MOUNT, [kind, target, kind, NO_SETUID_NO_DEVICES, options, 0]) }.map(drop)
}

/// Makes an open mount the root of this process, and detaches the old root with everything below it.
pub(crate) fn change_root(root: &Fd) -> Result<()> {
    const DETACH: usize = 2;
    let here = b".\0".as_ptr() as usize;
    super::enter_folder(root)?;
    // SAFETY: the kernel reads the same path twice; the old root is then mounted over the new one.
    unsafe { call(number::PIVOT_ROOT, [here, here, 0, 0, 0, 0]) }?;
    // SAFETY: the kernel reads a path there, which ends with a zero byte.
    unsafe { call(number::UMOUNT2, [here, DETACH, 0, 0, 0, 0]) }?;
    super::change_folder(b"/\0")
}

fn empty() -> usize {
    b"\0".as_ptr() as usize
}
