//! What differs between operating systems, behind the same functions on each.
//!
//! Unix is complete. On Windows, there are no sockets with paths, so no isolation and no engine but by TCP, and files have
//! no modes: those of the state folder are as private as the user's profile.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;
