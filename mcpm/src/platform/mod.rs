//! Functions that differ between operating systems, with the same interface on each.
//!
//! Unix is complete. On Windows, there are no sockets with paths, so servers cannot be isolated and engines can only be
//! reached by TCP. Files have no modes there: the files of the state folder are as private as the user's profile.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;
