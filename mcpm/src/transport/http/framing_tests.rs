use bytes::Bytes;
use proptest::prelude::*;

use super::Framing;

/// Reads a body that arrives in pieces, and the bytes that are left after it; `None` if the body is malformed.
fn read(mut framing: Framing, chunks: &[&[u8]]) -> Option<(Vec<u8>, bool, Vec<u8>)> {
    let mut body = Vec::new();
    let mut behind = Vec::new();
    for chunk in chunks {
        let mut read = Bytes::copy_from_slice(chunk);
        let is_sound = framing.check(chunk).is_ok();
        loop {
            let Ok(taken) = framing.take(&mut read) else {
                assert!(!is_sound, "`check` sees what `take` sees");
                return None;
            };
            let Some(chunk) = taken else { break };
            assert!(!chunk.is_empty());
            body.extend_from_slice(&chunk);
        }
        assert!(is_sound, "`check` sees no more than `take`");
        behind.extend_from_slice(&read);
    }
    Some((body, framing.is_done(), behind))
}

#[test]
fn malformed_chunks_are_rejected() {
    for text in [
        "\r\n",
        "g\r\n",
        "-1\r\n",
        "+1\r\na\r\n",
        "0x1\r\na\r\n",
        " 1\r\na\r\n",
        "1 5\r\na\r\n",
        "1\na\n",
        "1\r\nab\r\n",
        "1\r\na\n0\r\n\r\n",
        "1;x\n\r\na\r\n",
        "10000000000000000\r\n",
        "0\r\nTrailer: a\n\r\n",
        "0\r\n\rx",
    ] {
        assert_eq!(read(Framing::chunked(), &[text.as_bytes()]), None, "{text:?}");
    }
    let long = format!("1;{}\r\na\r\n", "x".repeat(9000));
    assert_eq!(read(Framing::chunked(), &[long.as_bytes()]), None);
    let long = format!("0\r\n{}\r\n", "a: b\r\n".repeat(2000));
    assert_eq!(read(Framing::chunked(), &[long.as_bytes()]), None);
}

#[test]
fn trailers_and_extensions_are_skipped() {
    let text = b"3 ;a=\"b\"\r\nabc\r\n00A\r\n0123456789\r\n0;x\r\nA: b\r\nC: d\r\n\r\nnext";
    let read = read(Framing::chunked(), &[text]);
    assert_eq!(read, Some((b"abc0123456789".to_vec(), true, b"next".to_vec())));
}

#[test]
fn the_end_of_a_body_is_known_with_its_last_chunk() {
    let mut framing = Framing::chunked();
    let mut text = Bytes::from_static(b"3\r\nabc\r\n0\r\n\r\n");
    assert_eq!(framing.take(&mut text).ok().flatten(), Some(Bytes::from_static(b"abc")));
    assert!(framing.is_done());
}

proptest! {
    #[test]
    fn a_body_is_the_same_wherever_it_is_cut(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        sized in any::<bool>(),
    ) {
        let body = chunks.concat();
        let (framing, mut text) = if sized {
            (Framing::Sized(body.len() as u64), body.clone())
        } else {
            let chunk = |data: &Vec<u8>| [format!("{:X}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat();
            let text: Vec<u8> = chunks.iter().flat_map(chunk).collect();
            (Framing::chunked(), [&text[..], b"0\r\n\r\n"].concat())
        };
        text.extend_from_slice(b"next");
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len())).collect();
        cuts.sort_unstable();
        let mut chunks = Vec::new();
        let mut from = 0;
        for cut in cuts {
            chunks.push(&text[from..cut]);
            from = cut;
        }
        chunks.push(&text[from..]);
        prop_assert_eq!(read(framing, &chunks), Some((body, true, b"next".to_vec())));
    }
}
