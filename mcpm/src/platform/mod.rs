//! Functions that differ between operating systems, with the same interface on each.
//!
//! On Unix, all functions are available. On Windows, mcpm cannot use Unix sockets. Network isolation, which needs such
//! a socket between the container and mcpm, is therefore not available on Windows, and mcpm connects to engines only
//! over TCP. Files have no modes on Windows: the files of the state folder are as private as the user's profile.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;
