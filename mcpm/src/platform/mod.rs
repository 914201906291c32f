//! Functions that differ between Unix and Windows, with the same interface on both.
//!
//! On Windows, mcpm cannot use Unix sockets. So it connects to engines only over TCP, and relays the connections of
//! isolated containers over the engine's API, as for engines in virtual machines. Files have no modes on Windows: the
//! files of the state folder are as private as the user's profile.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;
