use std::collections::BTreeMap;

use super::*;
use crate::{
    isolation::{Isolation, IsolationSpec},
    permission::Outbound,
    transport::http::Dial as _,
};
use proptest::prelude::*;
use tokio::{
    io::{DuplexStream, ReadHalf, WriteHalf},
    task::JoinHandle,
};

/// The container's end of a stream.
struct Container {
    from: ReadHalf<DuplexStream>,
    to: WriteHalf<DuplexStream>,
    received: Vec<u8>,
    carried: JoinHandle<io::Result<()>>,
}

fn isolation() -> Isolation {
    let spec = IsolationSpec {
        command: vec!["server".to_owned()],
        outbound: Outbound::default(),
        runtime_gateway: false,
        learn: None,
    };
    Isolation::start(None, &spec, Some(8000), Vec::new(), Arc::new(|_| {}), None, None).unwrap()
}

impl Container {
    fn new(isolation: &Isolation) -> Self {
        let (ours, theirs) = tokio::io::duplex(4 * WINDOW_BYTES);
        let carrier = isolation.exec_relay();
        let carried = tokio::spawn(async move {
            let (from, to) = tokio::io::split(ours);
            let input = futures_util::stream::unfold(from, |mut from| async {
                let mut chunk = vec![0; MAX_FRAME_PAYLOAD_BYTES];
                let count = from.read(&mut chunk).await.unwrap();
                chunk.truncate(count);
                (count > 0).then(|| (Ok(Bytes::from(chunk)), from))
            });
            carrier.serve(input, to).await
        });
        let (from, to) = tokio::io::split(theirs);
        Self { from, to, received: Vec::new(), carried }
    }

    async fn send_frame(&mut self, letter: u8, number: u32, bytes: &[u8]) {
        let mut frame = Vec::new();
        frames::write_frame(&mut frame, letter, number, bytes);
        self.to.write_all(&frame).await.unwrap();
    }

    /// Returns the next frame; data frames are not joined.
    async fn next_frame(&mut self) -> (u8, u32, Vec<u8>) {
        loop {
            if let Some((frame, rest)) = frames::parse_frame(&self.received).unwrap() {
                let heard = (frame.kind, frame.connection, frame.payload.to_vec());
                self.received = rest.to_vec();
                return heard;
            }
            assert_ne!(self.from.read_buf(&mut self.received).await.unwrap(), 0);
        }
    }

    /// Opens a connection with a first line.
    async fn open(&mut self, number: u32, line: &str) {
        self.send_frame(OPEN, number, b"").await;
        self.send_frame(DATA, number, line.as_bytes()).await;
    }

    /// Returns how the stream ended.
    async fn outcome(self) -> Result<(), io::ErrorKind> {
        self.carried.await.unwrap().map_err(|error| error.kind())
    }
}

#[tokio::test]
async fn a_configuration_is_sent_once() {
    let isolation = isolation();
    let env = BTreeMap::from([("CANARY".to_owned(), "feathers".to_owned())]);
    isolation.set_config(0, &env).unwrap();
    let mut container = Container::new(&isolation);
    // A number is used again as soon as both ends have closed it.
    for expected in [true, false] {
        container.open(0, "start 0\n").await;
        let mut heard = container.next_frame().await;
        if expected {
            assert_eq!(heard.0, DATA);
            assert!(heard.2.windows(15).any(|part| part == b"CANARY=feathers"));
            heard = container.next_frame().await;
        }
        assert_eq!(heard, (END_STREAM, 0, Vec::new()));
        container.send_frame(END_STREAM, 0, b"").await;
        assert_eq!(container.next_frame().await, (CLOSE, 0, Vec::new()));
        container.send_frame(CLOSE, 0, b"").await;
    }
}

#[tokio::test]
async fn respects_the_send_window() {
    let isolation = isolation();
    let mut container = Container::new(&isolation);
    container.open(7, "inbound\n").await;
    let dial = isolation.reverse_dialer();
    let server = tokio::spawn(async move { dial.dial().await.unwrap() });
    assert_eq!(container.next_frame().await, (DATA, 7, b"!".to_vec()));
    container.send_frame(DATA, 7, b"+").await;
    let mut server = server.await.unwrap();
    let all = WINDOW_BYTES + 2 * MAX_FRAME_PAYLOAD_BYTES;
    let writing = tokio::spawn(async move {
        server.write_all(&vec![b'x'; all]).await.unwrap();
        server
    });
    let mut sent = 1;
    while sent < WINDOW_BYTES {
        let (letter, number, bytes) = container.next_frame().await;
        assert_eq!((letter, number), (DATA, 7));
        sent += bytes.len();
    }
    assert_eq!(sent, WINDOW_BYTES);
    // Other connections are not blocked, and no data of the first connection comes before the response to it.
    container.open(8, "start 0\n").await;
    assert_eq!(container.next_frame().await, (END_STREAM, 8, Vec::new()));
    container.send_frame(WINDOW_UPDATE, 7, &u32::try_from(WINDOW_BYTES).unwrap().to_le_bytes()).await;
    while sent < all + 1 {
        let (letter, number, bytes) = container.next_frame().await;
        assert_eq!((letter, number), (DATA, 7));
        sent += bytes.len();
    }
    drop(writing.await.unwrap());
    assert_eq!(container.next_frame().await, (END_STREAM, 7, Vec::new()));
}

#[tokio::test]
async fn enforces_the_receive_window() {
    let isolation = isolation();
    let mut container = Container::new(&isolation);
    container.open(0, "inbound\n").await;
    let dial = isolation.reverse_dialer();
    let server = tokio::spawn(async move { dial.dial().await.unwrap() });
    assert_eq!(container.next_frame().await, (DATA, 0, b"!".to_vec()));
    let mut said = 0;
    container.send_frame(DATA, 0, b"+").await;
    let mut server = server.await.unwrap();
    while said < 2 * WINDOW_BYTES {
        container.send_frame(DATA, 0, &[b'x'; MAX_FRAME_PAYLOAD_BYTES]).await;
        said += MAX_FRAME_PAYLOAD_BYTES;
        let mut read = vec![0; MAX_FRAME_PAYLOAD_BYTES];
        server.read_exact(&mut read).await.unwrap();
    }
    let (letter, _, bytes) = container.next_frame().await;
    assert_eq!((letter, frames::parse_window_update(&bytes).is_ok()), (WINDOW_UPDATE, true));
    // A connection without a reader is limited.
    for _ in 0..2 * WINDOW_BYTES / MAX_FRAME_PAYLOAD_BYTES + 32 {
        let mut frame = Vec::new();
        frames::write_frame(&mut frame, DATA, 0, &[b'x'; MAX_FRAME_PAYLOAD_BYTES]);
        if container.to.write_all(&frame).await.is_err() {
            break;
        }
    }
    assert_eq!(container.outcome().await, Err(io::ErrorKind::InvalidData));
}

#[tokio::test]
async fn an_invalid_frame_ends_the_stream() {
    let isolation = isolation();
    let cases: [&[(u8, u32, &[u8])]; 7] = [
        &[(DATA, 0, b"x")],
        &[(OPEN, 0, b""), (OPEN, 0, b"")],
        &[(OPEN, 0, b""), (END_STREAM, 0, b""), (DATA, 0, b"x")],
        &[(OPEN, 0, b""), (END_STREAM, 0, b""), (END_STREAM, 0, b"")],
        &[(OPEN, 0, b""), (CLOSE, 0, b""), (DATA, 0, b"x")],
        &[(OPEN, 0, b""), (WINDOW_UPDATE, 0, &[1, 0, 0, 0])],
        &[(OPEN, MAX_CONNECTIONS, b"")],
    ];
    for case in cases {
        let mut container = Container::new(&isolation);
        for (letter, number, bytes) in case {
            container.send_frame(*letter, *number, bytes).await;
        }
        assert_eq!(container.outcome().await, Err(io::ErrorKind::InvalidData), "{case:?}");
    }
    let mut container = Container::new(&isolation);
    container.to.shutdown().await.unwrap();
    assert_eq!(container.outcome().await, Ok(()));
}

#[tokio::test]
async fn a_number_is_free_once_there_is_room_to_say_so() {
    let isolation = isolation();
    let (frames, mut queued) = mpsc::channel(1);
    let mut carrier = Demultiplexer {
        state: Arc::clone(&isolation.state),
        frames,
        connections: vec![None],
        tasks: JoinSet::new(),
    };
    let mut heard = Vec::new();
    for letter in [OPEN, CLOSE, OPEN] {
        frames::write_frame(&mut heard, letter, 0, &[]);
    }
    let first_two = 2 * frames::FRAME_HEADER_BYTES;
    // The container reads nothing.
    carrier.frames.try_send(Vec::new()).unwrap();
    assert_eq!(carrier.process_received(&heard[..first_two]), Ok(0));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(carrier.process_received(&heard[first_two..]), Err(InvalidFrame));
    assert_eq!(carrier.tasks.len(), 1);
    assert_eq!(queued.recv().await, Some(Vec::new()));
    assert_eq!(queued.recv().await.map(|frame| frame[0]), Some(CLOSE));
    assert_eq!(carrier.process_received(&heard[first_two..]), Ok(0));
}

proptest! {
    #[test]
    fn frames_are_read_as_they_were_written(bytes in prop::collection::vec(any::<u8>(), 1..300), number in 0..MAX_CONNECTIONS) {
        let mut written = Vec::new();
        frames::write_frame(&mut written, DATA, number, &bytes);
        frames::write_frame(&mut written, END_STREAM, number, &[]);
        for cut in 0..frames::FRAME_HEADER_BYTES + bytes.len() {
            prop_assert_eq!(frames::parse_frame(&written[..cut]), Ok(None));
        }
        let (frame, rest) = frames::parse_frame(&written).unwrap().unwrap();
        prop_assert_eq!(frame, Frame { kind: DATA, connection: number, payload: &bytes });
        let (frame, rest) = frames::parse_frame(rest).unwrap().unwrap();
        prop_assert_eq!((frame.kind, rest), (END_STREAM, &[][..]));
    }

    #[test]
    fn any_bytes_are_frames_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut rest = bytes.as_slice();
        while let Ok(Some((frame, after))) = frames::parse_frame(rest) {
            prop_assert!(frame.payload.len() <= MAX_FRAME_PAYLOAD_BYTES && after.len() < rest.len());
            rest = after;
        }
    }
}
