//! Downloads blobs into files.
//!
//! A blob is streamed, and verified against its size and digest. An interrupted download is resumed where it stopped,
//! a limited number of times. Files are written and hashed on a blocking thread.

use std::{
    fmt,
    fs::File,
    io::{self, Seek as _, Write as _},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use http_body_util::BodyExt as _;
use ring::digest::{Context, SHA256};
use tokio::sync::mpsc;

use super::{ImageRepository, REQUEST_TIMEOUT};
use crate::{Error, ErrorKind, Result, image::Digest};

/// How often a blob is requested before its download fails.
const MAX_DOWNLOAD_ATTEMPTS: u32 = 6;
/// The wait before the second attempt; it doubles for each further attempt.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// Most received chunks, of 16 KiB or less, that wait to be written.
const MAX_QUEUED_CHUNKS: usize = 64;

/// A blob as its manifest describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlobDescriptor {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
}

/// A message to the thread that writes the file.
enum Step {
    Append(Bytes),
    /// The registry sends the blob from its beginning again.
    Restart,
}

/// Why an attempt failed.
enum Break {
    /// A further attempt may succeed.
    Temporary(Error),
    Final(Error),
}

impl ImageRepository {
    /// Downloads a blob into an empty file, and verifies it. `received` is called with the number of bytes received so
    /// far.
    ///
    /// # Errors
    /// `ImageUnavailable` when the registry does not have the blob, sends other content, or breaks off too often; `Io`
    /// when the file cannot be written.
    pub(crate) async fn download(
        &self,
        blob: &BlobDescriptor,
        file: File,
        received: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<()> {
        let (steps, queue) = mpsc::channel(MAX_QUEUED_CHUNKS);
        let writing = tokio::task::spawn_blocking(move || write(file, queue));
        let outcome = self.receive(blob, &steps, received).await;
        drop(steps);
        let written = writing.await;
        let written =
            written.map_err(|error| Error::new(ErrorKind::Internal, "a download failed").source(error))?;
        // An error in writing the file also ends the transfer, and is then the cause to report.
        let digest = written.map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot store the blob `{}`", blob.digest)).source(error)
        })?;
        outcome?;
        match digest == blob.digest {
            true => Ok(()),
            false => Err(self.failed(format!("the content of `{}` does not match the digest", blob.digest))),
        }
    }

    /// Receives all bytes of a blob, in several attempts if necessary.
    async fn receive(
        &self,
        blob: &BlobDescriptor,
        steps: &mpsc::Sender<Step>,
        received: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<()> {
        let (mut at, mut delay) = (0, RETRY_DELAY);
        for attempt in 1.. {
            match self.attempt(blob, &mut at, steps, received).await {
                Ok(()) => break,
                Err(Break::Final(error)) => return Err(error),
                Err(Break::Temporary(error)) if attempt == MAX_DOWNLOAD_ATTEMPTS => {
                    return Err(error.with("attempts", attempt).hint("try again later"));
                }
                Err(Break::Temporary(error)) => {
                    tracing::debug!(%error, attempt, blob = %blob.digest, at, "a download was interrupted");
                    tokio::time::sleep(delay).await;
                    delay *= 2;
                }
            }
        }
        Ok(())
    }

    /// Receives a blob from the byte `at` on.
    async fn attempt(
        &self,
        blob: &BlobDescriptor,
        at: &mut u64,
        steps: &mpsc::Sender<Step>,
        received: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), Break> {
        let temporary = |why: &dyn fmt::Display| Break::Temporary(self.unreachable(why));
        let stalled = || temporary(&format!("no data within {} s", REQUEST_TIMEOUT.as_secs()));
        let gone = |_| Break::Final(self.failed("the blob cannot be stored"));
        let range = (*at > 0).then(|| HeaderValue::from_str(&format!("bytes={at}-")).ok()).flatten();
        let path = format!("blobs/{}", blob.digest);
        let opening = tokio::time::timeout(REQUEST_TIMEOUT, self.open(&path, "*/*", range.as_ref())).await;
        let response = match opening.map_err(|_| stalled())? {
            Ok(response) => response,
            // An error without a next step is that of an unreachable registry, which may be reachable later.
            Err(error) if error.next_step().is_none() => return Err(Break::Temporary(error)),
            Err(error) => return Err(Break::Final(error)),
        };
        match response.status() {
            StatusCode::PARTIAL_CONTENT if range.is_some() && begins_at(&response, *at) => {}
            // Not all registries and caches support ranges.
            StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE if *at > 0 => {
                *at = 0;
                steps.send(Step::Restart).await.map_err(gone)?;
                if response.status() != StatusCode::OK {
                    return Err(temporary(&format!(
                        "it responded with {} to a range request",
                        response.status()
                    )));
                }
            }
            StatusCode::OK => {}
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                return Err(temporary(&format!("it responded with {status}")));
            }
            StatusCode::NOT_FOUND => {
                return Err(Break::Final(
                    self.failed(format!("it does not have the blob `{}`", blob.digest)),
                ));
            }
            status => return Err(Break::Final(self.failed(format!("it responded with {status}")))),
        }
        let mut body = response.into_body();
        loop {
            let frame = tokio::time::timeout(REQUEST_TIMEOUT, body.frame()).await.map_err(|_| stalled())?;
            let Some(frame) = frame else { break };
            let frame =
                frame.map_err(|error| temporary(&format!("its response was interrupted: {error}")))?;
            let Ok(chunk) = frame.into_data() else { continue };
            *at += chunk.len() as u64;
            if *at > blob.size {
                let why = format!("the blob `{}` is larger than the manifest specifies", blob.digest);
                return Err(Break::Final(self.failed(why)));
            }
            steps.send(Step::Append(chunk)).await.map_err(gone)?;
            received(*at);
        }
        match *at == blob.size {
            true => Ok(()),
            false => Err(temporary(&format!("it sent {at} of {} bytes", blob.size))),
        }
    }
}

/// Tells whether a partial response begins at the requested byte.
fn begins_at<T>(response: &http::Response<T>, at: u64) -> bool {
    let range = response.headers().get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
    range
        .and_then(|range| range.strip_prefix("bytes "))
        .is_some_and(|range| range.split_once('-').is_some_and(|(first, _)| first.trim().parse() == Ok(at)))
}

/// Writes a blob, and returns the digest of what was written.
fn write(mut file: File, mut queue: mpsc::Receiver<Step>) -> io::Result<Digest> {
    let mut hash = Context::new(&SHA256);
    while let Some(step) = queue.blocking_recv() {
        match step {
            Step::Append(chunk) => {
                file.write_all(&chunk)?;
                hash.update(&chunk);
            }
            Step::Restart => {
                file.set_len(0)?;
                file.rewind()?;
                hash = Context::new(&SHA256);
            }
        }
    }
    Ok(Digest::from_hash(&hash.finish()))
}
