//! Tests `mcpm proxy tunnel`: a target that can be reached through an SSH server, ngrok's agent, or any command.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    process::{Child, Command},
    thread,
};

use mcpm_tests::harness::poll::wait_until_listening;
use serde_json::json;

use super::{
    remote,
    support::{Home, Program, Session, is_alive, kill, testbed_variable, wait_until},
};

/// An SSH server of the test, with its own keys, which lets one user forward ports.
struct SshServer {
    daemon: Child,
    port: u16,
}

impl SshServer {
    /// Starts the server in a mount namespace, because it needs its own file of accounts.
    fn start(home: &Home) -> Self {
        for key in ["host", "id"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &home.text(key)]);
            assert!(keygen.status().unwrap().success());
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let known = fs::read_to_string(home.path("host.pub")).unwrap();
        home.write("known_hosts", &format!("[127.0.0.1]:{port} {known}"));
        home.write("passwd", "root:x:0:0::/:/bin/sh\nsshd:x:65534:65534::/:/bin/false\n");
        home.write("shadow", "root:NP:1::::::\n");
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nAllowTcpForwarding remote\n",
            home.text("host"),
            home.text("id.pub")
        );
        let config = home.write("sshd_config", &config);
        let script = "mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && mount --bind \"$1\" /etc/passwd && \
                      mount --bind \"$2\" /etc/shadow && exec \"$3\" -D -e -f \"$4\"";
        let daemon = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"])
            .args([&home.text("passwd"), &home.text("shadow"), &testbed_variable("MCPM_TEST_SSHD"), &config])
            .stderr(fs::File::create(home.path("sshd.log")).unwrap())
            .spawn()
            .unwrap();
        wait_until_listening("the SSH server", ([127, 0, 0, 1], port).into());
        Self { daemon, port }
    }

    /// The arguments for the provider.
    fn args(&self, home: &Home) -> String {
        let args = json!({
            "host": "127.0.0.1", "port": self.port, "user": "root", "identity-file": home.path("id"),
            "known-hosts-file": home.path("known_hosts"),
        });
        args.to_string()
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// The everything-server of the Go SDK, and its URL.
fn target(home: &Home) -> (Program, String) {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut server = home.command(testbed_variable("MCPM_TEST_EVERYTHING_SERVER"));
    let server = Program::start(server.args(["-http", &address.to_string(), "-stateless=false"]));
    wait_until_listening("the server", address);
    (server, format!("http://{address}/mcp"))
}

fn url(tunnel: &mut Program) -> String {
    let line = tunnel.read_line();
    line.strip_prefix("front  ").unwrap_or_else(|| panic!("`{line}` is no name and URL")).to_owned()
}

/// The `ssh` process that a program has started, if it is running.
fn ssh_of(parent: u32) -> Option<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        stat.contains("(ssh)") && after_name.split(' ').nth(1) == Some(&*parent.to_string())
    })
}

#[test]
fn a_target_is_reached_through_an_ssh_server_again_after_the_connection_breaks() {
    let home = Home::without_engine();
    let (_server, direct) = target(&home);
    let ssh = SshServer::start(&home);
    let args = ssh.args(&home);
    let run = ["proxy", "tunnel", &direct, "front", "--tunnel-provider", "ssh", "--provider-args", &args];
    let mut tunnel = Program::start(home.mcpm(&run).arg("--allow-unauthenticated"));
    let expected = Session::open(&direct).tools();
    let first = url(&mut tunnel);
    assert_eq!(Session::open(&first).tools(), expected);
    kill("KILL", ssh_of(tunnel.pid()).unwrap());
    let second = url(&mut tunnel);
    assert_eq!(Session::open(&second).tools(), expected);
    let client = ssh_of(tunnel.pid()).unwrap();
    tunnel.signal("TERM");
    let outcome = tunnel.wait();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("the tunnel is down: `ssh` ended (signal: 9"), "{outcome:?}");
    assert!(outcome.stderr.contains("anyone who knows the public URL can use"), "{outcome:?}");
    wait_until("ssh is gone", || !fs::exists(format!("/proc/{client}")).unwrap());
}

#[test]
fn an_ssh_server_that_rejects_the_forward_is_reported() {
    let home = Home::without_engine();
    let (_server, direct) = target(&home);
    let ssh = SshServer::start(&home);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // The SSH server tries both loopback addresses and needs only one of them, so the test occupies both.
    let _holders = ["127.0.0.1", "::1"].map(|address| TcpListener::bind((address, taken)));
    let args: serde_json::Value = serde_json::from_str(&ssh.args(&home)).unwrap();
    for (field, value, said) in [
        ("remote-port", json!(taken), "remote port forwarding failed"),
        ("identity-file", json!(home.path("host")), "Permission denied"),
        ("known-hosts-file", json!("/dev/null"), "Host key verification failed"),
    ] {
        let mut args = args.clone();
        args[field] = value;
        let args = args.to_string();
        let run = ["proxy", "tunnel", &direct, "front", "--tunnel-provider", "ssh", "--provider-args", &args];
        let outcome = home.run(&[&run[..], &["--allow-unauthenticated"]].concat());
        assert_ne!(outcome.code, Some(0), "{field}: {outcome:?}");
        assert!(outcome.stderr.contains(said), "{field}: {outcome:?}");
    }
}

#[test]
fn a_target_without_authentication_is_refused() {
    let home = Home::without_engine();
    let (_server, direct) = target(&home);
    home.replace(direct.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap(), "TARGET");
    let args = json!({ "command": ["touch", home.path("started"), "{port}"], "url": "https://t.example" })
        .to_string();
    home.replace(&args, "ARGS");
    let options = ["front", "--tunnel-provider", "command", "--provider-args", &args];
    let outcome = home.run_and_record(&[&["proxy", "tunnel", &direct], &options[..]].concat());
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{outcome:?}");
    assert!(!home.path("started").exists());
    for args in [
        &["proxy", "tunnel", "absent", "front", "--tunnel-provider", "ssh"][..],
        &["proxy", "tunnel", "absent", "front", "--tunnel-provider", "other"],
        &["proxy", "tunnel", "absent", "front"],
        &["proxy", "tunnel", &direct, "front", "--tunnel-provider", "command", "--provider-args", "{"],
    ] {
        assert_eq!(home.run_and_record(args).code, Some(2), "{args:?}");
    }
    home.assert_transcript("proxy/tunnel_refused");
}

#[test]
fn a_tunnel_by_a_command_gets_its_secrets_in_the_environment() {
    let home = Home::without_engine();
    home.set("MCPM_SECRET_token", "hush");
    let (authority, _told) = remote::server(&["401 Unauthorized"]);
    let target = format!("http://{authority}/mcp");
    let script = "echo connecting; echo \"$TOKEN ${MCPM_SECRET_token-none} $1\" > told; echo https://t.example/mcp; \
                  exec sleep 1000";
    let args = json!({ "command": ["sh", "-c", script, "sh", "{port}"], "secrets": { "TOKEN": "token" } })
        .to_string();
    let run = ["proxy", "tunnel", &target, "front", "--tunnel-provider", "command", "--provider-args", &args];
    let mut tunnel = Program::start(&mut home.mcpm(&run));
    assert_eq!(url(&mut tunnel), "https://t.example/mcp");
    let port = authority.split(':').nth(1).unwrap();
    assert_eq!(fs::read_to_string(home.path("told")).unwrap(), format!("hush none {port}\n"));
    tunnel.signal("TERM");
    assert_eq!(tunnel.wait().code, Some(0));
}

/// The real agent needs an account of its service, so a program that writes the same log lines replaces it.
#[test]
fn the_agent_of_ngrok_gets_its_arguments_and_its_token() {
    let home = Home::without_engine();
    home.set("MCPM_SECRET_token", "hush");
    let log = json!({ "lvl": "info", "msg": "started tunnel", "url": "https://t.example" });
    let agent = format!(
        "#!/bin/sh\necho \"$@\" > args\necho \"$NGROK_AUTHTOKEN\" > token\necho '{log}'\nexec sleep 1000\n"
    );
    let agent = home.write("bin/ngrok", &agent);
    fs::set_permissions(agent, fs::Permissions::from_mode(0o755)).unwrap();
    home.set("PATH", &format!("{}:{}", home.text("bin"), std::env::var("PATH").unwrap()));
    let (authority, _told) = remote::server(&["401 Unauthorized"]);
    let target = format!("http://{authority}/mcp");
    home.set("NGROK_AUTHTOKEN", "other");
    let args = json!({ "auth-token-secret": "token", "pooling": true });
    let run = |args: &str| {
        home.mcpm(&[
            "proxy",
            "tunnel",
            &target,
            "front",
            "--tunnel-provider",
            "ngrok",
            "--provider-args",
            args,
        ])
    };
    let mut tunnel = Program::start(&mut run(&args.to_string()));
    assert_eq!(url(&mut tunnel), "https://t.example/mcp");
    let expected =
        format!("http --inspect=false --log stdout --log-format json --pooling-enabled http://{authority}\n");
    assert_eq!(fs::read_to_string(home.path("args")).unwrap(), expected);
    assert_eq!(fs::read_to_string(home.path("token")).unwrap(), "hush\n");
    tunnel.signal("TERM");
    assert_eq!(tunnel.wait().code, Some(0));
    let dry = run(r#"{"dry-run":true,"auth-token":"hush"}"#).output().unwrap();
    let warned = String::from_utf8(dry.stderr).unwrap();
    assert!(warned.contains("the process list shows `auth-token`") && !warned.contains("hush"), "{warned}");
    assert_eq!(
        String::from_utf8(dry.stdout).unwrap(),
        format!("ngrok http --inspect=false --log stdout --log-format json http://{authority}\n")
    );
}

#[test]
fn what_a_wrapped_program_has_started_ends_with_the_tunnel() {
    let home = Home::without_engine();
    let (authority, _told) = remote::server(&["401 Unauthorized"]);
    let target = format!("http://{authority}/mcp");
    // The first process ends and leaves its child process behind.
    let script = "sleep 1000 & echo $! >> children; echo https://t.example/mcp; \
                  [ \"$(wc -l < children)\" = 1 ] || wait";
    let args = json!({ "command": ["sh", "-c", script, "sh", "{port}"] }).to_string();
    let run = ["proxy", "tunnel", &target, "front", "--tunnel-provider", "command", "--provider-args", &args];
    let mut tunnel = Program::start(&mut home.mcpm(&run));
    let child = |number: usize| {
        let children = fs::read_to_string(home.path("children")).unwrap();
        children.lines().nth(number).unwrap().parse::<u32>().unwrap()
    };
    url(&mut tunnel);
    url(&mut tunnel);
    assert!(!is_alive(child(0)));
    assert!(is_alive(child(1)));
    tunnel.signal("TERM");
    assert_eq!(tunnel.wait().code, Some(0));
    assert!(!is_alive(child(1)));
}

#[test]
fn a_tunnel_with_a_known_url_is_up_when_the_url_responds() {
    let home = Home::without_engine();
    let (authority, _told) = remote::server(&["401 Unauthorized"]);
    let target = format!("http://{authority}/mcp");
    let (public, asked) = remote::server(&["503 -", "503 -", "401 Unauthorized"]);
    let public = format!("http://{public}/mcp");
    let args = |script: &str, url: &str| {
        json!({ "command": ["sh", "-c", script, "{port}"], "url": url }).to_string()
    };
    let run = |args: &str| {
        home.mcpm(&[
            "proxy",
            "tunnel",
            &target,
            "front",
            "--tunnel-provider",
            "command",
            "--provider-args",
            args,
        ])
    };
    let mut tunnel = Program::start(&mut run(&args("exec sleep 1000", &public)));
    assert_eq!(url(&mut tunnel), public);
    assert_eq!(asked.try_iter().count(), 3);
    tunnel.signal("TERM");
    assert_eq!(tunnel.wait().code, Some(0));
    // This server accepts connections, and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap());
    let failed = run(&args("echo no; exit 3", &url)).output().unwrap();
    let said = String::from_utf8(failed.stderr).unwrap();
    assert!(
        failed.stdout.is_empty() && said.contains("`sh` ended (exit status: 3); last output: no"),
        "{said}"
    );
}

#[test]
fn a_redirect_to_an_endpoint_that_requires_authentication_passes() {
    let home = Home::without_engine();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("http://{}/mcp", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let read = stream.read(&mut request).unwrap_or(0);
            let status = match request[..read].starts_with(b"POST /mcp/ ") {
                true => "401 Unauthorized",
                false => "307 Temporary Redirect\r\nLocation: /mcp/",
            };
            let _ = write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let args =
        json!({ "command": ["sh", "-c", "echo https://t.example; exec sleep 1000", "{port}"] }).to_string();
    let run = ["proxy", "tunnel", &target, "front", "--tunnel-provider", "command", "--provider-args", &args];
    let mut tunnel = Program::start(&mut home.mcpm(&run));
    assert_eq!(url(&mut tunnel), "https://t.example");
    tunnel.signal("TERM");
    assert_eq!(tunnel.wait().code, Some(0));
}

#[test]
fn a_signal_ends_a_tunnel_that_waits_for_a_secret() {
    let home = Home::without_engine();
    let store =
        ["secret", "provider", "command", "--", "sh", "-c", "echo > asked; exec sleep 1000", "{name}"];
    home.run(&store).succeeded();
    let args = r#"{"auth-token-secret":"token"}"#;
    let run = ["proxy", "tunnel", "http://127.0.0.1:9/mcp", "front", "--tunnel-provider", "ngrok"];
    let tunnel = Program::start(&mut home.mcpm(&[&run[..], &["--provider-args", args]].concat()));
    wait_until("the store is asked", || home.path("asked").exists());
    tunnel.signal("TERM");
    let outcome = tunnel.wait();
    assert!(outcome.stderr.contains("interrupted"), "{outcome:?}");
}
