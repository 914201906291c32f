use http::Method;
use proptest::{collection::vec, prelude::*, sample::select};

use super::{Outcome, disagreement, outcomes};

fn both(method: &Method, response: &[u8]) -> (Outcome, Outcome) {
    outcomes(method, response).expect("two connections")
}

#[test]
fn both_clients_accept_valid_responses() {
    for (response, status, body) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", 200, "ok"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok and more", 200, "ok"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\ncontent-length:\t2 \r\n\r\nok", 200, "ok"),
        ("HTTP/1.1 404\r\nA:b\r\na:  c \r\nA:\r\n\r\ngone", 404, "gone"),
        ("HTTP/1.0 200 Fine\r\n\r\nuntil the end", 200, "until the end"),
        ("\r\n\nHTTP/1.1 299 \nx: \u{e9}\n\n", 299, ""),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n2;a=\"b\"\r\nok\r\n0\r\nA: b\r\n\r\n",
            200,
            "ok",
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 9\r\n\r\n02 \r\nok\r\n0;x\r\n\r\n",
            200,
            "ok",
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nlink: a\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            204,
            "",
        ),
        ("HTTP/1.1 304 Not Modified\r\ncontent-length: 10\r\n\r\n", 304, ""),
    ] {
        let (ours, hypers) = both(&Method::GET, response.as_bytes());
        let ours = ours.unwrap_or_else(|error| panic!("{response:?}: {error}"));
        assert_eq!((ours.status, String::from_utf8_lossy(&ours.body)), (status, body.into()), "{response:?}");
        assert_eq!(Ok(ours), hypers, "{response:?}");
    }
}

#[test]
fn both_clients_reject_malformed_responses() {
    for response in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nname : value\r\n\r\n",
        "HTTP/1.1 200 OK\r\nname: value\r\n folded\r\n\r\n",
        "HTTP/1.1 200 OK\r\nname\r\n\r\n",
        "HTTP/1.1 200 OK\r\nname: a\0b\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 2, 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 0x2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length:\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\nok",
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;x\n\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nok\r\n0\r\n\r\n",
    ] {
        let (ours, hypers) = both(&Method::GET, response.as_bytes());
        assert!(ours.is_err() && hypers.is_err(), "{response:?}: {ours:?}, hyper: {hypers:?}");
    }
}

#[test]
fn a_response_without_a_body_ends_with_its_head() {
    for framing in ["content-length: 9", "content-length: x", "transfer-encoding: gzip, chunked", "a: b"] {
        for (method, status) in [(Method::HEAD, 200), (Method::GET, 204), (Method::GET, 304)] {
            let response = format!("HTTP/1.1 {status} \r\n{framing}\r\n\r\n");
            let (ours, hypers) = both(&method, response.as_bytes());
            assert_eq!(ours.as_ref().map(|ours| ours.status), Ok(status), "{framing}");
            assert_eq!(ours, hypers, "{framing}");
        }
    }
}

#[test]
fn the_differences_to_hyper_are_deliberate() {
    for (response, is_accepted) in [
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nok", false),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", false),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            false,
        ),
        ("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n00000000000000002\r\nok\r\n0\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nA: b\n\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nno field\r\n\r\n", true),
    ] {
        let (ours, hypers) = both(&Method::GET, response.as_bytes());
        assert_eq!(
            (ours.is_ok(), hypers.is_ok()),
            (is_accepted, !is_accepted),
            "{response:?}: {ours:?} {hypers:?}"
        );
        assert_eq!(disagreement(&Method::GET, response.as_bytes()), None);
    }
}

/// One of these texts.
fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(texts).prop_map(str::to_owned)
}

/// A line end, which is nearly always valid.
fn line_end() -> impl Strategy<Value = String> {
    prop_oneof![20 => Just("\r\n".to_owned()), 1 => one_of(&["\n", "\r", "", "\r\r\n", "\n\r\n"])]
}

fn status_line() -> impl Strategy<Value = String> {
    let version = prop_oneof![10 => Just("HTTP/1.1"), 2 => Just("HTTP/1.0"), 1 => select(&["HTTP/1.2", "http/1.1", "HTTP/1"][..])];
    let code = prop_oneof![
        8 => select(&["200", "404", "500", "204", "304", "202"][..]),
        2 => select(&["100", "101", "103", "999", "600", "099", "20", "2000", "2x0"][..]),
    ];
    let reason = one_of(&[" OK", "", " ", " Not\tFound", " \u{e9}", "  two", " a\u{1}b"]);
    (version, code, reason, line_end())
        .prop_map(|(version, code, reason, end)| format!("{version} {code}{reason}{end}"))
}

fn header_line() -> impl Strategy<Value = String> {
    let name =
        one_of(&["x", "X-Long-Name", "connection", "a b", "", "n\u{e9}", "content-type", "c\0", "date"]);
    let separator = prop_oneof![10 => Just(": "), 2 => select(&[":", " : ", ":\t\t", " ", ":\r\n "][..])];
    let value = one_of(&["", "a", " a , b ", "close", "keep-alive", "\u{e9}", "a\u{7f}", "\t", "\"q\""]);
    (name, separator, value, line_end())
        .prop_map(|(name, separator, value, end)| format!("{name}{separator}{value}{end}"))
}

fn framing_line() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        6 => Just("Transfer-Encoding: chunked"),
        6 => select(&["content-length: 5", "Content-Length:0", "content-length: 12"][..]),
        3 => select(&[
            "content-length: 5, 5", "content-length: 5,6", "content-length: +5", "content-length: -1", "content-length:",
            "content-length: 5 5", "content-length: 05", "content-length: 18446744073709551615", "content-length: ,5",
            "content-length: 18446744073709551616", "content-length: 0x5", "content-length : 5", "content-length: \u{665}",
            "transfer-encoding: gzip", "transfer-encoding: chunked, gzip", "transfer-encoding: gzip, chunked",
            "transfer-encoding:\tCHUNKED ", "transfer-encoding: chunked,", "transfer-encoding:", "transfer-encoding: xchunked",
        ][..]),
    ];
    (line, line_end()).prop_map(|(line, end)| format!("{line}{end}"))
}

fn chunk() -> impl Strategy<Value = String> {
    let data = one_of(&["a", "hello", "0\r\n\r\n", "\r\n", "0123456789abcdef", ""]);
    let size = prop_oneof![
        12 => Just(None),
        1 => one_of(&["", "0", "g", "-1", "0x5", "5", "ffffffffffffffff", "00000000000000000005", " 5"]).prop_map(Some),
    ];
    let extension = prop_oneof![
        6 => Just(""),
        3 => select(&[";a", ";a=b", "; a = \"b\"", " ;x", " ", "\t", ";", ";a=\"\r\"", ";\u{e9}", " 5", ";a\n"][..]),
    ];
    (data, size, extension, line_end(), line_end()).prop_map(|(data, size, extension, end, data_end)| {
        let size = size.unwrap_or_else(|| format!("{:x}", data.len()));
        format!("{size}{extension}{end}{data}{data_end}")
    })
}

fn body() -> impl Strategy<Value = String> {
    let last = prop_oneof![8 => Just("0"), 1 => select(&["000", "0;last", "0 ", "", "1"][..])];
    let trailers = vec(
        prop_oneof![4 => one_of(&["A: b\r\n", "content-length: 3\r\n", "x:\r\n"]), 1 => header_line()],
        0..3,
    );
    let after = one_of(&["", "", "HTTP/1.1 200 OK\r\n\r\n", "x"]);
    let chunked = (vec(chunk(), 0..4), last, line_end(), trailers, line_end(), after).prop_map(
        |(chunks, last, end, trailers, last_end, after)| {
            format!("{}{last}{end}{}{last_end}{after}", chunks.concat(), trailers.concat())
        },
    );
    prop_oneof![3 => chunked, 2 => one_of(&["", "hello", "hello, world", "hell"])]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(
        if std::env::var_os("MCPM_NIGHTLY").is_some_and(|value| !value.is_empty()) { 50_000 } else { 1_000 }
    ) })]

    #[test]
    fn both_clients_read_the_same_response(
        informational in one_of(&["", "", "", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 \r\na: b\r\n\r\n", "\r\n"]),
        status_line in status_line(),
        headers in vec(prop_oneof![1 => header_line(), 4 => one_of(&["x: y\r\n", "Set-Cookie: a=b\r\n", "set-cookie: c\r\n"])], 0..3),
        framing in vec(framing_line(), 0..3),
        head_end in line_end(),
        body in body(),
        kept in prop_oneof![4 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)],
        method in select(&[Method::GET, Method::POST, Method::HEAD][..]),
    ) {
        let response = [informational, status_line, headers.concat(), framing.concat(), head_end, body].concat();
        // Simulates a connection that is lost in the middle of the response.
        let kept = kept.map_or(response.len(), |kept| kept.index(response.len() + 1));
        prop_assert_eq!(disagreement(&method, &response.as_bytes()[..kept]), None);
    }
}
