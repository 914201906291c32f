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
    Isolation::start(None, &spec, Some(8000), Vec::new(), Arc::new(|_| {}), None).unwrap()
}

impl Container {
    fn new(isolation: &Isolation) -> Self {
        let (ours, theirs) = tokio::io::duplex(4 * WINDOW);
        let carrier = isolation.carrier();
        let carried = tokio::spawn(async move {
            let (from, to) = tokio::io::split(ours);
            let input = futures_util::stream::unfold(from, |mut from| async {
                let mut piece = vec![0; PIECE];
                let count = from.read(&mut piece).await.unwrap();
                piece.truncate(count);
                (count > 0).then(|| (Ok(Bytes::from(piece)), from))
            });
            carrier.serve(input, to).await
        });
        let (from, to) = tokio::io::split(theirs);
        Self { from, to, received: Vec::new(), carried }
    }

    async fn say(&mut self, letter: u8, number: u32, bytes: &[u8]) {
        let mut frame = Vec::new();
        frames::put(&mut frame, letter, number, bytes);
        self.to.write_all(&frame).await.unwrap();
    }

    /// The next frame; what is said in several ones of data is not put together.
    async fn hear(&mut self) -> (u8, u32, Vec<u8>) {
        loop {
            if let Some((frame, rest)) = frames::first(&self.received).unwrap() {
                let heard = (frame.letter, frame.number, frame.bytes.to_vec());
                self.received = rest.to_vec();
                return heard;
            }
            assert_ne!(self.from.read_buf(&mut self.received).await.unwrap(), 0);
        }
    }

    /// Begins a connection with a line.
    async fn open(&mut self, number: u32, line: &str) {
        self.say(OPEN, number, b"").await;
        self.say(DATA, number, line.as_bytes()).await;
    }

    /// How the stream ended.
    async fn outcome(self) -> Result<(), io::ErrorKind> {
        self.carried.await.unwrap().map_err(|error| error.kind())
    }
}

#[tokio::test]
async fn a_configuration_is_handed_over_once() {
    let isolation = isolation();
    let env = BTreeMap::from([("CANARY".to_owned(), "feathers".to_owned())]);
    isolation.arm(0, &env).unwrap();
    let mut container = Container::new(&isolation);
    // A number is used again as soon as both ends have closed it.
    for expected in [true, false] {
        container.open(0, "start 0\n").await;
        let mut heard = container.hear().await;
        if expected {
            assert_eq!(heard.0, DATA);
            assert!(heard.2.windows(15).any(|part| part == b"CANARY=feathers"));
            heard = container.hear().await;
        }
        assert_eq!(heard, (END, 0, Vec::new()));
        container.say(END, 0, b"").await;
        assert_eq!(container.hear().await, (CLOSE, 0, Vec::new()));
        container.say(CLOSE, 0, b"").await;
    }
}

#[tokio::test]
async fn no_more_is_sent_than_there_is_room_for() {
    let isolation = isolation();
    let mut container = Container::new(&isolation);
    container.open(7, "inbound\n").await;
    let dial = isolation.inbound();
    let server = tokio::spawn(async move { dial.dial().await.unwrap() });
    assert_eq!(container.hear().await, (DATA, 7, b"!".to_vec()));
    container.say(DATA, 7, b"+").await;
    let mut server = server.await.unwrap();
    let all = WINDOW + 2 * PIECE;
    let writing = tokio::spawn(async move {
        server.write_all(&vec![b'x'; all]).await.unwrap();
        server
    });
    let mut sent = 1;
    while sent < WINDOW {
        let (letter, number, bytes) = container.hear().await;
        assert_eq!((letter, number), (DATA, 7));
        sent += bytes.len();
    }
    assert_eq!(sent, WINDOW);
    // Another connection is not held up, and nothing of the first comes before its answer.
    container.open(8, "start 0\n").await;
    assert_eq!(container.hear().await, (END, 8, Vec::new()));
    container.say(ROOM, 7, &u32::try_from(WINDOW).unwrap().to_le_bytes()).await;
    while sent < all + 1 {
        let (letter, number, bytes) = container.hear().await;
        assert_eq!((letter, number), (DATA, 7));
        sent += bytes.len();
    }
    drop(writing.await.unwrap());
    assert_eq!(container.hear().await, (END, 7, Vec::new()));
}

#[tokio::test]
async fn what_a_connection_says_is_bounded_and_counted() {
    let isolation = isolation();
    let mut container = Container::new(&isolation);
    container.open(0, "inbound\n").await;
    let dial = isolation.inbound();
    let server = tokio::spawn(async move { dial.dial().await.unwrap() });
    assert_eq!(container.hear().await, (DATA, 0, b"!".to_vec()));
    let mut said = 0;
    container.say(DATA, 0, b"+").await;
    let mut server = server.await.unwrap();
    while said < 2 * WINDOW {
        container.say(DATA, 0, &[b'x'; PIECE]).await;
        said += PIECE;
        let mut read = vec![0; PIECE];
        server.read_exact(&mut read).await.unwrap();
    }
    let (letter, _, bytes) = container.hear().await;
    assert_eq!((letter, frames::room(&bytes).is_ok()), (ROOM, true));
    // One that nobody reads has its bound.
    for _ in 0..2 * WINDOW / PIECE + 32 {
        let mut frame = Vec::new();
        frames::put(&mut frame, DATA, 0, &[b'x'; PIECE]);
        if container.to.write_all(&frame).await.is_err() {
            break;
        }
    }
    assert_eq!(container.outcome().await, Err(io::ErrorKind::InvalidData));
}

#[tokio::test]
async fn what_makes_no_sense_ends_the_stream() {
    let isolation = isolation();
    let cases: [&[(u8, u32, &[u8])]; 7] = [
        &[(DATA, 0, b"x")],
        &[(OPEN, 0, b""), (OPEN, 0, b"")],
        &[(OPEN, 0, b""), (END, 0, b""), (DATA, 0, b"x")],
        &[(OPEN, 0, b""), (END, 0, b""), (END, 0, b"")],
        &[(OPEN, 0, b""), (CLOSE, 0, b""), (DATA, 0, b"x")],
        &[(OPEN, 0, b""), (ROOM, 0, &[1, 0, 0, 0])],
        &[(OPEN, CONNECTIONS, b"")],
    ];
    for case in cases {
        let mut container = Container::new(&isolation);
        for (letter, number, bytes) in case {
            container.say(*letter, *number, bytes).await;
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
    let mut carrier =
        Carrier { gate: Arc::clone(&isolation.gate), frames, connections: vec![None], tasks: JoinSet::new() };
    let mut heard = Vec::new();
    for letter in [OPEN, CLOSE, OPEN] {
        frames::put(&mut heard, letter, 0, &[]);
    }
    let first_two = 2 * frames::HEAD;
    // The container reads nothing.
    carrier.frames.try_send(Vec::new()).unwrap();
    assert_eq!(carrier.take(&heard[..first_two]), Ok(0));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(carrier.take(&heard[first_two..]), Err(Strange));
    assert_eq!(carrier.tasks.len(), 1);
    assert_eq!(queued.recv().await, Some(Vec::new()));
    assert_eq!(queued.recv().await.map(|frame| frame[0]), Some(CLOSE));
    assert_eq!(carrier.take(&heard[first_two..]), Ok(0));
}

proptest! {
    #[test]
    fn frames_are_read_as_they_were_written(bytes in prop::collection::vec(any::<u8>(), 1..300), number in 0..CONNECTIONS) {
        let mut written = Vec::new();
        frames::put(&mut written, DATA, number, &bytes);
        frames::put(&mut written, END, number, &[]);
        for cut in 0..frames::HEAD + bytes.len() {
            prop_assert_eq!(frames::first(&written[..cut]), Ok(None));
        }
        let (frame, rest) = frames::first(&written).unwrap().unwrap();
        prop_assert_eq!(frame, Frame { letter: DATA, number, bytes: &bytes });
        let (frame, rest) = frames::first(rest).unwrap().unwrap();
        prop_assert_eq!((frame.letter, rest), (END, &[][..]));
    }

    #[test]
    fn any_bytes_are_frames_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut rest = bytes.as_slice();
        while let Ok(Some((frame, after))) = frames::first(rest) {
            prop_assert!(frame.bytes.len() <= PIECE && after.len() < rest.len());
            rest = after;
        }
    }
}
