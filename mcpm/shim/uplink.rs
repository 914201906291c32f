//! How mcpm is reached: by a socket of its own that is mounted, or by one that another process of this program carries
//! to it.
//!
//! The carried one has no place in the file system: the container's own files may be read-only, and nobody outside its
//! network finds it there.

use crate::sys::{self, Errno, Fd};

/// Where to connect to.
#[derive(Clone, Copy)]
pub(crate) struct Uplink(&'static [u8]);

/// The socket is mounted.
pub(crate) const MOUNTED: Uplink = Uplink(b"/.mcpm/link.sock");
/// The socket is of the process that carries.
pub(crate) const RELAYED: Uplink = Uplink(b"\0mcpm.link");
/// Where that process says that it listens.
const READY_SOCKET: &[u8] = b"\0mcpm.ready";
/// How long it may take to come, in seconds.
const READY_TIMEOUT_SECONDS: u32 = 60;

impl Uplink {
    /// Connects, without waiting for anything from then on.
    pub(crate) fn connect(self) -> sys::Result<Fd> {
        sys::connect_unix(self.0, false)
    }

    /// Connects for the first time, and waits if nobody can be there yet.
    pub(crate) fn connect_first(self) -> sys::Result<Fd> {
        if self.0 == MOUNTED.0 {
            return sys::connect_unix(self.0, true);
        }
        // Whoever listens after the attempt below finds this here and says so.
        let ready = sys::bind_unix_datagram(READY_SOCKET, READY_TIMEOUT_SECONDS)?;
        loop {
            if let Ok(link) = sys::connect_unix(self.0, true) {
                return Ok(link);
            }
            match sys::read(&ready, &mut [0]) {
                Ok(_) | Err(Errno::INTERRUPTED) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Listens there, and says so to whoever waits.
    pub(crate) fn listen(self) -> sys::Result<Fd> {
        let listener = sys::listen_unix(self.0)?;
        // Later, nobody waits.
        let _ = sys::send_unix_datagram(READY_SOCKET, b"!");
        Ok(listener)
    }
}
