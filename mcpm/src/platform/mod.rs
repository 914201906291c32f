//! Functions that differ between operating systems, with the same interface on each.
//!
//! Unix is complete. On Windows, mcpm cannot use sockets that have a path. Network isolation, which needs such a socket
//! between the container and mcpm, is therefore not available there, and engines are reached only over TCP. Files have no modes there: the files of the state folder are as private as the user's profile.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;
