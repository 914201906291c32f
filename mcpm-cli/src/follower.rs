//! Ends a command that prints until it is stopped, such as `mcpm logs --follow`, at a signal or when nobody can read
//! its output any more. For example, `mcpm events -f | head -1` leaves no process behind.

use mcpm::Result;

use crate::{output, signals::StopSignals};

/// The stop signals and the standard output of a command.
pub(crate) struct Follower {
    stop: StopSignals,
    stdout: Stdout,
}

impl Follower {
    pub(crate) fn start() -> Result<Self> {
        Ok(Self { stop: StopSignals::listen()?, stdout: Stdout::new() })
    }

    /// Returns the outcome of `work`, or `None` if the command has to end.
    pub(crate) async fn next<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.stop.recv() => None,
            () = self.stdout.closed() => None,
            outcome = work => Some(outcome),
        }
    }

    /// Writes to standard output; returns `None` if the command has to end. While the reader of a pipe does not read,
    /// the command can still be stopped, unless another process writes to the same pipe.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Option<Result<()>> {
        for part in bytes.chunks(Stdout::part_length()) {
            tokio::select! {
                biased;
                () = self.stop.recv() => return None,
                () = self.stdout.writable() => {}
            }
            match output::write_if_open(part) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(()))
    }
}

#[cfg(unix)]
use unix::Stdout;
#[cfg(windows)]
use windows::Stdout;

#[cfg(unix)]
mod unix {
    use std::{
        io,
        os::fd::{AsFd as _, OwnedFd},
    };

    use rustix::{
        event::{PollFd, PollFlags, Timespec, poll},
        io::Errno,
        pipe::PIPE_BUF,
    };
    use tokio::io::{Interest, unix::AsyncFd};

    /// The state of standard output; `None` for a file, which is always writable.
    pub(super) struct Stdout(Option<AsyncFd<OwnedFd>>);

    impl Stdout {
        /// Number of bytes that a pipe takes at once if it has room at all.
        pub(super) fn part_length() -> usize {
            PIPE_BUF
        }

        pub(super) fn new() -> Self {
            Self(watch().ok())
        }

        /// Waits until nobody can read the output any more.
        pub(super) async fn closed(&self) {
            let Some(stdout) = &self.0 else { return std::future::pending().await };
            // A closed pipe is an error on Linux, and a closed write direction on macOS and of sockets.
            while let Ok(mut ready) = stdout.ready(Interest::ERROR | Interest::WRITABLE).await {
                if has(stdout, PollFlags::ERR | PollFlags::HUP) {
                    return;
                }
                ready.clear_ready();
            }
            std::future::pending().await
        }

        /// Waits until some bytes can be written, or the output is closed.
        pub(super) async fn writable(&self) {
            let Some(stdout) = &self.0 else { return };
            // Does not use the readiness that the executor remembers, because `closed` clears it.
            while !has(stdout, PollFlags::OUT | PollFlags::ERR | PollFlags::HUP) {
                let Ok(mut ready) = stdout.writable().await else { return };
                ready.clear_ready();
            }
        }
    }

    #[expect(
        deprecated,
        reason = "the replacement is unsafe because some types can swap their fd, but this type cannot"
    )]
    fn watch() -> io::Result<AsyncFd<OwnedFd>> {
        let stdout = io::stdout().as_fd().try_clone_to_owned()?;
        AsyncFd::with_interest(stdout, Interest::WRITABLE | Interest::ERROR)
    }

    /// Returns whether standard output is in one of these states now. The states that the executor remembers may be
    /// outdated, because the output is written without it.
    fn has(stdout: &AsyncFd<OwnedFd>, states: PollFlags) -> bool {
        let mut polled = [PollFd::new(stdout, states)];
        loop {
            match poll(&mut polled, Some(&Timespec::default())) {
                Err(Errno::INTR) => {}
                // If the state is unknown, writing shows it.
                Err(_) => return true,
                Ok(_) => return polled[0].revents().intersects(states),
            }
        }
    }
}

#[cfg(windows)]
mod windows {
    /// The state of standard output, which is known only when it is written to.
    pub(super) struct Stdout;

    impl Stdout {
        pub(super) fn part_length() -> usize {
            usize::MAX
        }

        pub(super) fn new() -> Self {
            Self
        }

        pub(super) async fn closed(&self) {
            std::future::pending().await
        }

        pub(super) async fn writable(&self) {}
    }
}
