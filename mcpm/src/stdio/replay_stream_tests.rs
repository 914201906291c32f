use futures_util::FutureExt as _;

use super::*;
use crate::{memory::MEMORY_BUDGET_BYTES, stdio::session::Session};

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn stream(replayable: bool) -> Arc<MessageStream> {
    MessageStream::new(1, replayable, Account::new())
}

/// The next item, which is available already.
fn next(reader: &mut MessageReader) -> StreamItem {
    reader.next().now_or_never().expect("a step without a wait")
}

#[test]
fn a_reader_gets_everything_in_order_and_then_the_end() {
    let message_stream = stream(false);
    let mut reader = message_stream.attach_reader(None);
    message_stream.push(bytes("a"));
    message_stream.push_response(bytes("b"));
    assert_eq!(next(&mut reader), StreamItem::Message { position: 1, bytes: bytes("a"), is_response: false });
    assert_eq!(next(&mut reader), StreamItem::Message { position: 2, bytes: bytes("b"), is_response: true });
    assert_eq!(next(&mut reader), StreamItem::End(StreamEnd::Complete));
    assert!(message_stream.is_evictable(Instant::now()));
}

#[test]
fn a_stream_is_reachable_until_its_first_reader_is_gone_for_good() {
    let message_stream = stream(true);
    assert!(message_stream.is_reachable());
    let reader = message_stream.attach_reader(None);
    assert!(message_stream.is_reachable());
    drop(reader);
    assert!(!message_stream.is_reachable());
}

#[test]
fn a_second_reader_takes_over_and_can_go_back() {
    let message_stream = stream(true);
    let mut first = message_stream.attach_reader(None);
    message_stream.push(bytes("a"));
    message_stream.push(bytes("b"));
    next(&mut first);
    next(&mut first);
    let mut second = message_stream.attach_reader(Some(1));
    assert_eq!(next(&mut first), StreamItem::End(StreamEnd::Superseded));
    drop(first);
    assert!(message_stream.is_attached());
    assert_eq!(next(&mut second), StreamItem::Message { position: 2, bytes: bytes("b"), is_response: false });
}

#[test]
fn a_reader_that_falls_behind_ends_instead_of_losing_messages_silently() {
    let message_stream = stream(false);
    let part = Bytes::from(vec![b'x'; MEMORY_BUDGET_BYTES / 2]);
    assert!(message_stream.push(part.clone()));
    assert!(!message_stream.push(part));
    let mut reader = message_stream.attach_reader(None);
    assert!(matches!(next(&mut reader), StreamItem::Message { position: 1, .. }));
    assert_eq!(next(&mut reader), StreamItem::End(StreamEnd::Overflow));
}

#[test]
fn a_reader_that_has_read_all_is_told_that_there_is_no_room() {
    let message_stream = stream(false);
    let mut reader = message_stream.attach_reader(None);
    assert!(message_stream.push(bytes("a")));
    assert!(matches!(next(&mut reader), StreamItem::Message { position: 1, .. }));
    message_stream.push_response(Bytes::from(vec![b'x'; MEMORY_BUDGET_BYTES]));
    assert_eq!(next(&mut reader), StreamItem::End(StreamEnd::NoRoom));
}

#[test]
fn a_large_answer_can_be_read_again() {
    let message_stream = stream(true);
    let mut reader = message_stream.attach_reader(None);
    reader.set_resumable();
    let answer = Bytes::from(vec![b'x'; 2 * MAX_REPLAY_BYTES]);
    message_stream.push(answer.clone());
    message_stream.push_response(answer.clone());
    while !matches!(next(&mut reader), StreamItem::End(_)) {}
    drop(reader);
    let mut reader = message_stream.attach_reader(Some(0));
    assert_eq!(next(&mut reader), StreamItem::Message { position: 2, bytes: answer, is_response: true });
    assert_eq!(next(&mut reader), StreamItem::End(StreamEnd::Complete));
}

#[test]
fn a_discarded_response_ends_the_stream_with_overflow() {
    let message_stream = stream(true);
    message_stream.push_response(bytes("a"));
    message_stream.discard();
    assert_eq!(next(&mut message_stream.attach_reader(Some(0))), StreamItem::End(StreamEnd::GivenUp));
}

#[test]
fn streams_that_ended_are_not_kept_when_there_is_no_room_for_them() {
    let account = Account::new();
    let mut session = Session::new(None, false, Arc::clone(&account), Instant::now());
    let kept = |session: &mut Session| {
        for _ in 0..4 {
            session.open_stream(bytes("1")).push_response(bytes("a"));
        }
        (1..100).filter(|number| session.stream(*number).is_some()).count()
    };
    assert_eq!(kept(&mut session), 4);
    account.reserve(2 * MEMORY_BUDGET_BYTES);
    assert_eq!(kept(&mut session), 1);
}

#[test]
fn an_ended_stream_can_be_replayed_for_a_while() {
    let message_stream = stream(true);
    let reader = message_stream.attach_reader(None);
    reader.set_resumable();
    message_stream.push_response(bytes("a"));
    let later = Instant::now() + REPLAY_RETENTION + Duration::from_secs(1);
    assert!(!message_stream.is_evictable(later));
    drop(reader);
    assert!(!message_stream.is_evictable(Instant::now()) && message_stream.is_evictable(later));
}
