//! Tests a remote server as a workload, without a container and without an engine.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    process::Command,
    sync::mpsc,
};

use serde_json::{Value, json};

use super::support::{Home, Program, Session, testbed_variable, wait_until};

/// A server that responds with a list of statuses in order, and repeats the last one. It records each request: the
/// request line, then `Authorization`.
pub(super) fn server(statuses: &'static [&'static str]) -> (String, mpsc::Receiver<(String, String)>) {
    server_with_body(statuses, json!({"jsonrpc": "2.0", "id": 2, "result": {"tools": []}}).to_string())
}

/// A server like this whose responses have this JSON document as their body.
pub(super) fn server_with_body(
    statuses: &'static [&'static str],
    body: String,
) -> (String, mpsc::Receiver<(String, String)>) {
    server_with_hook(statuses, body, || {})
}

/// A server like this that calls a function before each response.
pub(super) fn server_with_hook(
    statuses: &'static [&'static str],
    body: String,
    before_response: impl Fn() + Send + 'static,
) -> (String, mpsc::Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let authority = listener.local_addr().unwrap().to_string();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut answered = 0;
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let mut head = Vec::new();
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
                    break;
                }
                head.push(line.trim().to_owned());
            }
            let field = |name: &str| {
                let found = head.iter().find_map(|line| {
                    let (field, value) = line.split_once(": ")?;
                    field.eq_ignore_ascii_case(name).then(|| value.to_owned())
                });
                found.unwrap_or_default()
            };
            // A connection without a request only checks whether the server listens.
            let Some(line) = head.first() else { continue };
            let mut request = vec![0; field("content-length").parse().unwrap_or(0)];
            reader.read_exact(&mut request).unwrap();
            let metadata = ["/.well-known/", "/register"].iter().any(|path| line.contains(path));
            let status = if metadata {
                // The response names no authorization server.
                "404 Not Found"
            } else {
                let _ = tell.send((line.clone(), field("authorization")));
                answered += 1;
                statuses[(answered - 1).min(statuses.len() - 1)]
            };
            before_response();
            let head = "Content-Type: application/json\r\nConnection: close";
            let length = body.len();
            let _ = write!(
                reader.get_mut(),
                "HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}"
            );
        }
    });
    (authority, told)
}

#[test]
fn a_remote_server_lives_as_a_workload_without_an_engine() {
    let engine = Home::new();
    let backend = engine.name("backend");
    let target = engine.run(&["run", "mcpm-test/everything-http:1", "--name", &backend]).succeeded().url();
    let home = Home::without_engine();
    let name = home.name("r");
    let name = name.as_str();
    let url = home.run_and_record(&["run", &target, "--name", name]).succeeded().url();
    assert!(url.ends_with("/mcp"), "the path is kept: {url}");
    assert_eq!(Session::open(&url).tools(), Session::open(&target).tools());
    for (code, args) in [
        (0, &["list"][..]),
        (0, &["list", "--output", "json"]),
        (0, &["list", "--output", "mcp-json"]),
        (0, &["status", name]),
        (4, &["logs", name]),
        (0, &["export", name]),
        (5, &["run", &target, "--name", name]),
        (0, &["stop", name]),
        (0, &["status", name]),
    ] {
        assert_eq!(home.run_and_record(args).code, Some(code), "{args:?}");
    }
    for command in ["start", "restart"] {
        assert_eq!(home.run_and_record(&[command, name]).succeeded().url(), url);
        assert_eq!(Session::open(&url).tools(), Session::open(&target).tools());
    }
    // The exported file describes the same workload.
    let exported = home.text("exported.json");
    home.run_and_record(&["export", name, &exported]).succeeded();
    home.run_and_record(&["rm", name]).succeeded();
    let url = home.run_and_record(&["run", "--from-config", &exported]).succeeded().url();
    assert!(!Session::open(&url).tools().is_empty());
    home.run_and_record(&["rm", name]).succeeded();
    home.assert_nothing_left();
    engine.run(&["rm", &backend]).succeeded();
    home.assert_transcript("remote/life");
}

#[test]
fn path_query_and_login_go_to_the_remote_as_they_are() {
    let (authority, told) = server(&["200 OK"]);
    let home = Home::without_engine();
    let target = format!("http://{authority}/v1/mcp?key=k%20x#part");
    let mut run =
        Program::start(&mut home.mcpm(&["run", "--foreground", &target, "--name", &home.name("q")]));
    let url = run.read_line().split_whitespace().nth(1).unwrap().to_owned();
    assert_eq!(told.recv().unwrap().0, "POST /v1/mcp?key=k%20x HTTP/1.1", "the start check");
    let curl = |url: &str| {
        let mut curl = Command::new("curl");
        let output = curl.args(["-s", "--noproxy", "*", "-H", "Authorization: Bearer t", url]);
        assert!(output.output().unwrap().status.success());
        told.recv().unwrap()
    };
    assert_eq!(curl(&format!("{url}?a=1")), ("GET /v1/mcp?key=k%20x&a=1 HTTP/1.1".into(), "Bearer t".into()));
    assert_eq!(curl(&url.replace("/v1/mcp", "/other")).0, "GET /other?key=k%20x HTTP/1.1");
    run.signal("TERM");
    assert_eq!(run.wait().code, Some(0));
    home.assert_nothing_left();
}

#[test]
fn a_missing_login_is_reported_until_a_request_succeeds() {
    // The 401 responses are for the command's check, its test whether a login is possible, the supervisor's check, and
    // the client's first request.
    let statuses =
        &["401 Unauthorized", "401 Unauthorized", "401 Unauthorized", "401 Unauthorized", "200 OK"];
    let (authority, _told) = server(statuses);
    let home = Home::without_engine();
    let name = home.name("login");
    let outcome =
        home.run_and_record(&["run", &format!("http://{authority}/mcp"), "--name", &name]).succeeded();
    assert!(outcome.stderr.contains("requires a login"), "{outcome:?}");
    let url = outcome.url();
    assert_eq!(
        Session::without_session(&url).list_tools()["result"]["tools"],
        json!([]),
        "the body of a 401 is passed on"
    );
    wait_until("the status says so", || {
        home.status(&name)["reason"].as_str().is_some_and(|r| r.contains("401"))
    });
    assert_eq!(home.status(&name)["status"], "running");
    Session::without_session(&url).list_tools();
    wait_until("the status says so no more", || home.status(&name)["reason"] == Value::Null);
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}

#[test]
fn what_is_no_mcp_server_is_refused_at_the_start_and_named() {
    let redirect =
        "308 Permanent Redirect\r\nLocation: https://s3cret:s3cret@example.com/mcp?token=s3cret#s3cret";
    let answering = |status: &'static str| server(Box::leak(Box::new([status]))).0;
    let home = Home::without_engine();
    for (authority, words) in [
        (answering("404 Not Found"), "was not found (404)"),
        (answering("405 Method Not Allowed"), "rejects MCP requests (405)"),
        (answering(redirect), "redirects to `https://example.com/mcp`"),
        (answering("500 Internal Server Error"), "responds with an error (500)"),
        (answering("503 Service Unavailable"), "responds with an error (503)"),
        (answering("200 OK\r\nContent-Type: text/html; charset=utf-8"), "is a web page"),
        (format!("{}/v2", testbed_variable("MCPM_TEST_REGISTRY")), "is an image registry"),
    ] {
        let name = home.name("odd");
        let target = format!("http://{authority}/?key=s3cret");
        for more in [&[][..], &["--foreground"]] {
            let outcome = home.run(&[&["run", &target, "--name", &name], more].concat());
            assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(8), ""), "{outcome:?}");
            assert_eq!(outcome.stderr.lines().count(), 1, "one message: {outcome:?}");
            assert!(outcome.stderr.contains(words), "{words}: {outcome:?}");
            assert!(!outcome.stderr.contains("s3cret"), "{outcome:?}");
            home.assert_nothing_left();
        }
    }
}

#[test]
fn a_remote_server_of_the_other_transport_is_refused_at_the_start_with_the_fix() {
    let engine = Home::new();
    let home = Home::without_engine();
    for (mode, given, fix) in
        [("sse", "streamable-http", "sse"), ("streamable-http", "sse", "streamable-http")]
    {
        let backend = engine.name(mode);
        let run = ["run", "mcpm-test/everything:1", "--proxy-mode", mode, "--name", &backend];
        let target = engine.run(&run).succeeded().url();
        let name = home.name("other");
        let outcome = home.run(&["run", &target, "--name", &name, "--transport", given]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(8), ""), "{outcome:?}");
        assert!(outcome.stderr.ends_with(&format!("use `--transport {fix}`\n")), "{outcome:?}");
        home.assert_nothing_left();
        let outcome = home.run(&["run", &target, "--name", &name, "--transport", fix]).succeeded();
        assert_eq!(outcome.stderr, "");
        home.run(&["rm", &name]).succeeded();
        engine.run(&["rm", &backend]).succeeded();
    }
}

#[test]
fn invalid_remote_runs_are_rejected_and_leave_nothing() {
    let home = Home::without_engine();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nowhere = format!("http://{closed}/mcp");
    let url = "https://mcp.example.com/mcp";
    for (code, args) in [
        (2, &["run", url, "--volume", "/tmp:/tmp", "-p", "80", "-e", "A=b", "--network", "host"][..]),
        (2, &["run", url, "--", "argument"]),
        (2, &["run", url, "--runtime", "docker"]),
        (2, &["run", url, "--transport", "stdio"]),
        (2, &["run", "https://user:password@mcp.example.com/mcp"]),
        (2, &["run", "https://"]),
        (2, &["run", url, "--endpoint-prefix", "x"]),
        (2, &["run", url, "--group", "Bad/Name"]),
        (8, &["run", &nowhere]),
        (8, &["run", "--foreground", &nowhere]),
    ] {
        let outcome = home.run_and_record(args);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(code), ""), "{args:?}: {outcome:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "one message: {outcome:?}");
    }
    home.assert_nothing_left();
    home.run_and_record(&["run", "https://mcp.example.com/v1/mcp?key=hidden", "--plan"]).succeeded();
    home.assert_nothing_left();
    home.assert_transcript("remote/refused");
}

#[test]
fn a_group_that_does_not_exist_is_created_by_a_start_that_succeeds() {
    let home = Home::without_engine();
    let groups = || home.run(&["group", "list"]).succeeded().stdout;
    let name = home.name("grouped");
    let (absent, _told) = server(&["404 Not Found"]);
    let absent = format!("http://{absent}/mcp");
    let plan = home.run(&["run", &absent, "--name", &name, "--group", "team", "--plan"]).succeeded().stdout;
    assert!(plan.contains("team, which is created"), "{plan}");
    assert_eq!(home.run(&["run", &absent, "--name", &name, "--group", "team"]).code, Some(8));
    assert_eq!(groups(), "default\n");
    let (authority, _told) = server(&["200 OK"]);
    let target = format!("http://{authority}/mcp");
    let outcome = home.run(&["run", &target, "--name", &name, "--group", "team"]).succeeded();
    assert_eq!(outcome.stderr, "warning: the group `team` did not exist and was created\n");
    assert_eq!(groups(), "default\nteam\n");
    assert_eq!(home.status(&name)["group"], "team");
    let second = home.name("second");
    let outcome = home.run(&["run", &target, "--name", &second, "--group", "team"]).succeeded();
    assert_eq!(outcome.stderr, "");
    home.run(&["rm", "--all"]).succeeded();
    home.assert_nothing_left();
}

#[test]
fn options_without_effect_are_warned_of() {
    let home = Home::without_engine();
    let (authority, _told) = server(&["200 OK"]);
    let (target, name) = (format!("http://{authority}/mcp"), home.name("none"));
    let more =
        ["--resource-url", "https://a.example", "--otel-service-name", "s", "--otel-sampling-rate", "0.1"];
    let expected = [
        "warning: `--resource-url` has no effect without incoming authentication; set `--oidc-issuer` to turn it on",
        "warning: `--otel-service-name` has no effect without telemetry; set `--otel-endpoint`, \
         `--otel-enable-prometheus-metrics-path` or `--otel-prometheus-port` to turn it on",
    ];
    let outcome = home.run(&[&["run", &target, "--name", &name][..], &more].concat()).succeeded();
    assert_eq!(outcome.stderr.lines().collect::<Vec<_>>(), expected);
    home.run(&["rm", &name]).succeeded();
    let mut run = home.mcpm(&["proxy", "p", "--target-uri", &target]);
    let mut proxy = Program::start(run.args(more));
    proxy.read_line();
    proxy.signal("TERM");
    let outcome = proxy.wait();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(outcome.stderr.matches("has no effect without").count(), 2, "{outcome:?}");
    home.assert_nothing_left();
}

#[test]
fn an_exported_workload_keeps_its_url_and_takes_another_name_group_or_port() {
    let home = Home::without_engine();
    let (authority, _told) = server(&["200 OK"]);
    let (name, other) = (home.name("one"), home.name("two"));
    let url = home.run(&["run", &format!("http://{authority}/mcp"), "--name", &name]).succeeded().url();
    let exported = home.text("exported.json");
    home.run(&["export", &name, &exported]).succeeded();
    let import = |more: &[&str]| home.run(&[&["run", "--from-config", &exported][..], more].concat());
    let taken = import(&[]);
    assert_eq!(taken.code, Some(5), "{taken:?}");
    assert!(taken.stderr.contains("set `--name` to another"), "{taken:?}");
    let taken = import(&["--name", &other]);
    assert_eq!(taken.code, Some(5), "{taken:?}");
    assert!(taken.stderr.contains("set `--proxy-port` to another, or to 0 for a free one"), "{taken:?}");
    let second = import(&["--name", &other, "--proxy-port", "0", "--group", "team"]).succeeded();
    assert_ne!(second.url(), url);
    assert_eq!(home.status(&other)["group"], "team");
    let plan = import(&["--name", "third", "--plan", "-o", "json"]).succeeded().json();
    let origins = ["name", "proxy_port", "url"].map(|field| plan["spec"]["origins"][field].clone());
    assert_eq!(origins, ["given", "exported_file", "exported_file"]);
    home.run(&["rm", &name, &other]).succeeded();
    assert_eq!(import(&[]).succeeded().url(), url);
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}

#[test]
fn debug_logs_appear_only_with_debug() {
    let (authority, _told) = server(&["200 OK"]);
    let home = Home::without_engine();
    // If a copy cannot be stored, the command still succeeds, and the log with `--debug` says so.
    home.write("home/.cache", "no folder");
    let url = format!("http://{authority}/r.json");
    let list = ["registry", "list", "--registry", &url];
    for (before, after, speaks) in [
        (&[][..], &[][..], false),
        (&[], &["--debug"], true),
        (&["--debug"], &[], true),
        (&["--debug=false"], &[], false),
        (&["--debug"], &["--debug=false"], false),
    ] {
        let outcome = home.run(&[before, &list, after].concat());
        assert_eq!(outcome.code, Some(10), "the answer is no registry: {outcome:?}");
        let said = outcome.stderr.contains("DEBUG") && outcome.stderr.contains("could not be cached");
        assert_eq!(said, speaks, "{before:?} {after:?}: {outcome:?}");
    }
}

#[test]
fn a_key_in_a_url_is_in_no_message() {
    let home = Home::without_engine();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for secret in ["?key=canary", "?key=canary@x#canary", "#canary"] {
        for base in ["https://127.0.0.1:99999/a", "https://me:canary@127.0.0.1:99999/a", "ftp://a/b"]
            .into_iter()
            .chain(["http://example.com/r.json", "https://canary@example.com/a"])
        {
            let url = format!("{base}{secret}");
            for args in [
                &["run", &url, "-e", "A=b"][..],
                &["run", &url, "--registry", &url, "--plan"],
                &["run", "a", "--registry", &url],
                &["registry", "list", "--registry", &url],
                &["registry", "info", "a", "--registry", &url],
                &["proxy", "p", "--target-uri", &url, "--host", "192.0.2.1"],
            ] {
                let outcome = home.run(args);
                assert_ne!(outcome.code, Some(0), "{args:?}");
                assert!(!outcome.stderr.contains("canary"), "{outcome:?}");
            }
        }
        let (document, api) =
            (format!("http://{closed}/r.json{secret}"), format!("http://{closed}/r{secret}"));
        for registry in [&document, &api] {
            for args in [
                &["registry", "search", "a", "--registry", registry][..],
                &["run", "a", "--registry", registry],
            ] {
                let outcome = home.run(args);
                assert_eq!(outcome.code, Some(10), "{outcome:?}");
                assert!(
                    !outcome.stderr.contains("canary") && !outcome.stdout.contains("canary"),
                    "{outcome:?}"
                );
            }
        }
    }
    // Registries that respond, but have nothing at that path.
    for (path, status) in [("r.json", "404 Not Found"), ("api", "404 Not Found"), ("api", "200 OK")] {
        let (authority, _told) = server(Box::leak(Box::new([status])));
        let url = format!("http://{authority}/{path}?key=canary");
        let outcome = home.run(&["registry", "list", "--registry", &url]);
        assert_eq!(outcome.code, Some(10), "{outcome:?}");
        assert!(outcome.stderr.contains("127.0.0.1") && !outcome.stderr.contains("canary"), "{outcome:?}");
    }
    let plan = home.run(&["run", "https://example.com/mcp?key=canary", "--plan", "-o", "json"]).succeeded();
    assert!(!plan.stdout.contains("canary"), "{plan:?}");
}

#[test]
fn a_remote_on_record_that_is_away_is_served_again_when_it_comes_back() {
    let (authority, _told) = server(&["200 OK"]);
    let home = Home::without_engine();
    let name = home.name("away");
    let url = home.run(&["run", &format!("http://{authority}/mcp"), "--name", &name]).succeeded().url();
    home.run(&["stop", &name]).succeeded();
    let spec = home.record_dir(&name).join("spec.json");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let text = std::fs::read_to_string(&spec).unwrap();
    std::fs::write(&spec, text.replace(&authority, &closed)).unwrap();
    let outcome = home.run(&["start", &name]).succeeded();
    assert!(outcome.stderr.contains("cannot connect to"), "{outcome:?}");
    assert!(Session::without_session(&url).list_tools()["error"].is_object());
    let back = TcpListener::bind(&closed).unwrap();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = back.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let body = r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}"#;
        let head = format!("Content-Type: application/json\r\nContent-Length: {}", body.len());
        write!(stream, "HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}").unwrap();
    });
    assert_eq!(Session::without_session(&url).tools(), [""; 0]);
    answering.join().unwrap();
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}
