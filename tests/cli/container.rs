//! Tests the properties and restrictions of a workload's container.

use std::{fs, net::TcpListener, process::Command};

use serde_json::{Value, json};

use super::support::{Home, Session, docker, inspect};

const STDIO: &str = "mcpm-test/everything:1";
const HTTP: &str = "mcpm-test/everything-http:1";
/// An image with a shell.
const DEBIAN: &str = "mcpm-test/python:1";

/// Runs a command in a container, and returns its output, or how it failed.
fn exec(container: &str, script: &str) -> Result<String, String> {
    let output = Command::new("docker").args(["exec", container, "sh", "-c", script]).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap().trim_end().to_owned();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// A port on which nothing listens at the moment.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_container_is_confined_and_marked() {
    let home = Home::new();
    for (image, kind) in [(STDIO, "stdio"), (HTTP, "streamable-http")] {
        let name = home.name(kind);
        home.run(&["run", image, "--name", &name, "--label", "team=red"]).succeeded();
        let found = inspect(&name);
        let host = &found["HostConfig"];
        let expected = json!({
            "CapDrop": ["ALL"], "CapAdd": null, "SecurityOpt": ["no-new-privileges"], "Privileged": false,
            "Init": true, "PidsLimit": 1024, "PortBindings": {}, "Binds": null, "PublishAllPorts": false,
            "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        });
        for (field, value) in expected.as_object().unwrap() {
            assert!(same(&host[field], value), "{kind}: {field} is {}, not {value}", host[field]);
        }
        let log = &host["LogConfig"];
        let is_bounded = ["max-size", "max-file"].iter().all(|limit| log["Config"][limit].is_string());
        // Messages of a stdio server are data of its users.
        assert!(if kind == "stdio" { log["Type"] == "none" } else { is_bounded }, "{log}");
        let labels = &found["Config"]["Labels"];
        for (label, value) in [
            ("mcpm", "true"),
            ("mcpm-name", name.as_str()),
            ("mcpm-group", "default"),
            ("mcpm-transport", kind),
            ("mcpm-state", &home.text("state/mcpm")),
            ("team", "red"),
        ] {
            assert_eq!(labels[label], value, "{label}");
        }
        assert_eq!(found["Config"]["Tty"], false);
    }
}

/// Engines represent an empty value as a missing field, null or an empty list.
fn same(found: &Value, expected: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    found == expected || is_empty(found) && is_empty(expected)
}

#[test]
fn variables_come_from_file_folder_and_command_line_in_that_order() {
    let home = Home::new();
    let name = home.name("e");
    home.write("file.env", "A=file\nB=file\nC=file\nQUOTED=\"two words\"\n# A=comment\n");
    home.write("folder/1.env", "B=folder1\nC=folder1\nD=folder1\n");
    home.write("folder/2.env", "D=folder2\n");
    home.write("folder/.hidden", "D=hidden\n");
    let run = ["run", DEBIAN, "--name", &name, "--env-file", "file.env", "--env-file-dir", "folder"];
    home.run(
        &[&run[..], &["-e", "C=given", "-e", "E=a=b", "-e", "MCP_PORT=7", "--", "mcp-server-time"]].concat(),
    )
    .succeeded();
    let script = "echo $A $B $C $D $E $QUOTED $MCP_PORT $MCP_TRANSPORT";
    assert_eq!(exec(&name, script).unwrap(), "file folder1 given folder2 a=b two words 7 stdio");
}

#[test]
fn an_http_server_is_told_where_to_listen() {
    let home = Home::new();
    let name = home.name("t");
    let script = &format!("exec python3 -c '{}'", mcpm_tests::PYTHON_HTTP_SERVER);
    let run = ["run", DEBIAN, "--name", &name, "--transport", "streamable-http", "--", "sh", "-c", script];
    home.run(&run).succeeded();
    let told = exec(&name, "echo $MCP_TRANSPORT $MCP_PORT $FASTMCP_PORT $MCP_HOST").unwrap();
    assert_eq!(told, "streamable-http 8080 8080 0.0.0.0");
}

#[test]
fn a_published_port_is_on_loopback_unless_an_address_is_written() {
    let home = Home::new();
    let (name, port) = (home.name("p"), free_port());
    let given = format!("{port}:8000");
    let run = ["run", STDIO, "--name", &name, "-p", &given, "-p", "8001", "-p", "127.0.0.2::8002/udp"];
    home.run(&run).succeeded();
    let ports = &inspect(&name)["NetworkSettings"]["Ports"];
    let host_ip = |key: &str| ports[key][0]["HostIp"].as_str().unwrap_or_default().to_owned();
    assert_eq!(ports["8000/tcp"], json!([{"HostIp": "127.0.0.1", "HostPort": port.to_string()}]));
    assert_eq!(host_ip("8001/tcp"), "127.0.0.1");
    assert_eq!(host_ip("8002/udp"), "127.0.0.2");
}

#[test]
fn a_server_works_in_every_reachable_network() {
    let home = Home::new();
    let network = home.name("net");
    docker(&["network", "create", &network]);
    let port = free_port().to_string();
    let listen = format!("127.0.0.1:{port}");
    let runs = [
        (STDIO, "none", &[][..]),
        (STDIO, "host", &[]),
        (STDIO, "bridge", &[]),
        (HTTP, "bridge", &[]),
        (HTTP, "none", &[]),
        (HTTP, &network, &[]),
        (HTTP, "host", &["--target-port", &port, "--", "-http", &listen, "-stateless=false"]),
    ];
    for (count, (image, network, more)) in runs.iter().enumerate() {
        let name = home.name(&count.to_string());
        let run = [&["run", image, "--name", &name, "--network", network][..], more].concat();
        let url = home.run(&run).succeeded().url();
        assert!(!Session::open(&url).tools().is_empty(), "{image} {network}");
        let mode = inspect(&name)["HostConfig"]["NetworkMode"].clone();
        assert!(mode == **network || **network == *"bridge" && mode == "default", "{mode}");
    }
    home.run(&["rm", "--all"]).succeeded();
    docker(&["network", "rm", &network]);
    assert_eq!(home.run_and_record(&["run", HTTP, "--network", &network]).code, Some(2));
    home.assert_nothing_left();
    home.assert_transcript("container/network");
}

#[test]
fn a_server_that_speaks_http_is_reached_in_another_containers_network() {
    let home = Home::new();
    let other = home.name("other");
    docker(&[
        "run",
        "--detach",
        "--name",
        &other,
        "--entrypoint",
        "/busybox",
        "mcpm-test/silent:1",
        "sleep",
        "600",
    ]);
    let (name, network) = (home.name("joined"), format!("container:{other}"));
    let outcome = home.run(&["run", HTTP, "--name", &name, "--network", &network]);
    let tools = (outcome.code == Some(0)).then(|| Session::open(&outcome.url()).tools());
    docker(&["rm", "--force", &other]);
    assert!(!tools.unwrap_or_else(|| panic!("{outcome:?}")).is_empty());
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}

#[test]
fn ports_are_not_published_in_the_network_of_the_machine_and_the_user_is_told() {
    let home = Home::new();
    let name = home.name("host");
    let run = ["run", STDIO, "--name", &name, "--network", "host", "--publish", "8080:80", "-p", "9000"];
    let outcome = home.run(&run).succeeded();
    assert_eq!(
        outcome.stderr.lines().find(|line| line.contains("published")),
        Some(
            "warning: `8080:80`, `9000` are not published: in the network `host`, the server listens on this machine itself"
        ),
        "{outcome:?}"
    );
    home.run(&["rm", &name]).succeeded();
}

#[test]
fn the_proxy_listens_where_it_is_told() {
    let home = Home::new();
    for (host, url, warns) in [
        ("::1", "http://[::1]:", false),
        ("[::1]", "http://[::1]:", false),
        ("127.0.0.2", "http://127.0.0.2:", false),
        ("localhost", "http://localhost:", false),
        ("0.0.0.0", "http://127.0.0.1:", true),
        ("::", "http://[::1]:", true),
    ] {
        let name = home.name("h");
        let outcome = home.run_and_record(&["run", STDIO, "--name", &name, "--host", host]).succeeded();
        assert!(outcome.url().starts_with(url), "{host}: {outcome:?}");
        assert_eq!(outcome.stderr.contains("warning"), warns, "{host}: {outcome:?}");
        assert!(!Session::open(&outcome.url()).tools().is_empty());
        home.run(&["rm", &name, "--timeout", "0"]).succeeded();
    }
    assert_eq!(
        home.run_and_record(&["run", STDIO, "--host", "192.0.2.1", "--name", &home.name("x")]).code,
        Some(2)
    );
    home.assert_transcript("container/host");
    let unknown = home.run(&["run", STDIO, "--host", "no-such-host.invalid", "--name", &home.name("y")]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.starts_with("error: cannot resolve `no-such-host.invalid`"));
    home.assert_nothing_left();
}

#[test]
fn a_server_on_a_target_host_is_published_there_and_nowhere_else() {
    let home = Home::new();
    let name = home.name("th");
    let url = home.run(&["run", HTTP, "--name", &name, "--target-host", "127.0.0.3"]).succeeded().url();
    assert!(!Session::open(&url).tools().is_empty());
    let ports = &inspect(&name)["NetworkSettings"]["Ports"]["3000/tcp"];
    assert_eq!((ports.as_array().unwrap().len(), ports[0]["HostIp"].as_str()), (1, Some("127.0.0.3")));
    assert_eq!(
        home.run_and_record(&["run", HTTP, "--name", &home.name("no"), "--target-host", "a.name"]).code,
        Some(2)
    );
    home.assert_transcript("container/target_host");
    home.run(&["rm", &name]).succeeded();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let url = home.run(&["run", HTTP, "--name", &name, "--target-host", host.trim()]).succeeded().url();
    assert!(!Session::open(&url).tools().is_empty(), "a name is looked up");
}
