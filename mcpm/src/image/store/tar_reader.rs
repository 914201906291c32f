//! Reads tar archives as a stream: ustar, GNU and PAX headers, long names and sparse files.
//!
//! The crate `tar` decodes headers. Its own iterator holds extended headers of any size in memory and knows only one
//! form of sparse files, so entries are read here. Each size is checked before memory is reserved for it.

use std::io::{self, ErrorKind, Read};

use tar::{EntryType, GnuExtSparseHeader, GnuSparseHeader, Header};

use super::{
    limits::{MAX_HEADER_BYTES, MAX_SPARSE_SEGMENTS, invalid},
    pax::{PaxHeader, Segment},
};

const BLOCK_BYTES: usize = 512;

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    File,
    Folder,
    HardLink,
    SymbolicLink,
    /// A device, a named pipe, or a kind that only some archivers know.
    Other,
}

/// The header of an entry. Nothing of it is trusted.
#[derive(Debug)]
pub(super) struct TarEntry {
    pub(super) path: Vec<u8>,
    pub(super) kind: EntryKind,
    /// The target of a link.
    pub(super) link: Vec<u8>,
    pub(super) mode: u32,
    pub(super) uid: u64,
    pub(super) gid: u64,
    /// Seconds since 1970, and nanoseconds.
    pub(super) modified: (i64, u32),
    /// Extended attributes.
    pub(super) attributes: Vec<(Vec<u8>, Vec<u8>)>,
    /// The size of a file, holes included.
    pub(super) size: u64,
    /// The data of a sparse file, in ascending order; `None` for others.
    pub(super) segments: Option<Vec<Segment>>,
}

/// A reader of entries. Its [`Read`] implementation returns the data of the last entry that was returned.
pub(super) struct TarReader<R> {
    input: R,
    /// Bytes of data of the current entry that were not read yet.
    remaining: u64,
    /// Bytes that fill up the last block of that data.
    padding: u64,
}

/// Headers that extend the next one.
#[derive(Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    pax: PaxHeader,
}

impl<R: Read> TarReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, remaining: 0, padding: 0 }
    }

    /// Returns the next entry; `None` at the end of the archive. The unread data of the current entry is skipped.
    pub(super) fn next_entry(&mut self) -> io::Result<Option<TarEntry>> {
        let mut extensions = Extensions::default();
        loop {
            self.skip_data()?;
            let Some(block) = self.read_header()? else { return Ok(None) };
            let header = Header::from_byte_slice(&block);
            let size = header.entry_size().map_err(|_| invalid("the size in a header is invalid"))?;
            match header.entry_type() {
                EntryType::GNULongName => extensions.path = Some(until_nul(self.read_extension(size)?)),
                EntryType::GNULongLink => extensions.link = Some(until_nul(self.read_extension(size)?)),
                EntryType::XHeader => extensions.pax = PaxHeader::parse(&self.read_extension(size)?)?,
                // Engines ignore global headers, too: archivers write comments to them.
                EntryType::XGlobalHeader => self.begin_data(size)?,
                _ => return self.entry(header, size, extensions).map(Some),
            }
        }
    }

    /// Returns the rest of the stream, which the caller reads so that the whole stream is hashed.
    pub(super) fn into_rest(self) -> R {
        self.input
    }

    fn entry(&mut self, header: &Header, size: u64, extensions: Extensions) -> io::Result<TarEntry> {
        let Extensions { path, link, pax } = extensions;
        let number = |value: io::Result<u64>| value.map_err(|_| invalid("a header has an invalid number"));
        let path = pax.path().or(path).unwrap_or_else(|| header.path_bytes().into_owned());
        let kind = match header.entry_type() {
            // Archives from before 1988 mark folders in this way.
            EntryType::Regular if header.as_bytes()[156] == 0 && path.ends_with(b"/") => EntryKind::Folder,
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => EntryKind::File,
            EntryType::Directory => EntryKind::Folder,
            EntryType::Link => EntryKind::HardLink,
            EntryType::Symlink => EntryKind::SymbolicLink,
            _ => EntryKind::Other,
        };
        let stored = pax.size()?.unwrap_or(size);
        let has_data = match header.entry_type() {
            // Some archivers record a size for these entries, but write no data.
            EntryType::Link | EntryType::Symlink | EntryType::Directory => false,
            EntryType::Char | EntryType::Block | EntryType::Fifo => false,
            _ => kind != EntryKind::Folder,
        };
        self.begin_data(if has_data { stored } else { 0 })?;
        let mut entry = TarEntry {
            path,
            kind,
            link: pax
                .link()
                .or(link)
                .or_else(|| header.link_name_bytes().map(|name| name.into_owned()))
                .unwrap_or_default(),
            mode: header.mode().map_err(|_| invalid("a header has an invalid mode"))?,
            uid: pax.uid()?.map_or_else(|| number(header.uid()), Ok)?,
            gid: pax.gid()?.map_or_else(|| number(header.gid()), Ok)?,
            modified: match pax.modified() {
                Some(time) => time,
                // A time that cannot be represented becomes 0, which is harmless.
                None => (header.mtime().ok().and_then(|time| i64::try_from(time).ok()).unwrap_or(0), 0),
            },
            attributes: pax.attributes(),
            size: if has_data { stored } else { 0 },
            segments: None,
        };
        if kind == EntryKind::File {
            let found = match header.as_gnu() {
                Some(gnu) if header.entry_type() == EntryType::GNUSparse => {
                    let size = number(gnu.real_size())?;
                    Some((size, self.gnu_segments(gnu)?))
                }
                _ if pax.has_sparse_map_in_data() => Some((pax.sparse_size()?, self.segments_in_data()?)),
                _ => pax.sparse_segments()?,
            };
            if let Some((size, segments)) = found {
                check_segments(&segments, size, self.remaining)?;
                (entry.size, entry.segments) = (size, Some(segments));
            }
        }
        Ok(entry)
    }

    /// Reads a header and verifies its checksum.
    fn read_header(&mut self) -> io::Result<Option<[u8; BLOCK_BYTES]>> {
        let mut block = [0; BLOCK_BYTES];
        let mut filled = 0;
        while filled < BLOCK_BYTES {
            match self.input.read(&mut block[filled..]) {
                // Some archives end without the blocks of zeros.
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let summed = block.iter().enumerate().map(|(at, byte)| match at {
            148..156 => u32::from(b' '),
            _ => u32::from(*byte),
        });
        let recorded = Header::from_byte_slice(&block).cksum();
        match recorded.is_ok_and(|recorded| recorded == summed.sum::<u32>()) {
            true => Ok(Some(block)),
            false => Err(invalid("it is not a tar archive, or is damaged")),
        }
    }

    fn begin_data(&mut self, size: u64) -> io::Result<()> {
        // The last block of the archive must be addressable, too.
        let blocks = size.checked_next_multiple_of(BLOCK_BYTES as u64);
        let end = blocks.ok_or_else(|| invalid("the size in a header is invalid"))?;
        (self.remaining, self.padding) = (size, end - size);
        Ok(())
    }

    fn skip_data(&mut self) -> io::Result<()> {
        let rest = self.remaining + self.padding;
        let skipped = io::copy(&mut self.input.by_ref().take(rest), &mut io::sink())?;
        (self.remaining, self.padding) = (0, 0);
        if skipped < rest { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// Reads the data of a header that extends the next one.
    fn read_extension(&mut self, size: u64) -> io::Result<Vec<u8>> {
        if size > MAX_HEADER_BYTES {
            return Err(invalid("a header is larger than 1 MiB"));
        }
        self.begin_data(size)?;
        let mut data = Vec::new();
        self.read_to_end(&mut data)?;
        Ok(data)
    }

    /// Reads the segments of GNU's old format: 4 in the header, 21 in each block that follows.
    fn gnu_segments(&mut self, header: &tar::GnuHeader) -> io::Result<Vec<Segment>> {
        let mut segments = Vec::new();
        add_segments(&header.sparse, &mut segments)?;
        let mut is_extended = header.is_extended();
        while is_extended {
            let mut block = GnuExtSparseHeader::new();
            // These blocks precede the data, and are not part of its size.
            self.input.read_exact(block.as_mut_bytes())?;
            add_segments(block.sparse(), &mut segments)?;
            is_extended = block.is_extended();
        }
        Ok(segments)
    }

    /// Reads the segments of GNU's format 1.0: decimal numbers on lines, in blocks before the data.
    fn segments_in_data(&mut self) -> io::Result<Vec<Segment>> {
        let mut text: Vec<u8> = Vec::new();
        let mut numbers: Vec<u64> = Vec::new();
        let damaged = || invalid("a sparse file has an invalid map");
        loop {
            let wanted = numbers.first().map(|count| count.saturating_mul(2).saturating_add(1));
            if wanted.is_some_and(|wanted| numbers.len() as u64 >= wanted) {
                break;
            }
            let mut block = [0; BLOCK_BYTES];
            self.read_exact(&mut block)?;
            text.extend_from_slice(&block);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let number = str::from_utf8(&text[..end]).ok().and_then(|text| text.parse().ok());
                numbers.push(number.ok_or_else(damaged)?);
                text.drain(..=end);
                if numbers[0].saturating_mul(2) < numbers.len() as u64 {
                    break;
                }
            }
            if text.len() > BLOCK_BYTES && !text.contains(&b'\n') || numbers.len() > 2 * MAX_SPARSE_SEGMENTS {
                return Err(damaged());
            }
        }
        let pairs = numbers[1..].chunks_exact(2);
        Ok(pairs.map(|pair| Segment { offset: pair[0], length: pair[1] }).collect())
    }
}

impl<R: Read> Read for TarReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let largest = usize::try_from(self.remaining).map_or(into.len(), |rest| rest.min(into.len()));
        if largest == 0 {
            return Ok(0);
        }
        let count = self.input.read(&mut into[..largest])?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.remaining -= count as u64;
        Ok(count)
    }
}

fn add_segments(from: &[GnuSparseHeader], into: &mut Vec<Segment>) -> io::Result<()> {
    let damaged = |_| invalid("a sparse file has an invalid map");
    for one in from.iter().filter(|one| !one.is_empty()) {
        into.push(Segment { offset: one.offset().map_err(damaged)?, length: one.length().map_err(damaged)? });
    }
    match into.len() > MAX_SPARSE_SEGMENTS {
        true => Err(invalid("a sparse file has too many parts")),
        false => Ok(()),
    }
}

/// Checks that segments ascend, end within the file, and together have exactly the size of the stored data.
fn check_segments(segments: &[Segment], size: u64, stored: u64) -> io::Result<()> {
    let (mut end, mut sum) = (0_u64, 0_u64);
    for segment in segments {
        let next = segment.offset.checked_add(segment.length).filter(|_| segment.offset >= end);
        end = next.ok_or_else(|| invalid("a sparse file has an invalid map"))?;
        sum += segment.length;
    }
    match end <= size && sum == stored {
        true => Ok(()),
        false => Err(invalid("a sparse file has an invalid map")),
    }
}

fn until_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
    bytes
}

#[cfg(test)]
#[path = "tar_reader_tests.rs"]
mod tests;
