//! Tests of unpacking random and damaged archives.
//!
//! These property tests stand in for a fuzz target: cargo-fuzz needs a nightly compiler, which the tests do not
//! install. The tests check where files are created, which depends on sequences of valid entries. A fuzzer that changes
//! bytes rarely finds such sequences, so the strategies build archives from valid entries.

use proptest::prelude::*;
use tar::EntryType;

use super::{
    tests::{Place, archive},
    *,
};
use crate::image::store::archive_builder::{gzip, zstd};

/// Names that lead everywhere, and combine to paths through links.
fn any_path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just(".."),
        Just("."),
        Just(""),
        Just("a"),
        Just("b"),
        Just("link"),
        Just(".wh.a"),
        Just(".wh..wh..opq"),
        Just(".wh..."),
        Just("outside"),
        Just("secret"),
        Just("layer"),
    ];
    proptest::collection::vec(part, 1..5).prop_map(|parts| parts.join("/"))
}

fn any_entry() -> impl Strategy<Value = (u8, String, String, u32)> {
    (
        prop_oneof![Just(b'0'), Just(b'1'), Just(b'2'), Just(b'3'), Just(b'5'), Just(b'6'), any::<u8>()],
        any_path(),
        any_path(),
        any::<u32>(),
    )
}

/// How many archives are tried.
fn cases(count: u32) -> ProptestConfig {
    let more = if std::env::var_os("MCPM_NIGHTLY").is_some() { 20 } else { 1 };
    ProptestConfig { cases: count * more, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn no_sequence_of_entries_leads_outside(entries in proptest::collection::vec(any_entry(), 1..12)) {
        let mut built = archive();
        for (kind, path, link, mode) in entries {
            let link = if kind == b'2' { format!("../{link}") } else { link };
            built = built.entry(EntryType::new(kind), &path, &link, b"", |header| header.set_mode(mode & 0o7777));
        }
        // The archive may be valid or not.
        let _ = Place::new().unpack(&built.finish());
    }

    #[test]
    fn damaged_archives_neither_panic_nor_lead_outside(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..20),
        length in any::<proptest::sample::Index>(),
        compression in 0..3,
    ) {
        let tar = archive()
            .folder("a")
            .file("a/file", &[7; 700])
            .symlink("a/link", "../outside")
            .hard_link("b", "a/file")
            .pax(&[("path", b"long/name"), ("GNU.sparse.size", b"1000"), ("GNU.sparse.map", b"0,1,10,1")])
            .file("x", b"12")
            .file("a/.wh.gone", b"")
            .finish();
        let mut bytes = match compression { 0 => tar, 1 => gzip(&tar), _ => zstd(&tar) };
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(length.index(bytes.len()) + 1);
        let _ = Place::new().unpack_as(&bytes, Ownership::User, &mut Budget::new(1 << 20, 100));
    }

    #[test]
    fn random_bytes_are_no_archive(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
        let place = Place::new();
        let _ = place.unpack(&bytes);
    }
}
