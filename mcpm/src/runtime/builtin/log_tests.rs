use futures_util::{StreamExt as _, TryStreamExt as _};

use super::*;
use crate::{
    runtime::builtin::container::{ContainerProcess, Containers, Record, tests::spec},
    state::ProcessId,
};

fn chunk(stream: LogStream, text: &str) -> LogChunk {
    LogChunk { stream, bytes: Bytes::copy_from_slice(text.as_bytes()) }
}

fn container() -> (tempfile::TempDir, ContainerFolder) {
    let state = tempfile::tempdir().unwrap();
    let record = Record { spec: spec("w"), image: "sha256:0".to_owned() };
    let folder = Containers::new(state.path()).create(&record).unwrap();
    (state, folder)
}

async fn text(folder: &ContainerFolder, tail: Option<usize>) -> String {
    let chunks = read(folder.clone(), LogOptions { follow: false, tail }).unwrap();
    let chunks: Vec<LogChunk> = chunks.try_collect().await.unwrap();
    chunks.iter().map(|chunk| String::from_utf8_lossy(&chunk.bytes)).collect()
}

#[tokio::test]
async fn the_last_lines_are_those_of_both_streams() {
    let (_state, folder) = container();
    assert_eq!(text(&folder, None).await, "");
    let mut log = LogWriter::open(&folder).unwrap();
    for (stream, part) in [
        (LogStream::Stdout, "one\ntw"),
        (LogStream::Stdout, "o\n"),
        (LogStream::Stderr, "three\nfour\n"),
        (LogStream::Stdout, "five"),
    ] {
        log.write(&chunk(stream, part));
    }
    for (tail, expected) in [
        (None, "one\ntwo\nthree\nfour\nfive"),
        (Some(0), ""),
        (Some(1), "five"),
        (Some(2), "four\nfive"),
        (Some(4), "two\nthree\nfour\nfive"),
        (Some(5), "one\ntwo\nthree\nfour\nfive"),
        (Some(9), "one\ntwo\nthree\nfour\nfive"),
    ] {
        assert_eq!(text(&folder, tail).await, expected, "{tail:?}");
    }
    log.write(&chunk(LogStream::Stdout, "\n"));
    assert_eq!(text(&folder, Some(1)).await, "five\n");
}

#[tokio::test]
async fn a_log_is_rotated_and_holds_two_files_at_most() {
    let (_state, folder) = container();
    let mut log = LogWriter::open(&folder).unwrap();
    let line = "x".repeat(MAX_FRAME_BYTES - 1) + "\n";
    let frames = 3 * usize::try_from(MAX_FILE_BYTES).unwrap() / line.len();
    for _ in 0..frames {
        log.write(&chunk(LogStream::Stderr, &line));
    }
    log.write(&chunk(LogStream::Stderr, "last"));
    let size = |name: &str| fs::metadata(folder.file(name)).unwrap().len();
    let largest = MAX_FILE_BYTES + (MAX_FRAME_BYTES + HEADER_BYTES) as u64;
    assert!(size(CURRENT) <= largest && size(PREVIOUS) <= largest);
    assert_eq!(text(&folder, Some(1)).await, "last");
}

#[tokio::test]
async fn a_reader_follows_until_the_container_exits() {
    let (_state, folder) = container();
    let mut process = tokio::process::Command::new("sleep").arg("60").spawn().unwrap();
    let id = ProcessId::of(process.id().unwrap());
    folder.set_process(ContainerProcess { monitor: id, first: id }).unwrap();
    let mut log = LogWriter::open(&folder).unwrap();
    log.write(&chunk(LogStream::Stdout, "before"));
    let mut chunks = read(folder.clone(), LogOptions { follow: true, tail: None }).unwrap();
    let mut next = async || chunks.next().await.transpose().unwrap();
    assert_eq!(next().await, Some(chunk(LogStream::Stdout, "before")));
    let line = "y".repeat(MAX_FRAME_BYTES);
    for at in 0..400_u32 {
        // Enough for two rotations.
        log.write(&chunk(LogStream::Stdout, &line));
        log.write(&chunk(LogStream::Stderr, &at.to_string()));
        assert_eq!(next().await.map(|chunk| chunk.bytes.len()), Some(line.len()));
        assert_eq!(next().await, Some(chunk(LogStream::Stderr, &at.to_string())));
    }
    process.kill().await.unwrap();
    assert_eq!(next().await, None);
}

#[test]
fn a_damaged_log_is_an_error() {
    let (_state, folder) = container();
    fs::write(folder.file(CURRENT), [9; 64]).unwrap();
    assert!(read(folder, LogOptions::default()).is_err());
}
