//! Tests the token exchange of a workload: where the client secret is sent, and where it must not be stored.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    path::Path,
    process::Command,
    sync::mpsc,
};

use super::support::Home;

/// The client secret of the exchange.
const SECRET: &str = "canary-of-the-exchange";
/// The token that the exchange returns.
const SERVER_TOKEN: &str = "canary-of-the-server";
/// The caller's token.
const CALLER_TOKEN: &str = "canary-of-the-caller";

/// A server that requires a token, and an identity provider that introspects and exchanges tokens, at one address. It
/// records each request: the request line, `Authorization`, and the body.
fn server() -> (String, mpsc::Receiver<[String; 3]>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let authority = listener.local_addr().unwrap().to_string();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let (mut line, mut authorization, mut length) = (String::new(), String::new(), 0);
            loop {
                let mut next = String::new();
                if reader.read_line(&mut next).unwrap_or(0) == 0 || next.trim().is_empty() {
                    break;
                }
                let next = next.trim();
                match next.split_once(": ") {
                    None => line = next.to_owned(),
                    Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                        value.clone_into(&mut authorization);
                    }
                    Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                        length = value.parse().unwrap();
                    }
                    Some(_) => {}
                }
            }
            // A connection without a request only checks whether the server listens.
            if line.is_empty() {
                continue;
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            let (status, answer) = match path.as_str() {
                "/introspect" => ("200 OK", r#"{"active":true,"sub":"ann","aud":"team"}"#.to_owned()),
                "/token" => {
                    let kind = "urn:ietf:params:oauth:token-type:access_token";
                    let fields = format!(r#""token_type":"Bearer","issued_token_type":"{kind}""#);
                    ("200 OK", format!(r#"{{"access_token":"{SERVER_TOKEN}",{fields}}}"#))
                }
                _ if authorization == format!("Bearer {SERVER_TOKEN}") => ("200 OK", "{}".to_owned()),
                _ => ("401 Unauthorized", "{}".to_owned()),
            };
            let _ = tell.send([line, authorization, String::from_utf8(body).unwrap()]);
            let length = answer.len();
            let head = "Content-Type: application/json\r\nConnection: close";
            let _ = write!(
                reader.get_mut(),
                "HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {length}\r\n\r\n{answer}"
            );
        }
    });
    (authority, told)
}

/// Posts with the caller's token, and returns the status and the body.
fn call(url: &str) -> (String, String) {
    let output = Command::new("curl")
        .args([
            "-s",
            "--noproxy",
            "*",
            "-w",
            "%{http_code}",
            "-d",
            "{}",
            "-H",
            "Content-Type: application/json",
        ])
        .args(["-H", &format!("Authorization: Bearer {CALLER_TOKEN}"), url])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.split_at(text.len() - 3);
    (status.to_owned(), body.to_owned())
}

/// The files below a folder that contain a text.
fn files_containing(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_containing(&path, text));
        } else if fs::read(&path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text)) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn token_exchange_stores_no_secret() {
    let (authority, told) = server();
    let home = Home::without_engine();
    let name = home.name("x");
    let (target, introspection, exchange) = (
        format!("http://{authority}/mcp"),
        format!("http://{authority}/introspect"),
        format!("http://{authority}/token"),
    );
    let run = [
        "run",
        &target,
        "--name",
        &name,
        "--jwks-allow-private-ip",
        "--oidc-introspection-url",
        &introspection,
        "--oidc-client-id",
        "me",
        "--oidc-audience",
        "team",
        "--token-exchange-url",
        &exchange,
        "--token-exchange-client-id",
        "me",
        "--token-exchange-audience",
        "server",
    ];
    let with_secrets = |args: &[&str]| {
        let mut command = home.mcpm(args);
        command.env("MCPM_OIDC_CLIENT_SECRET", "other").env("MCPM_TOKEN_EXCHANGE_CLIENT_SECRET", SECRET);
        command.output().map(super::support::Outcome::of).unwrap()
    };
    let outcome = with_secrets(&run).succeeded();
    assert!(!outcome.stderr.contains("login"), "it will have a token: {outcome:?}");
    let url = outcome.url();
    // The start also checks whether introspection works.
    let next = || loop {
        let request = told.recv().unwrap();
        if !request[2].contains("token=mcpm-start-check") {
            break request;
        }
    };
    let first = next();
    assert!(first[0].starts_with("POST /mcp ") && first[1].is_empty(), "{first:?}");
    let is_exchanged = || {
        assert_eq!(call(&url), ("200".to_owned(), "{}".to_owned()));
        let mut came: Vec<[String; 3]> = Vec::new();
        // The check at the start has no token.
        while came.last().is_none_or(|last| !last[0].starts_with("POST /mcp ") || last[1].is_empty()) {
            came.push(next());
        }
        came
    };
    let came = is_exchanged();
    assert_eq!(came.len(), 3, "{came:?}");
    // `me:canary-of-the-exchange`
    assert_eq!(came[1][1], "Basic bWU6Y2FuYXJ5LW9mLXRoZS1leGNoYW5nZQ==");
    assert!(
        came[1][2].contains(&format!("subject_token={CALLER_TOKEN}"))
            && came[1][2].contains("audience=server")
    );
    assert_eq!(came[2], ["POST /mcp HTTP/1.1".to_owned(), format!("Bearer {SERVER_TOKEN}"), "{}".to_owned()]);

    // The secret is neither on disk, nor in the process's arguments and environment, nor in any output.
    let supervisor = home.supervisor(&name);
    let process = |file: &str| fs::read(format!("/proc/{supervisor}/{file}")).unwrap();
    let (arguments, environment) = (process("cmdline"), process("environ"));
    let shown = [
        home.run(&["export", &name]).succeeded().stdout,
        home.run(&["status", &name, "--output", "json"]).succeeded().stdout,
        home.run(&["logs", &name, "--proxy"]).succeeded().stdout,
        String::from_utf8_lossy(&arguments).into_owned(),
        String::from_utf8_lossy(&environment).into_owned(),
    ];
    for secret in [SECRET, SERVER_TOKEN, CALLER_TOKEN] {
        assert_eq!(files_containing(&home.path("state"), secret), [""; 0], "{secret}");
        assert!(shown.iter().all(|text| !text.contains(secret)), "{secret}: {shown:?}");
    }

    // So the secret must be given again.
    home.run(&["stop", &name]).succeeded();
    let mut start = home.mcpm(&["start", &name]);
    let refused =
        start.env("MCPM_OIDC_CLIENT_SECRET", "other").output().map(super::support::Outcome::of).unwrap();
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("MCPM_TOKEN_EXCHANGE_CLIENT_SECRET"), "{refused:?}");
    with_secrets(&["start", &name]).succeeded();
    assert_eq!(is_exchanged().last().unwrap()[1], format!("Bearer {SERVER_TOKEN}"));
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}

#[test]
fn an_exchange_that_cannot_be_is_refused_before_anything_is_done() {
    let home = Home::without_engine();
    let empty = home.write("empty", "\n");
    home.set("MCPM_SECRET_key", "value");
    let proxy = "proxy notes --target-uri http://127.0.0.1:1 --oidc-issuer https://id.example";
    let url = "--token-exchange-url https://id.example/token";
    let run = "run https://mcp.example.com/mcp --oidc-issuer https://id.example";
    for line in [
        format!("proxy notes --target-uri http://127.0.0.1:1 {url}"),
        format!("run https://mcp.example.com/mcp {url}"),
        format!("{proxy} --token-exchange-url http://id.example/token"),
        format!("{proxy} --token-exchange-url id.example/token"),
        format!("{proxy} --token-exchange-url https://me:hidden@id.example/token"),
        format!("{proxy} {url} --token-exchange-client-secret hidden"),
        format!("{proxy} {url} --token-exchange-client-id a --token-exchange-client-secret-file absent"),
        format!("{run} {url} --token-exchange-client-id a --token-exchange-client-secret-file {empty}"),
        format!(
            "{proxy} {url} --token-exchange-client-id a --token-exchange-client-secret hidden \
             --token-exchange-client-secret-file {empty}"
        ),
        format!("{proxy} {url} --token-exchange-subject-token-type saml2"),
        format!("{proxy} {url} --token-exchange-scopes a\"b"),
        format!("{proxy} {url} --token-exchange-header-name Mcp-Session-Id"),
        format!("{run} {url} --secret key,target=header:Authorization"),
        format!("run image:notes --transport stdio --oidc-issuer https://id.example {url}"),
    ] {
        let args: Vec<&str> = line.split_whitespace().collect();
        let outcome = home.run_and_record(&args);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{line}: {outcome:?}");
        assert!(!outcome.stderr.contains("hidden"), "{outcome:?}");
    }
    home.assert_nothing_left();
    home.assert_transcript("exchange/refused");
}
