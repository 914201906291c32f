//! Connects to mcpm, over the mounted socket or over the socket of the relay process.
//!
//! The relay listens on an abstract socket, because the container's files may be read-only. Nobody outside the
//! container's network namespace can connect to this socket.

use crate::sys::{self, Errno, Fd};

/// The address of a socket.
#[derive(Clone, Copy)]
pub(crate) struct Uplink(&'static [u8]);

/// The mounted socket.
pub(crate) const MOUNTED: Uplink = Uplink(b"/.mcpm/link.sock");
/// The socket of the relay process.
pub(crate) const RELAYED: Uplink = Uplink(b"\0mcpm.link");
/// The socket on which the relay announces that it listens.
const READY_SOCKET: &[u8] = b"\0mcpm.ready";
/// How long to wait for the relay, in seconds.
const READY_TIMEOUT_SECONDS: u32 = 60;

impl Uplink {
    /// Connects; the socket is nonblocking from then on.
    pub(crate) fn connect(self) -> sys::Result<Fd> {
        sys::connect_unix(self.0, false)
    }

    /// Connects for the first time, and waits for a relay that has not started yet.
    pub(crate) fn connect_first(self) -> sys::Result<Fd> {
        if self.0 == MOUNTED.0 {
            return sys::connect_unix(self.0, true);
        }
        // A relay that begins to listen after the attempt below announces itself here.
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

    /// Listens, and announces that.
    pub(crate) fn listen(self) -> sys::Result<Fd> {
        let listener = sys::listen_unix(self.0)?;
        // Later, nobody waits for it.
        let _ = sys::send_unix_datagram(READY_SOCKET, b"!");
        Ok(listener)
    }
}
