//! Standard input and output as streams of the executor.
//!
//! Threads copy the bytes: a read of standard input cannot be cancelled, and would keep the executor from ending. Setting
//! the streams to non-blocking instead would change them for other processes that share them.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream as Blocking,
    sync::mpsc,
    thread,
    time::Duration,
};

use mcpm::{Error, ErrorKind, Result};
use tokio::net::UnixStream;

/// Time limit for writing the last output.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Bytes that are copied at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// Returns standard input. Its thread ends with the process.
pub(crate) fn input() -> Result<UnixStream> {
    let (mut ours, theirs) = pair()?;
    start("stdin", move || {
        // The other end may be closed before the input ends.
        let _ = copy(&mut io::stdin().lock(), &mut ours);
        let _ = ours.shutdown(Shutdown::Write);
    })?;
    Ok(theirs)
}

/// Waits, when it is dropped, until what was written to standard output has left the process.
#[derive(Debug)]
pub(crate) struct OutputGuard(mpsc::Receiver<()>);

impl Drop for OutputGuard {
    fn drop(&mut self) {
        // The reader may have stopped reading.
        let _ = self.0.recv_timeout(FLUSH_TIMEOUT);
    }
}

/// Returns standard output. The stream must be dropped before the guard.
pub(crate) fn output() -> Result<(UnixStream, OutputGuard)> {
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

/// Copies until the end, and flushes what it has. `io::copy` would use `splice`, which keeps a pipe locked while it waits
/// for data, so that its reader cannot read.
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

fn pair() -> Result<(Blocking, UnixStream)> {
    let opened = Blocking::pair().and_then(|(ours, theirs)| {
        theirs.set_nonblocking(true)?;
        Ok((ours, UnixStream::from_std(theirs)?))
    });
    opened.map_err(failed)
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop).map_err(failed)
}

fn failed(error: io::Error) -> Error {
    Error::new(ErrorKind::Internal, "cannot use the standard streams").source(error)
}
