//! Parses extended headers of tar archives in the PAX format, with the keys of GNU tar and of Joerg Schilling's star.

use std::io;

use super::limits::{MAX_SPARSE_SEGMENTS, invalid};

/// The prefix of extended attributes, which star introduced and all engines write.
const ATTRIBUTE_PREFIX: &[u8] = b"SCHILY.xattr.";

/// A part of a sparse file that is not a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// The records of an extended header, in their order; of those with the same key the last one applies.
#[derive(Debug, Default)]
pub(super) struct PaxHeader(Vec<(Vec<u8>, Vec<u8>)>);

impl PaxHeader {
    /// Reads records of the form `LENGTH KEY=VALUE\n`.
    pub(super) fn parse(mut data: &[u8]) -> io::Result<Self> {
        let damaged = || invalid("an extended header is invalid");
        let mut records = Vec::new();
        // Some archivers fill the data with NUL.
        while data.first().is_some_and(|byte| *byte != 0) {
            let space = data.iter().take(12).position(|byte| *byte == b' ').ok_or_else(damaged)?;
            let length = decimal(&data[..space]).and_then(|length| usize::try_from(length).ok());
            let length = length.filter(|length| *length > space + 1 && *length <= data.len());
            let (record, rest) = data.split_at(length.ok_or_else(damaged)?);
            let record = record[space + 1..].strip_suffix(b"\n").ok_or_else(damaged)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(damaged)?;
            records.push((record[..equals].to_vec(), record[equals + 1..].to_vec()));
            data = rest;
        }
        Ok(Self(records))
    }

    fn get(&self, key: &str) -> Option<&[u8]> {
        let found = self.0.iter().rev().find(|(name, _)| name == key.as_bytes());
        // An empty value means that the header's own applies.
        found.map(|(_, value)| value.as_slice()).filter(|value| !value.is_empty())
    }

    fn number(&self, key: &str) -> io::Result<Option<u64>> {
        let number = |value| decimal(value).ok_or_else(|| invalid(format!("`{key}` is not a number")));
        self.get(key).map(number).transpose()
    }

    pub(super) fn path(&self) -> Option<Vec<u8>> {
        self.get("GNU.sparse.name").or_else(|| self.get("path")).map(<[u8]>::to_vec)
    }

    pub(super) fn link(&self) -> Option<Vec<u8>> {
        self.get("linkpath").map(<[u8]>::to_vec)
    }

    /// The size of the data in the archive.
    pub(super) fn size(&self) -> io::Result<Option<u64>> {
        self.number("size")
    }

    pub(super) fn uid(&self) -> io::Result<Option<u64>> {
        self.number("uid")
    }

    pub(super) fn gid(&self) -> io::Result<Option<u64>> {
        self.number("gid")
    }

    /// The time of the last change: seconds since 1970 with a fraction. `None` if it is missing or invalid.
    pub(super) fn modified(&self) -> Option<(i64, u32)> {
        let text = str::from_utf8(self.get("mtime")?).ok()?;
        let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
        let nanos: String = fraction.chars().chain("000000000".chars()).take(9).collect();
        Some((seconds.parse().ok()?, nanos.parse().ok()?))
    }

    /// The extended attributes.
    pub(super) fn attributes(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let named = |(key, value): &(Vec<u8>, Vec<u8>)| {
            Some((key.strip_prefix(ATTRIBUTE_PREFIX)?.to_vec(), value.clone()))
        };
        self.0.iter().filter_map(named).collect()
    }

    /// Whether the data begins with the map of a sparse file: GNU's format 1.0.
    pub(super) fn has_sparse_map_in_data(&self) -> bool {
        self.get("GNU.sparse.major") == Some(b"1") && self.get("GNU.sparse.minor") == Some(b"0")
    }

    /// The size of a sparse file, holes included.
    pub(super) fn sparse_size(&self) -> io::Result<u64> {
        let size = self
            .number("GNU.sparse.realsize")?
            .map_or_else(|| self.number("GNU.sparse.size"), |size| Ok(Some(size)))?;
        size.ok_or_else(|| invalid("a sparse file has no size"))
    }

    /// The size and the data of a sparse file in GNU's formats 0.0 and 0.1; `None` for other files.
    pub(super) fn sparse_segments(&self) -> io::Result<Option<(u64, Vec<Segment>)>> {
        let damaged = || invalid("a sparse file has an invalid map");
        let numbers: Vec<u64> = match self.get("GNU.sparse.map") {
            Some(map) => {
                let numbers = map.split(|byte| *byte == b',').map(decimal);
                numbers.collect::<Option<_>>().ok_or_else(damaged)?
            }
            None => {
                let keys: [&[u8]; 2] = [b"GNU.sparse.offset", b"GNU.sparse.numbytes"];
                let records = self.0.iter().filter(|(key, _)| keys.contains(&key.as_slice()));
                records.map(|(_, value)| decimal(value)).collect::<Option<_>>().ok_or_else(damaged)?
            }
        };
        if numbers.is_empty() {
            return Ok(None);
        }
        if numbers.len() % 2 == 1 || numbers.len() > 2 * MAX_SPARSE_SEGMENTS {
            return Err(damaged());
        }
        let pairs = numbers.chunks_exact(2);
        let segments = pairs.map(|pair| Segment { offset: pair[0], length: pair[1] }).collect();
        Ok(Some((self.sparse_size()?, segments)))
    }
}

/// Reads a number in decimal digits.
fn decimal(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &str, value: &str) -> String {
        let rest = format!(" {key}={value}\n");
        // The length includes its own digits.
        let length = (1..).find(|length: &usize| length.to_string().len() + rest.len() == *length);
        format!("{}{rest}", length.unwrap())
    }

    fn header(records: &[(&str, &str)]) -> PaxHeader {
        let text: String = records.iter().map(|(key, value)| record(key, value)).collect();
        PaxHeader::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_last_record_of_a_key_applies() {
        let header = header(&[
            ("path", "a"),
            ("path", "b=c"),
            ("size", "12"),
            ("mtime", "1700000000.25"),
            ("SCHILY.xattr.user.x", "v"),
            ("linkpath", ""),
        ]);
        assert_eq!((header.path().unwrap(), header.link()), (b"b=c".to_vec(), None));
        assert_eq!((header.size().unwrap(), header.uid().unwrap()), (Some(12), None));
        assert_eq!(header.modified(), Some((1_700_000_000, 250_000_000)));
        assert_eq!(header.attributes(), [(b"user.x".to_vec(), b"v".to_vec())]);
    }

    #[test]
    fn each_form_of_a_sparse_map_is_read() {
        let maps = [
            header(&[("GNU.sparse.size", "100"), ("GNU.sparse.map", "0,10,50,5")]),
            header(&[
                ("GNU.sparse.size", "100"),
                ("GNU.sparse.offset", "0"),
                ("GNU.sparse.numbytes", "10"),
                ("GNU.sparse.offset", "50"),
                ("GNU.sparse.numbytes", "5"),
            ]),
        ];
        for map in maps {
            let (size, segments) = map.sparse_segments().unwrap().unwrap();
            let expected = [Segment { offset: 0, length: 10 }, Segment { offset: 50, length: 5 }];
            assert_eq!((size, segments.as_slice()), (100, &expected[..]));
        }
        assert!(header(&[("GNU.sparse.map", "0,10")]).sparse_segments().is_err());
        assert!(header(&[("GNU.sparse.size", "1"), ("GNU.sparse.map", "0,x")]).sparse_segments().is_err());
        assert!(header(&[("GNU.sparse.size", "1"), ("GNU.sparse.map", "0")]).sparse_segments().is_err());
    }

    #[test]
    fn invalid_records_are_rejected() {
        for bad in [
            "7 a=b",
            "5 a=b\n",
            "99 a=b\n",
            "0 a=b\n",
            "x a=b\n",
            "5 ab\n",
            "3 \n",
            "18446744073709551616 a=b\n",
        ] {
            assert!(PaxHeader::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(header(&[("size", "-1")]).size().is_err());
        assert!(PaxHeader::parse(b"6 a=b\n\0\0").is_ok());
    }
}
