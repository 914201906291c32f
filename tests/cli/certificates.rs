//! Tests servers and registries with certificates of a private authority, which `--mcpm-ca-bundle` makes trusted.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    process::Command,
};

use mcpm_tests::harness::{certificate_authority::CertificateAuthority, tls_terminator::TlsTerminator};
use serde_json::json;

use super::{
    remote,
    support::{Home, Outcome, Program, Session, testbed_variable, wait_until},
};

/// The everything-server behind TLS. It has the environment of the test, because the test must leave nothing in a home
/// folder.
fn server(authority: &CertificateAuthority) -> (Program, TlsTerminator) {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = Command::new(testbed_variable("MCPM_TEST_EVERYTHING_SERVER"));
    let server = Program::start(command.args(["-http", &address.to_string()]));
    wait_until("the server listens", || TcpStream::connect(address).is_ok());
    (server, TlsTerminator::start(authority, &address.to_string()))
}

#[test]
fn a_registry_over_plain_http_needs_no_certificates_of_the_machine() {
    let home = Home::without_engine();
    let registry = json!({"servers": [{"name": "com.example/far", "description": "Elsewhere", "version": "1.0.0",
        "remotes": [{"type": "streamable-http", "url": "https://mcp.example.com/mcp"}]}]});
    let (authority, _requests) = remote::server_with_body(&["200 OK"], registry.to_string());
    let url = format!("http://{authority}/registry.json");
    let mut list = home.mcpm(&["registry", "list", "--registry", &url]);
    list.env("SSL_CERT_FILE", "/dev/null").env("SSL_CERT_DIR", "/nowhere");
    let outcome = Outcome::of(list.output().unwrap()).succeeded();
    assert!(outcome.stdout.contains("com.example/far"), "{outcome:?}");
    home.assert_nothing_left();
}

#[test]
fn a_remote_server_of_a_private_authority_is_reached_with_the_bundle_and_after_a_restart() {
    let home = Home::without_engine();
    let (authority, other) = (CertificateAuthority::new(), CertificateAuthority::new());
    let (_server, front) = server(&authority);
    let (target, name) = (format!("https://{}/", front.address()), home.name("private"));
    let run = ["run", &target, "--name", &name];
    for more in [&[][..], &["--mcpm-ca-bundle", &other.certificate]] {
        for foreground in [&[][..], &["--foreground"]] {
            let outcome = home.run(&[&run[..], more, foreground].concat());
            assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(8), ""), "{outcome:?}");
            assert_eq!(outcome.stderr.lines().count(), 1, "one message: {outcome:?}");
            assert!(outcome.stderr.contains("is not trusted"), "{outcome:?}");
            assert!(outcome.stderr.contains("set `--mcpm-ca-bundle`"), "{outcome:?}");
            home.assert_nothing_left();
        }
    }
    let bundle = home.write("ca.pem", &fs::read_to_string(&authority.certificate).unwrap());
    let outcome = home.run(&[&run[..], &["--mcpm-ca-bundle", "ca.pem"]].concat()).succeeded();
    assert_eq!(outcome.stderr, "");
    let url = outcome.url();
    let tools = Session::open(&url).tools();
    assert!(!tools.is_empty());
    // The path was resolved in the folder in which the workload was created.
    let mut restart = home.mcpm(&["restart", &name]);
    let restarted = Outcome::of(restart.current_dir("/").output().unwrap()).succeeded();
    assert_eq!((restarted.stderr.as_str(), restarted.url()), ("", url.clone()));
    assert_eq!(Session::open(&url).tools(), tools);
    home.run(&["stop", &name]).succeeded();
    fs::remove_file(&bundle).unwrap();
    let outcome = home.run(&["start", &name]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains(&bundle), "{outcome:?}");
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}

#[test]
fn a_proxy_reaches_a_target_of_a_private_authority_with_the_bundle() {
    let home = Home::without_engine();
    let authority = CertificateAuthority::new();
    let (_server, front) = server(&authority);
    let target = format!("https://{}/", front.address());
    let mut run = home.mcpm(&["proxy", "p", "--target-uri", &target]);
    let mut proxy = Program::start(&mut run);
    let url = proxy.read_line().split_whitespace().nth(1).unwrap().to_owned();
    assert!(Session::without_session(&url).list_tools()["error"]["message"].is_string());
    proxy.wait_for_stderr("the certificate of the target is not trusted");
    proxy.wait_for_stderr("set `--mcpm-ca-bundle`");
    proxy.signal("TERM");
    assert_eq!(proxy.wait().code, Some(0));
    let mut proxy = Program::start(run.args(["--mcpm-ca-bundle", &authority.certificate]));
    let url = proxy.read_line().split_whitespace().nth(1).unwrap().to_owned();
    assert!(!Session::open(&url).tools().is_empty());
    proxy.signal("TERM");
    let outcome = proxy.wait();
    assert_eq!((outcome.code, outcome.stderr.contains("WARN")), (Some(0), false), "{outcome:?}");
}

#[test]
fn a_registry_of_a_private_authority_is_read_with_the_bundle() {
    let home = Home::without_engine();
    let authority = CertificateAuthority::new();
    let (_server, front) = server(&authority);
    let remotes = json!([{"type": "streamable-http", "url": format!("https://{}/", front.address())}]);
    let entry = json!({"name": "com.example/far", "description": "Elsewhere", "version": "1.0.0", "remotes": remotes});
    home.write("served/registry.json", &json!({"servers": [entry]}).to_string());
    let mut files = Command::new(testbed_variable("MCPM_TEST_PYTHON"));
    files.args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", &home.text("served")]);
    let mut files = Program::start(&mut files);
    let said = files.read_line();
    let port = said.split_whitespace().skip_while(|word| *word != "port").nth(1).unwrap();
    let served = TlsTerminator::start(&authority, &format!("127.0.0.1:{port}"));
    let registry = format!("https://{}/registry.json", served.address());
    let (name, bundle) = (home.name("far"), ["--mcpm-ca-bundle", &authority.certificate]);
    let list = ["registry", "list", "--registry", &registry];
    let run = ["run", "far", "--registry", &registry, "--name", &name];
    for args in [&list[..], &run] {
        let outcome = home.run(args);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(10), ""), "{outcome:?}");
        assert!(outcome.stderr.contains("set `--mcpm-ca-bundle`"), "{outcome:?}");
    }
    let listed = home.run(&[&list[..], &bundle].concat()).succeeded();
    assert!(listed.stdout.contains("com.example/far"), "{listed:?}");
    let url = home.run(&[&run[..], &bundle].concat()).succeeded().url();
    assert!(!Session::open(&url).tools().is_empty());
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}

#[test]
fn a_bundle_alone_is_no_error_and_one_that_cannot_be_used_is_refused_first() {
    let home = Home::without_engine();
    let authority = CertificateAuthority::new();
    let (plain, _told) = remote::server(&["200 OK"]);
    let (target, name) = (format!("http://{plain}/mcp"), home.name("plain"));
    let run = ["run", &target, "--name", &name];
    let outcome = home.run(&[&run[..], &["--mcpm-ca-bundle", &authority.certificate]].concat()).succeeded();
    assert_eq!(outcome.stderr, "");
    home.run(&["rm", &name]).succeeded();
    let proxy = ["proxy", "p", "--target-uri", &target];
    let mut running = home.mcpm(&[&proxy[..], &["--mcpm-ca-bundle", &authority.certificate]].concat());
    let mut running = Program::start(&mut running);
    running.read_line();
    running.signal("TERM");
    let outcome = running.wait();
    assert_eq!((outcome.code, outcome.stderr.contains("WARN")), (Some(0), false), "{outcome:?}");
    home.write("empty.pem", "no certificate");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let registry = format!("https://{closed}/registry.json");
    let named = ["run", "far", "--registry", &registry];
    for (file, cause) in
        [("missing.pem", "No such file"), ("empty.pem", "it contains no certificate in PEM form")]
    {
        let bundle = ["--mcpm-ca-bundle", file];
        for args in [
            &run[..],
            &[&run[..], &["--foreground"]].concat(),
            &[&run[..], &["--plan"]].concat(),
            &proxy,
            &named,
            &[&named[..], &["--plan"]].concat(),
            &["run", "image:a", "--name", &name],
            &["registry", "list", "--registry", &registry],
        ] {
            let outcome = home.run(&[args, &bundle].concat());
            assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{args:?}: {outcome:?}");
            assert_eq!(outcome.stderr.lines().count(), 1, "one message: {outcome:?}");
            for part in [file, cause, "set `--mcpm-ca-bundle`"] {
                assert!(outcome.stderr.contains(part), "{part}: {args:?}: {outcome:?}");
            }
        }
    }
    home.assert_nothing_left();
}
