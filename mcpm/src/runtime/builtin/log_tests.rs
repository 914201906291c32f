use futures_util::{StreamExt as _, TryStreamExt as _, future::poll_immediate};

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
    let chunks = read(folder.clone(), LogOptions { follow: false, tail }).await.unwrap();
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
    let mut chunks = read(folder.clone(), LogOptions { follow: true, tail: None }).await.unwrap();
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
    // What this process has read of the output before may still have to be written.
    let mut last = Box::pin(chunks.next());
    assert!(poll_immediate(&mut last).await.is_none());
    log.write(&chunk(LogStream::Stdout, "last"));
    drop(log);
    assert_eq!(last.await.transpose().unwrap(), Some(chunk(LogStream::Stdout, "last")));
    assert!(chunks.next().await.is_none());
}

#[tokio::test]
async fn the_log_of_an_exited_container_is_complete() {
    let (_state, folder) = container();
    let mut process = tokio::process::Command::new("sleep").arg("60").spawn().unwrap();
    let id = ProcessId::of(process.id().unwrap());
    folder.set_process(ContainerProcess { monitor: id, first: id }).unwrap();
    let mut log = LogWriter::open(&folder).unwrap();
    process.kill().await.unwrap();
    let mut reading = Box::pin(text(&folder, None));
    for _ in 0..1000 {
        assert!(poll_immediate(&mut reading).await.is_none());
        tokio::task::yield_now().await;
    }
    log.write(&chunk(LogStream::Stderr, "last words"));
    drop(log);
    assert_eq!(reading.await, "last words");
}

#[tokio::test]
async fn a_torn_frame_does_not_end_the_log() {
    let (_state, folder) = container();
    for torn in [&[9; 64][..], b"x", b"\x01\0\0\0\0\0\0\0\0\x05\0\0\0hello"] {
        LogWriter::open(&folder).unwrap().write(&chunk(LogStream::Stderr, "before,"));
        let mut file = OpenOptions::new().append(true).open(folder.file(CURRENT)).unwrap();
        file.write_all(torn).unwrap();
        LogWriter::open(&folder).unwrap().write(&chunk(LogStream::Stderr, "after;"));
    }
    assert_eq!(text(&folder, None).await, "before,after;".repeat(3));
    // The beginning of a frame, whose process was killed, takes what follows for its own.
    let complete = fs::read(folder.file(CURRENT)).unwrap();
    let mut file = OpenOptions::new().append(true).open(folder.file(CURRENT)).unwrap();
    file.write_all(&complete[..HEADER_BYTES + 2]).unwrap();
    let mut log = LogWriter::open(&folder).unwrap();
    for _ in 0..2 {
        log.write(&chunk(LogStream::Stderr, "later"));
    }
    assert!(text(&folder, None).await.ends_with("later"));
}
