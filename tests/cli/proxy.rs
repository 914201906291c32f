//! Tests `mcpm proxy`.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
};

use serde_json::{Value, json};

use super::{
    remote,
    support::{Home, Program, Session, wait_until},
};

#[test]
fn a_proxy_prints_its_url_forwards_and_ends_with_a_signal() {
    let home = Home::new();
    let name = home.name("target");
    let target = home.run(&["run", "mcpm-test/everything-http:1", "--name", &name]).succeeded().url();
    for (signal, form) in [("TERM", "text"), ("INT", "json")] {
        let run = ["proxy", "front", "--target-uri", &target, "--output", form];
        let mut proxy = Program::start(&mut home.mcpm(&run));
        let url = if form == "json" {
            let text = [proxy.read_line(), proxy.read_line(), proxy.read_line(), proxy.read_line()].concat();
            let ready: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(ready, json!({"name": "front", "url": ready["url"]}));
            ready["url"].as_str().unwrap().to_owned()
        } else {
            proxy.read_line().strip_prefix("front  ").unwrap().to_owned()
        };
        assert_eq!(Session::open(&url).tools(), Session::open(&target).tools());
        proxy.signal(signal);
        let outcome = proxy.wait();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
        home.append_to_transcript(
            &format!("mcpm proxy front --target-uri {target} --output {form}"),
            &outcome,
        );
    }
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
    home.assert_transcript("proxy/forwards");
}

#[test]
fn a_proxy_without_a_target_that_can_be_used_is_refused() {
    let home = Home::without_engine();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let program = std::fs::read_to_string(format!("/proc/{}/comm", std::process::id())).unwrap();
    home.replace(program.trim(), "HOLDER");
    let target = ["proxy", "p", "--target-uri"];
    for (code, more) in [
        (2, &["relative"][..]),
        (2, &["ftp://127.0.0.1/mcp"]),
        (2, &["http://"]),
        (2, &["http://127.0.0.1:99999/mcp"]),
        (2, &["http://user:hush@127.0.0.1:1/mcp"]),
        (2, &["http://user:hu/sh@127.0.0.1:1/mcp"]),
        (2, &["http://127.0.0.1:1/mcp", "--host", "192.0.2.1"]),
        (2, &["http://127.0.0.1:1/mcp", "--port", "99999"]),
        (5, &["http://127.0.0.1:1/mcp", "--port", &port]),
        (2, &["http://127.0.0.1:1/mcp", "--token-exchange-url", "https://127.0.0.1/token"]),
    ] {
        let outcome = home.run_and_record(&[&target[..], more].concat());
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(code), ""), "{more:?}: {outcome:?}");
    }
    assert!(!home.path("state").exists());
    home.assert_transcript("proxy/refused");
}

#[test]
fn an_unavailable_target_is_answered_with_an_error() {
    let home = Home::without_engine();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let target = format!("http://{closed}/mcp");
    let mut proxy = Program::start(&mut home.mcpm(&["proxy", "p", "--target-uri", &target]));
    let url = proxy.read_line().split_whitespace().nth(1).unwrap().to_owned();
    let answer = Session::without_session(&url).list_tools();
    assert!(answer["error"]["message"].is_string(), "{answer}");
    proxy.signal("TERM");
    assert_eq!(proxy.wait().code, Some(0));
}

#[test]
fn a_target_that_is_no_mcp_server_is_warned_of_and_shown_by_health() {
    let home = Home::without_engine();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (absent, _told) = remote::server(&["404 Not Found"]);
    for (authority, warning, status) in [
        (closed, "cannot connect to the target", Value::Null),
        (absent, "the target was not found", json!(404)),
    ] {
        let target = format!("http://{authority}/mcp");
        let mut proxy = Program::start(&mut home.mcpm(&["proxy", "p", "--target-uri", &target]));
        let url = proxy.read_line().split_whitespace().nth(1).unwrap().to_owned();
        let mut curl = home.command("curl");
        let curl = curl.args(["-s", "--noproxy", "*", &url.replace("/mcp", "/health")]);
        let health: Value = serde_json::from_slice(&curl.output().unwrap().stdout).unwrap();
        assert_eq!(health["mcp"]["available"], false, "{health}");
        if status != Value::Null {
            assert_eq!(health["mcp"]["last_exchange"], json!({"status": status, "reason": "Not Found"}));
        }
        proxy.wait_for_stderr(warning);
        proxy.signal("TERM");
        assert_eq!(proxy.wait().code, Some(0));
    }
}

#[test]
fn an_unexpectedly_exposed_proxy_is_warned_about() {
    let home = Home::without_engine();
    let anybody = "every address of this machine: anyone who can reach it can use the server";
    let issuer = "callers cannot be authenticated now, because a request to the identity provider failed";
    let silent = "clients cannot discover where to log in";
    for (more, warnings) in [
        ("--host 127.0.0.1", &[][..]),
        ("--host 0.0.0.0", &[anybody]),
        ("--host 0.0.0.0 --oidc-issuer https://id.example --oidc-audience api", &[issuer]),
        ("--oidc-issuer http://127.0.0.1:1 --oidc-audience api", &["`127.0.0.1` is not a public address"]),
        (
            "--oidc-introspection-url https://id.example/ask --oidc-client-id x --oidc-audience api",
            &[silent, issuer],
        ),
    ] {
        let mut run = home.mcpm(&["proxy", "p", "--target-uri", "http://127.0.0.1:1/mcp"]);
        run.args(more.split(' ')).env("MCPM_OIDC_CLIENT_SECRET", "hush");
        let mut proxy = Program::start(&mut run);
        proxy.read_line();
        proxy.signal("TERM");
        let outcome = proxy.wait();
        // The message may or may not mention that the target is unreachable, depending on the timing.
        let is_of_callers = |line: &&str| line.contains("WARN") && !line.contains("the target");
        let said = outcome.stderr.lines().filter(is_of_callers).count();
        assert_eq!(said, warnings.len(), "{more:?}: {outcome:?}");
        assert!(warnings.iter().all(|warning| outcome.stderr.contains(warning)), "{more:?}: {outcome:?}");
    }
}

#[test]
fn a_flood_of_refused_requests_fills_no_log() {
    let home = Home::without_engine();
    let target = ["proxy", "p", "--target-uri", "http://127.0.0.1:1/mcp"];
    let mut proxy = Program::start(&mut home.mcpm(&target));
    let url = proxy.read_line().split_whitespace().nth(1).unwrap().to_owned();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(mcpm_tests::harness::TEST_TIMEOUT)).unwrap();
    let mut answered = BufReader::new(client.try_clone().unwrap());
    for _ in 0..2000 {
        client.write_all(b"HEAD /mcp HTTP/1.1\r\nHost: stranger.example\r\n\r\n").unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(answered.read_line(&mut head).unwrap() > 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    }
    proxy.signal("TERM");
    let outcome = proxy.wait();
    assert_eq!(outcome.code, Some(0));
    let lines = outcome.stderr.lines().filter(|line| line.contains("denied a request")).count();
    // At first 32 lines at once, then one every 10 s.
    assert!((32..40).contains(&lines), "{lines}: {}", outcome.stderr);
}

#[test]
fn an_unavailable_collector_is_logged_once_and_blocks_nothing() {
    let home = Home::without_engine();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for protocol in ["http", "grpc"] {
        let (target, endpoint) = (format!("http://{closed}/mcp"), format!("http://{closed}"));
        let mut run = home.mcpm(&["proxy", "p", "--target-uri", &target, "--otel-endpoint", &endpoint]);
        run.args(["--otel-protocol", protocol, "--otel-sampling-rate", "1"]);
        // mcpm must not send the headers of this variable, which is meant for other programs.
        run.env("OTEL_EXPORTER_OTLP_HEADERS", "x-other=hush");
        let mut proxy = Program::start(&mut run);
        let url = proxy.read_line().split_whitespace().nth(1).unwrap().to_owned();
        assert!(Session::without_session(&url).list_tools()["error"]["message"].is_string());
        proxy.signal("TERM");
        let outcome = proxy.wait();
        let said = outcome.stderr.matches("does not accept telemetry").count();
        assert_eq!((outcome.code, said), (Some(0), 1), "{outcome:?}");
        assert!(!outcome.stderr.contains("hush"), "{outcome:?}");
    }
}

#[test]
fn a_proxy_out_of_file_descriptors_recovers_and_logs_once() {
    const MAX_OPEN_FILES: usize = 24;
    let home = Home::without_engine();
    let mcpm = home.mcpm(&["proxy", "front", "--target-uri", "http://127.0.0.1:1/mcp"]);
    let mut limited = home.command("sh");
    limited.args(["-c", &format!("ulimit -n {MAX_OPEN_FILES}; exec \"$0\" \"$@\"")]).arg(mcpm.get_program());
    let mut proxy = Program::start(limited.args(mcpm.get_args()));
    let url = proxy.read_line();
    let address = url.rsplit("http://").next().unwrap().trim_end_matches("/mcp").to_owned();
    let mut clients: Vec<_> =
        (0..2 * MAX_OPEN_FILES).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let is_open = |fd: usize| std::fs::symlink_metadata(format!("/proc/{}/fd/{fd}", proxy.pid())).is_ok();
    wait_until("it has no descriptor left", || (0..MAX_OPEN_FILES).all(is_open));
    let mut last = clients.pop().unwrap();
    write!(last, "GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    drop(clients);
    let mut answer = String::new();
    last.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    proxy.signal("TERM");
    let outcome = proxy.wait();
    let said = outcome.stderr.matches("cannot accept connections").count();
    assert_eq!((outcome.code, said), (Some(0), 1), "{outcome:?}");
}

#[test]
#[ignore = "nightly: free pages are given back every 30 s"]
fn memory_of_closed_connections_is_given_back() {
    let home = Home::without_engine();
    let mut proxy =
        Program::start(&mut home.mcpm(&["proxy", "front", "--target-uri", "http://127.0.0.1:1/mcp"]));
    let address = proxy.read_line().rsplit("http://").next().unwrap().trim_end_matches("/mcp").to_owned();
    let path = format!("/proc/{}/status", proxy.pid());
    let private = || {
        let status = std::fs::read_to_string(&path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let open = || -> Vec<TcpStream> {
        let body = "x".repeat(15 << 10);
        let connect = |_| {
            let mut client = TcpStream::connect(&address).unwrap();
            let head =
                format!("POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n", 16 << 10);
            client.write_all(head.as_bytes()).unwrap();
            client.write_all(body.as_bytes()).unwrap();
            client
        };
        (0..256).map(connect).collect()
    };
    // The code that serves requests is loaded now.
    drop(open());
    let before = private();
    let clients = open();
    wait_until("it has read the requests", || private() > before + 2048);
    let most = private();
    drop(clients);
    wait_until("it has given the memory back", || private() < before + (most - before) / 4);
    proxy.signal("TERM");
    assert_eq!(proxy.wait().code, Some(0));
}
