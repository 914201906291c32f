//! Tests published servers with published clients.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
};

use super::{Client, ECHO, SIMPLE, TIME, Tool, run_workload};
use crate::support::Home;

const STDIO: &str = "mcpm-test/everything:1";
const PYTHON: &str = "mcpm-test/python:1";
const NODE: &str = "mcpm-test/node:1";

pub(super) fn clients_of_every_era_use_a_stdio_server_at_the_same_time(home: &Home) {
    home.provide_images(&[STDIO]);
    let url = run_workload(home, STDIO, &[]);
    let (legacy, modern) = (Some("2025-11-25".to_owned()), Some("2026-07-28".to_owned()));
    let clients = [
        (Client::Python("auto"), &modern),
        (Client::Python("legacy"), &legacy),
        (Client::Python("2026-07-28"), &modern),
        (Client::FastMcp("auto"), &modern),
        (Client::TypeScript("auto"), &modern),
        (Client::TypeScript("legacy"), &legacy),
        (Client::TypeScript("2026-07-28"), &modern),
        (Client::TypeScript1("streamable"), &legacy),
        (Client::Inspector("legacy"), &None),
        (Client::Inspector("modern"), &None),
        (Client::Rust, &legacy),
    ];
    std::thread::scope(|scope| {
        for (client, version) in clients {
            let url = &url;
            scope.spawn(move || assert_eq!(client.call(url, SIMPLE), *version, "{client:?}"));
        }
    });
}

pub(super) fn a_client_of_the_old_sse_transport_uses_a_stdio_server(home: &Home) {
    home.provide_images(&[STDIO]);
    let url = run_workload(home, STDIO, &["--proxy-mode", "sse"]);
    assert_eq!(Client::TypeScript1("sse").call(&url, SIMPLE).as_deref(), Some("2025-11-25"));
}

pub(super) fn clients_use_a_server_of_the_python_sdk(home: &Home) {
    home.provide_images(&[PYTHON]);
    let url = run_workload(home, PYTHON, &["--", "mcp-server-time"]);
    assert_eq!(Client::Python("auto").call(&url, TIME).as_deref(), Some("2026-07-28"));
    assert_eq!(Client::TypeScript1("streamable").call(&url, TIME).as_deref(), Some("2025-11-25"));
}

#[test]
#[ignore = "nightly: it tries more clients"]
fn more_clients_use_a_server_of_the_python_sdk() {
    let home = Home::new();
    let url = run_workload(&home, PYTHON, &["--", "mcp-server-time"]);
    assert_eq!(Client::Python("legacy").call(&url, TIME).as_deref(), Some("2025-11-25"));
    assert_eq!(Client::Python("2026-07-28").call(&url, TIME).as_deref(), Some("2026-07-28"));
    assert_eq!(Client::FastMcp("auto").call(&url, TIME).as_deref(), Some("2026-07-28"));
    assert_eq!(Client::TypeScript("auto").call(&url, TIME).as_deref(), Some("2026-07-28"));
    Client::Inspector("auto").call(&url, TIME);
}

pub(super) fn a_client_fetches_a_page_with_a_server_in_the_network_of_the_machine(home: &Home) {
    home.provide_images(&[PYTHON]);
    let pages = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = pages.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in pages.incoming() {
            let mut connection = connection.unwrap();
            let mut head = BufReader::new(connection.try_clone().unwrap()).lines();
            let is_page = head.next().unwrap().unwrap().starts_with("GET /page ");
            // The whole head is read, because closing a connection with unread data could cut off the response.
            while head.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let (status, body) =
                if is_page { ("200 OK", "a page of this test") } else { ("404 Not Found", "") };
            let length = body.len();
            write!(connection, "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}").unwrap();
        }
    });
    let url =
        run_workload(home, PYTHON, &["--network", "host", "--", "mcp-server-fetch", "--allow-private-ips"]);
    let arguments = format!(r#"{{"url": "http://{address}/page"}}"#);
    let fetch = Tool { name: "fetch", arguments: &arguments, answer: "a page of this test" };
    assert!(Client::Python("auto").call(&url, fetch).is_some());
    assert!(Client::TypeScript("auto").call(&url, fetch).is_some());
}

/// The transports of `mcpm-test/node:1` that clients use over streamable HTTP, with the server's names for them.
const TRANSPORTS: [(&str, &str); 2] = [("stdio", "stdio"), ("streamable-http", "streamableHttp")];

pub(super) fn clients_use_a_server_of_the_typescript_sdk_over_every_transport(home: &Home) {
    home.provide_images(&[NODE]);
    let legacy = Some("2025-11-25");
    for (transport, mode) in TRANSPORTS {
        let options = ["--transport", transport, "--", "mcp-server-everything", mode];
        let url = run_workload(home, NODE, &options);
        assert_eq!(Client::TypeScript("auto").call(&url, ECHO).as_deref(), legacy, "{transport}");
        assert_eq!(Client::TypeScript1("streamable").call(&url, ECHO).as_deref(), legacy, "{transport}");
    }
    let url = run_workload(home, NODE, &["--transport", "sse", "--", "mcp-server-everything", "sse"]);
    assert_eq!(Client::TypeScript1("sse").call(&url, ECHO).as_deref(), legacy);
}

#[test]
#[ignore = "nightly: it tries more clients"]
fn more_clients_use_a_server_of_the_typescript_sdk() {
    let legacy = Some("2025-11-25");
    for (transport, mode) in TRANSPORTS {
        let home = Home::new();
        let url = run_workload(&home, NODE, &["--transport", transport, "--", "mcp-server-everything", mode]);
        assert_eq!(Client::Python("auto").call(&url, ECHO).as_deref(), legacy, "{transport}");
        assert_eq!(Client::Python("legacy").call(&url, ECHO).as_deref(), legacy, "{transport}");
        assert_eq!(Client::FastMcp("auto").call(&url, ECHO).as_deref(), legacy, "{transport}");
        Client::Inspector("auto").call(&url, ECHO);
    }
}
