use futures_util::{StreamExt as _, TryStreamExt as _, future::poll_immediate};

use super::*;

fn chunk(stream: LogStream, text: &str) -> LogChunk {
    LogChunk { stream, bytes: Bytes::copy_from_slice(text.as_bytes()), time: None }
}

fn new_log() -> (tempfile::TempDir, LogFile) {
    let folder = tempfile::tempdir().unwrap();
    let log = LogFile::new(folder.path().to_owned(), "log");
    (folder, log)
}

async fn text(log: &LogFile, tail: Option<usize>) -> String {
    text_since(log, tail, None).await
}

async fn text_since(log: &LogFile, tail: Option<usize>, since: Option<SystemTime>) -> String {
    let chunks = read(log.clone(), LogOptions { follow: false, tail }, since, || None).await.unwrap();
    let chunks: Vec<LogChunk> = chunks.try_collect().await.unwrap();
    chunks.iter().map(|chunk| String::from_utf8_lossy(&chunk.bytes)).collect()
}

#[tokio::test]
async fn the_last_lines_are_those_of_both_streams() {
    let (_folder, log_file) = new_log();
    assert_eq!(text(&log_file, None).await, "");
    let mut log = LogWriter::open(log_file.clone()).unwrap();
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
        assert_eq!(text(&log_file, tail).await, expected, "{tail:?}");
    }
    log.write(&chunk(LogStream::Stdout, "\n"));
    assert_eq!(text(&log_file, Some(1)).await, "five\n");
}

#[tokio::test]
async fn a_log_is_rotated_and_holds_two_files_at_most() {
    let (_folder, log_file) = new_log();
    let mut log = LogWriter::open(log_file.clone()).unwrap();
    let line = "x".repeat(MAX_FRAME_BYTES - 1) + "\n";
    let frames = 3 * usize::try_from(MAX_FILE_BYTES).unwrap() / line.len();
    for _ in 0..frames {
        log.write(&chunk(LogStream::Stderr, &line));
    }
    log.write(&chunk(LogStream::Stderr, "last"));
    let size = |name: PathBuf| fs::metadata(name).unwrap().len();
    let largest = MAX_FILE_BYTES + (MAX_FRAME_BYTES + HEADER_BYTES) as u64;
    assert!(size(log_file.current()) <= largest && size(log_file.previous()) <= largest);
    assert_eq!(text(&log_file, Some(1)).await, "last");
}

#[tokio::test]
async fn a_reader_follows_until_the_server_exits() {
    let (_folder, log_file) = new_log();
    let mut process = tokio::process::Command::new("sleep").arg("60").spawn().unwrap();
    let id = ProcessId::of(process.id().unwrap());
    let mut log = LogWriter::open(log_file.clone()).unwrap();
    log.write(&chunk(LogStream::Stdout, "before"));
    let runner = move || id.is_alive().then_some(id);
    let follow = LogOptions { follow: true, tail: None };
    let mut chunks = read(log_file.clone(), follow, None, runner).await.unwrap();
    let mut next =
        async || chunks.next().await.transpose().unwrap().map(|chunk| LogChunk { time: None, ..chunk });
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
    // Output that this process has read may not be written yet.
    let mut last = Box::pin(chunks.next());
    assert!(poll_immediate(&mut last).await.is_none());
    log.write(&chunk(LogStream::Stdout, "last"));
    drop(log);
    assert_eq!(last.await.transpose().unwrap().unwrap().bytes, "last");
    assert!(chunks.next().await.is_none());
}

#[tokio::test]
async fn the_log_of_an_exited_server_is_complete() {
    let (_folder, log_file) = new_log();
    let mut log = LogWriter::open(log_file.clone()).unwrap();
    let mut waiting = Box::pin(log_file.wait_for_writer());
    for _ in 0..1000 {
        assert!(poll_immediate(&mut waiting).await.is_none());
        tokio::task::yield_now().await;
    }
    log.write(&chunk(LogStream::Stderr, "last words"));
    drop(log);
    waiting.await;
    assert_eq!(text(&log_file, None).await, "last words");
}

#[tokio::test]
async fn a_torn_frame_does_not_end_the_log() {
    let (_folder, log_file) = new_log();
    for torn in [&[9; 64][..], b"x", b"\x01\0\0\0\0\0\0\0\0\x05\0\0\0hello"] {
        LogWriter::open(log_file.clone()).unwrap().write(&chunk(LogStream::Stderr, "before,"));
        let mut file = OpenOptions::new().append(true).open(log_file.current()).unwrap();
        file.write_all(torn).unwrap();
        LogWriter::open(log_file.clone()).unwrap().write(&chunk(LogStream::Stderr, "after;"));
    }
    assert_eq!(text(&log_file, None).await, "before,after;".repeat(3));
    // The beginning of a frame, whose writer was killed. Its length would include the data that follows.
    let complete = fs::read(log_file.current()).unwrap();
    let mut file = OpenOptions::new().append(true).open(log_file.current()).unwrap();
    file.write_all(&complete[..HEADER_BYTES + 2]).unwrap();
    let mut log = LogWriter::open(log_file.clone()).unwrap();
    for _ in 0..2 {
        log.write(&chunk(LogStream::Stderr, "later"));
    }
    assert!(text(&log_file, None).await.ends_with("later"));
}

#[tokio::test]
async fn only_what_was_written_since_is_read() {
    let (_folder, log_file) = new_log();
    let mut log = LogWriter::open(log_file.clone()).unwrap();
    log.write(&chunk(LogStream::Stderr, "one\n"));
    let chunks = read(log_file.clone(), LogOptions::default(), None, || None).await.unwrap();
    let time = chunks.try_collect::<Vec<_>>().await.unwrap()[0].time.unwrap();
    assert!(time <= SystemTime::now() && time.elapsed().unwrap() < crate::testing::TEST_TIMEOUT);
    for (since, expected) in [(time, "one\n"), (time + Duration::from_millis(1), "")] {
        assert_eq!(text_since(&log_file, None, Some(since)).await, expected);
    }
}

#[tokio::test]
async fn a_log_whose_file_is_gone_is_begun_again() {
    let (_folder, log_file) = new_log();
    let mut log = LogWriter::open(log_file.clone()).unwrap();
    log.write(&chunk(LogStream::Stderr, "before"));
    fs::remove_file(log_file.current()).unwrap();
    log.write(&chunk(LogStream::Stderr, "after"));
    assert_eq!(text(&log_file, None).await, "after");
    // A rotation that fails after the first step.
    let large = chunk(LogStream::Stderr, &"x".repeat(1 << 20));
    while fs::metadata(log_file.current()).unwrap().len() < MAX_FILE_BYTES {
        log.write(&large);
    }
    fs::rename(log_file.current(), log_file.previous()).unwrap();
    log.write(&chunk(LogStream::Stderr, "later"));
    assert!(text(&log_file, None).await.ends_with("xlater"));
}
