//! Provides standard input and output as asynchronous streams.
//!
//! Threads copy the bytes, because a read of standard input cannot be cancelled, and would keep the executor from
//! ending. Setting the streams to non-blocking instead would change them for other processes that share them.

use std::{
    io::{self, Read, Write},
    sync::mpsc,
    thread,
    time::Duration,
};

use mcpm::{Error, ErrorKind, Result};
#[cfg(unix)]
use std::os::unix::net::UnixStream as Blocking;
#[cfg(windows)]
use tokio::io::DuplexStream as StandardStream;
#[cfg(unix)]
use tokio::net::UnixStream as StandardStream;

/// Time limit for writing the last output.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Number of bytes that are copied at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// Returns standard input. Its thread ends with the process.
pub(crate) fn input() -> Result<StandardStream> {
    let (mut ours, theirs) = pair()?;
    start("stdin", move || {
        // The other end may be closed before the input ends.
        let _ = copy(&mut io::stdin().lock(), &mut ours);
    })?;
    Ok(theirs)
}

/// When it is dropped, waits until the data for standard output has left the process.
#[derive(Debug)]
pub(crate) struct OutputGuard(mpsc::Receiver<()>);

impl Drop for OutputGuard {
    fn drop(&mut self) {
        // The reader may have stopped reading.
        let _ = self.0.recv_timeout(FLUSH_TIMEOUT);
    }
}

/// Returns standard output. The stream must be dropped before the guard.
pub(crate) fn output() -> Result<(StandardStream, OutputGuard)> {
    let (mut ours, theirs) = pair()?;
    let (done, finished) = mpsc::channel();
    start("stdout", move || {
        let mut stdout = io::stdout().lock();
        // The reader may have closed the pipe.
        let _ = copy(&mut ours, &mut stdout);
        let _ = done.send(());
    })?;
    Ok((theirs, OutputGuard(finished)))
}

/// Copies until the end of the input, and flushes after each read. `io::copy` would use `splice`, which keeps a pipe
/// locked while it waits for data, so that the reader of the pipe could not read.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let length = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(&buffer[..length])?;
        to.flush()?;
    }
}

#[cfg(unix)]
fn pair() -> Result<(Blocking, StandardStream)> {
    let opened = Blocking::pair().and_then(|(ours, theirs)| {
        theirs.set_nonblocking(true)?;
        Ok((ours, StandardStream::from_std(theirs)?))
    });
    opened.map_err(failed)
}

#[cfg(windows)]
fn pair() -> Result<(tokio_util::io::SyncIoBridge<StandardStream>, StandardStream)> {
    let (ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
    Ok((tokio_util::io::SyncIoBridge::new(ours), theirs))
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop).map_err(failed)
}

fn failed(error: io::Error) -> Error {
    Error::new(ErrorKind::Internal, "cannot use the standard streams").source(error)
}
