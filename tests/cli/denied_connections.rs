//! Tests denied connections of an isolated server: they are recorded together with the call that was in flight,
//! explained, and allowed after the change that the explanation names.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{IpAddr, TcpListener, ToSocketAddrs as _},
};

use serde_json::{Value, json};

use super::support::{Home, Outcome, Session};

/// A stdio server with one tool, which fetches a URL and returns the outcome.
const FETCH_SERVER: &str = r#"
import json, sys, urllib.request

def answer(method, params):
    if method == "initialize":
        info = {"name": "fetching", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [{"name": "fetch", "inputSchema": {"type": "object"}}]}
    try:
        text = urllib.request.urlopen(params["arguments"]["url"], timeout=20).read().decode()
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    return {"content": [{"type": "text", "text": text}]}

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    said = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] in ("initialize", "tools/list", "tools/call"):
        said["result"] = answer(asked["method"], asked.get("params", {}))
    else:
        said["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(said), flush=True)
"#;

/// The name of this machine, and an address that the name resolves to.
fn machine() -> (String, IpAddr) {
    let name = rustix::system::uname().nodename().to_str().unwrap().to_ascii_lowercase();
    let mut found = (name.as_str(), 0).to_socket_addrs().unwrap_or_else(|error| panic!("{name}: {error}"));
    let address = found.find(|found| found.is_ipv4()).unwrap_or_else(|| panic!("{name} has no IPv4 address"));
    (name, address.ip())
}

/// An HTTP server on this machine that responds with `reached`.
fn server(address: IpAddr) -> u16 {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            if stream.read(&mut head).is_ok_and(|length| length > 0) {
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nreached"
                );
            }
        }
    });
    port
}

/// The output of `mcpm explain` for a denial.
#[track_caller]
fn explained(home: &Home, id: &str) -> Value {
    let explained = home.run(&["explain", id, "--output", "json"]).succeeded().json();
    assert_eq!(explained["refusal"]["id"], json!(id));
    explained
}

#[test]
fn a_denied_connection_is_audited_with_its_call_and_its_fix_works() {
    let home = Home::new();
    let name = home.name("fetching");
    let (host, address) = machine();
    let port = server(address);
    let url = format!("http://{host}:{port}/");
    let mut allowed = vec!["other.example".to_owned()];
    let mut reasons = Vec::new();
    loop {
        let profile = json!({"network": {"outbound": {"allow_host": allowed}}});
        let profile = home.write("profile.json", &profile.to_string());
        let run = ["run", "mcpm-test/python:1", "--name", &name, "--enable-audit", "--permission-profile"];
        let run = [&run[..], &[&profile, "--", "python3", "-c", FETCH_SERVER]].concat();
        let session = Session::open(&home.run(&run).succeeded().url());
        let answer = session.call("fetch", &json!({"url": url}));
        home.run(&["stop", &name]).succeeded();
        let log = fs::read_to_string(home.record_dir(&name).join("audit.jsonl")).unwrap();
        let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of_type = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
        let refused = of_type("connection_refused");
        if answer == "reached" {
            assert!(refused.is_empty(), "{log}");
            break;
        }
        // The record has the destination, the call in flight, and the rule that denied the connection.
        let ([refused], [call]) = (&refused[..], &of_type("mcp_tool_call")[..]) else { panic!("{log}") };
        assert_eq!((&refused["outcome"], &refused["component"]), (&json!("denied"), &json!(name)));
        assert_eq!((&refused["target"]["name"], &refused["target"]["port"]), (&json!(host), &json!(port)));
        let extra = &refused["metadata"]["extra"];
        assert_eq!(extra["calls_in_flight"], 1);
        let in_flight = json!([{"audit_id": call["audit_id"], "method": "tools/call", "name": "fetch"}]);
        assert_eq!(extra["in_flight"], in_flight);
        let explained = explained(&home, extra["refusal"].as_str().unwrap());
        assert_eq!((&explained["reason"], &explained["layer"]), (&extra["reason"], &json!("isolation")));
        let refusal = &explained["refusal"];
        assert_eq!((&refusal["rule"], &refusal["fix"]), (&extra["rule"], &extra["fix"]));
        assert_eq!((&refusal["inputs"]["host"], &refusal["server"]), (&json!(host), &json!(name)));
        reasons.push(explained["reason"].as_str().unwrap().to_owned());
        assert!(reasons.len() < 3, "it is still refused: {reasons:?}");
        // "if the server should reach it, add `HOST:PORT` to `network.outbound.allow_host` in the file of a ..."
        let mut words = refusal["fix"].as_str().unwrap().split('`');
        assert_eq!(words.next(), Some("if the server should reach it, add "));
        allowed.push(words.next().unwrap().to_owned());
        assert_eq!(words.nth(1), Some("network.outbound.allow_host"));
        home.run(&["rm", &name]).succeeded();
    }
    // First the name is denied, and then the address, because it belongs to this machine.
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert_eq!(reasons[0], "egress.host_not_allowed");
    let own = ["egress.loopback_address", "egress.own_address", "egress.private_address"];
    assert!(own.contains(&reasons[1].as_str()), "{reasons:?}");
}

/// The id of the denial that a message contains.
#[track_caller]
fn named(outcome: &Outcome) -> String {
    let (_, rest) = outcome.stderr.split_once("`mcpm explain ").unwrap_or_else(|| panic!("{outcome:?}"));
    rest.split('`').next().unwrap().to_owned()
}

#[test]
fn a_start_that_failed_on_a_denied_connection_can_be_explained_afterwards() {
    let home = Home::new();
    let name = home.name("needy");
    let script = "import urllib.request; urllib.request.urlopen('http://needed.example/')";
    for foreground in ["--foreground=false", "--foreground"] {
        let run = ["run", "mcpm-test/python:1", "--name", &name, foreground, "--permission-profile", "none"];
        let outcome = home.run(&[&run[..], &["--", "python3", "-c", script]].concat());
        assert_eq!(outcome.code, Some(8), "{outcome:?}");
        home.assert_nothing_left();
        let explained = explained(&home, &named(&outcome));
        assert_eq!(
            (&explained["reason"], &explained["layer"]),
            (&json!("egress.no_network"), &json!("isolation"))
        );
        let refusal = &explained["refusal"];
        assert_eq!(
            (&refusal["server"], &refusal["inputs"]["host"]),
            (&json!(name), &json!("needed.example"))
        );
    }
}
