//! Decompresses streams (gzip, Zstandard or uncompressed), and measures their content.
//!
//! The compression is recognized by the first bytes, as engines do, since media types are often wrong. The decompressed
//! size of a stream is limited while it is read.

use std::{
    io::{self, BufRead, BufReader, Cursor, Read},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use flate2::bufread::MultiGzDecoder;
use ring::digest::{Context, SHA256};
use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

use super::limits::{Budget, invalid};
use crate::image::Digest;

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The last three bytes of the magic number of a skippable frame, whose first one varies.
const ZSTD_SKIPPABLE_MAGIC: &[u8] = &[0x2a, 0x4d, 0x18];
/// Compressions that the specification does not allow for layers, but that some archives use.
const UNSUPPORTED: [(&[u8], &str); 3] =
    [(&[0xfd, b'7', b'z', b'X'], "xz"), (b"BZh", "bzip2"), (&[0x04, 0x22, 0x4d, 0x18], "lz4")];

/// Returns the uncompressed stream.
///
/// # Errors
/// `InvalidData` for a compression that is not supported.
pub(super) fn decompressed<'a>(mut input: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut magic = Vec::new();
    input.by_ref().take(4).read_to_end(&mut magic)?;
    let input = BufReader::with_capacity(64 * 1024, Cursor::new(magic.clone()).chain(input));
    if let Some((_, name)) = UNSUPPORTED.iter().find(|(prefix, _)| magic.starts_with(prefix)) {
        return Err(invalid(format!("it is compressed with {name}, which is not supported")));
    }
    Ok(if magic.starts_with(GZIP_MAGIC) {
        Box::new(MultiGzDecoder::new(input))
    } else if magic.starts_with(ZSTD_MAGIC) || magic.get(1..) == Some(ZSTD_SKIPPABLE_MAGIC) {
        Box::new(ZstdReader { input, frame: FrameDecoder::new(), is_in_frame: false })
    } else {
        Box::new(input)
    })
}

/// Decompresses Zstandard. Layers may consist of many frames, some of which hold an index and are skipped.
struct ZstdReader<R> {
    input: R,
    frame: FrameDecoder,
    is_in_frame: bool,
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let damaged = |error: FrameDecoderError| invalid(format!("its Zstandard data is invalid: {error}"));
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            if self.is_in_frame {
                while self.frame.can_collect() == 0 && !self.frame.is_finished() {
                    let strategy = BlockDecodingStrategy::UptoBlocks(1);
                    self.frame.decode_blocks(&mut self.input, strategy).map_err(damaged)?;
                }
                let count = self.frame.read(into)?;
                if count > 0 {
                    return Ok(count);
                }
                self.is_in_frame = false;
            }
            if self.input.fill_buf()?.is_empty() {
                return Ok(0);
            }
            match self.frame.reset(&mut self.input) {
                Ok(()) => self.is_in_frame = true,
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped =
                        io::copy(&mut self.input.by_ref().take(u64::from(length)), &mut io::sink())?;
                    if skipped < u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(damaged(error)),
            }
        }
    }
}

/// Tells blocking work to stop.
#[derive(Debug, Clone, Default)]
pub(super) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    pub(super) fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Hashes and counts what is read, up to the limit of a budget.
pub(super) struct MeasuredReader<R> {
    input: R,
    hash: Context,
    count: u64,
    limit: u64,
    stop: StopFlag,
}

impl<R: Read> MeasuredReader<R> {
    pub(super) fn new(input: R, budget: &Budget, stop: StopFlag) -> Self {
        Self { input, hash: Context::new(&SHA256), count: 0, limit: budget.bytes(), stop }
    }

    /// Returns the digest and the number of the bytes that were read.
    pub(super) fn finish(self) -> (Digest, u64) {
        (Digest::from_hash(&self.hash.finish()), self.count)
    }
}

impl<R: Read> Read for MeasuredReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_stopped() {
            return Err(io::Error::other("it was cancelled"));
        }
        let count = self.input.read(into)?;
        self.count += count as u64;
        if self.count > self.limit {
            return Err(invalid("its uncompressed size exceeds the limit for images"));
        }
        self.hash.update(&into[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(data: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(data, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn read(data: &[u8]) -> io::Result<Vec<u8>> {
        let mut read = Vec::new();
        decompressed(data)?.read_to_end(&mut read).map(|_| read)
    }

    #[test]
    fn each_compression_is_recognized() {
        let data: Vec<u8> = (0..300_000_u32).map(|n| (n / 7) as u8).collect();
        for compressed in [data.clone(), gzip(&data), zstd(&data)] {
            assert!(read(&compressed).unwrap() == data);
        }
        for short in ["", "a", "abc"] {
            assert_eq!(read(short.as_bytes()).unwrap(), short.as_bytes());
        }
    }

    #[test]
    fn concatenated_members_and_skippable_frames_are_read() {
        assert_eq!(read(&[gzip(b"a"), gzip(b"b")].concat()).unwrap(), b"ab");
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"xyz"].concat();
        let frames = [skippable.clone(), zstd(b"a"), skippable.clone(), zstd(b"b"), skippable].concat();
        assert_eq!(read(&frames).unwrap(), b"ab");
    }

    #[test]
    fn damaged_streams_are_errors() {
        let (gzip, zstd) = (gzip(&[7; 9000]), zstd(&[7; 9000]));
        let bad = [
            gzip[..gzip.len() - 4].to_vec(),
            zstd[..zstd.len() - 2].to_vec(),
            [gzip, b"garbage".to_vec()].concat(),
            [zstd, b"garbage".to_vec()].concat(),
            b"\xfd7zXZ\0".to_vec(),
        ];
        for bad in bad {
            assert!(read(&bad).is_err(), "{:?}", &bad[..4]);
        }
    }

    #[test]
    fn what_a_stream_expands_to_is_limited() {
        let bomb = gzip(&vec![0; 1 << 20]);
        let budget = Budget::new(1000, 1);
        let mut reader = MeasuredReader::new(decompressed(&bomb[..]).unwrap(), &budget, StopFlag::default());
        let mut read = Vec::new();
        assert_eq!(reader.read_to_end(&mut read).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(read.len() <= 1000);
    }

    #[test]
    fn reading_stops_on_request() {
        let stop = StopFlag::default();
        let mut reader = MeasuredReader::new(io::repeat(0), &Budget::of_image(), stop.clone());
        reader.read_exact(&mut [0; 10]).unwrap();
        stop.stop();
        reader.read_exact(&mut [0; 10]).unwrap_err();
    }
}
