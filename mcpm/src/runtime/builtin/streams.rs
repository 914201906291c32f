//! Connects the standard streams of containers to pipes of this process, and logs the output. The standard output of
//! stdio servers is not logged.

use std::io;

use bytes::{Bytes, BytesMut};
use futures_util::{
    Stream, StreamExt as _,
    stream::{self, BoxStream},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite},
    net::unix::pipe,
};

use super::sandbox::{SandboxStream, SandboxStreams};
use crate::{
    Error, ErrorKind, Result,
    runtime::{Attachment, LogChunk, LogStream, output_log::LogWriter},
};

const READ_BYTES: usize = 64 << 10;

/// Creates the streams for the next start of a container. If standard input is open, standard output is not logged: it
/// carries the messages of a stdio server, which are data of its users.
pub(super) fn attach(log: LogWriter, stdin: bool) -> Result<(SandboxStreams, Attachment)> {
    let make = || -> io::Result<_> {
        let (input, server_stdin): (Box<dyn AsyncWrite + Send + Unpin>, _) = if stdin {
            let (input, server_stdin) = pipe::pipe()?;
            (Box::new(input), SandboxStream::File(server_stdin.into_blocking_fd()?))
        } else {
            (Box::new(tokio::io::sink()), SandboxStream::Null)
        };
        let (server_stdout, stdout) = pipe::pipe()?;
        let (server_stderr, stderr) = pipe::pipe()?;
        let streams = SandboxStreams {
            stdin: server_stdin,
            stdout: SandboxStream::File(server_stdout.into_blocking_fd()?),
            stderr: SandboxStream::File(server_stderr.into_blocking_fd()?),
        };
        Ok((streams, input, output(Some(stdout), Some(stderr))))
    };
    let (streams, input, output) = make()
        .map_err(|error| Error::new(ErrorKind::Io, "cannot create pipes for a container").source(error))?;
    let is_logged = if stdin { |stream| stream == LogStream::Stderr } else { |_| true };
    Ok((streams, Attachment { stdin: input, output: logged(output, log, is_logged) }))
}

/// Returns the output of a process, in the order in which it is read.
pub(super) fn output(
    stdout: Option<impl AsyncRead + Send + Unpin + 'static>,
    stderr: Option<impl AsyncRead + Send + Unpin + 'static>,
) -> BoxStream<'static, Result<LogChunk>> {
    let stdout =
        stdout.map_or_else(|| stream::empty().boxed(), |pipe| chunks(pipe, LogStream::Stdout).boxed());
    let stderr =
        stderr.map_or_else(|| stream::empty().boxed(), |pipe| chunks(pipe, LogStream::Stderr).boxed());
    stream::select(stdout, stderr).boxed()
}

/// Writes the data of the selected streams to a log while it is read. The log is complete when the output ends.
pub(super) fn logged(
    output: BoxStream<'static, Result<LogChunk>>,
    log: LogWriter,
    is_logged: fn(LogStream) -> bool,
) -> BoxStream<'static, Result<LogChunk>> {
    stream::unfold((output, Some(log)), move |(mut output, mut log)| async move {
        let Some(chunk) = output.next().await else {
            drop(log.take());
            return None;
        };
        if let (Ok(chunk), Some(log)) = (&chunk, &mut log)
            && is_logged(chunk.stream)
        {
            log.write(chunk);
        }
        Some((chunk, (output, log)))
    })
    .boxed()
}

/// Reads a pipe until its other end is closed.
fn chunks(
    pipe: impl AsyncRead + Send + Unpin,
    stream: LogStream,
) -> impl Stream<Item = Result<LogChunk>> + Send {
    stream::try_unfold((pipe, BytesMut::new()), move |(mut pipe, mut buffer)| async move {
        buffer.reserve(READ_BYTES);
        let count = pipe.read_buf(&mut buffer).await.map_err(|error| {
            Error::new(ErrorKind::Io, "cannot read the output of a container").source(error)
        })?;
        let bytes: Bytes = buffer.split().freeze();
        Ok((count > 0).then_some((LogChunk { stream, bytes, time: None }, (pipe, buffer))))
    })
}
