//! Checks that mcpm does not log in if the authorization server or its metadata cannot be trusted.

use std::{process::Stdio, sync::Arc};

use mcpm::{Environment, Error, ErrorKind, user_prompt::UserPrompt};
use mcpm_tests::harness::{
    testbed,
    upstream::{Upstream, UpstreamResponse},
    with_timeout,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

use crate::{
    outgoing::{Approved, issuer, json_response, proxy},
    protected_server::ProtectedServer,
};

/// Starts a proxy that logs in, and returns the error.
async fn login_error(url: &str) -> Error {
    let home = tempfile::tempdir().unwrap();
    let user: Arc<dyn UserPrompt> = Arc::new(Approved);
    let started = proxy(url, home.path(), Some(user)).build().unwrap().start().await;
    started.err().unwrap_or_else(|| panic!("{url} was trusted"))
}

/// The reason that an error names, which must be known to `mcpm explain`.
fn reason(error: &Error) -> Option<String> {
    let text = error.to_string();
    let id = text.split_once("(reason: ")?.1.split(')').next().unwrap().to_owned();
    let explained = mcpm::explain(&id, &Environment::from_lookup(|_| None)).unwrap();
    assert_eq!(explained.reason, id);
    Some(id)
}

#[tokio::test(flavor = "multi_thread")]
async fn authorization_servers_that_cannot_be_trusted_are_refused() {
    type Change = fn(&mut Value);
    let cases: [(&str, Option<&str>, Change); 13] = [
        ("does not support PKCE", Some("outgoing.pkce_missing"), |metadata| {
            metadata.as_object_mut().unwrap().remove("code_challenge_methods_supported");
        }),
        ("does not support PKCE", Some("outgoing.pkce_missing"), |metadata| {
            metadata["code_challenge_methods_supported"] = json!(["plain"]);
        }),
        ("belongs to another issuer", Some("outgoing.mix_up"), |metadata| {
            metadata["issuer"] = json!("https://id.example");
        }),
        ("does not name the issuer", Some("outgoing.mix_up"), |metadata| {
            metadata["authorization_response_iss_parameter_supported"] = json!(true);
        }),
        ("neither `https` nor `http`", Some("outgoing.url_denied"), |metadata| {
            metadata["authorization_endpoint"] = json!("javascript:alert(1)");
        }),
        ("neither `https` nor `http`", Some("outgoing.url_denied"), |metadata| {
            metadata["token_endpoint"] = json!("file:///etc/passwd");
        }),
        ("is not a public address", Some("outgoing.url_denied"), |metadata| {
            metadata["token_endpoint"] = json!("https://169.254.169.254/token");
        }),
        ("does not use `https`", Some("outgoing.url_denied"), |metadata| {
            metadata["token_endpoint"] = json!("http://id.example/token");
        }),
        ("is not a public address", Some("outgoing.url_denied"), |metadata| {
            metadata["registration_endpoint"] = json!("https://169.254.169.254/latest");
        }),
        ("not printable", Some("outgoing.url_denied"), |metadata| {
            metadata["token_endpoint"] = json!("https://id.example/\u{1b}[2J");
        }),
        ("polling interval", Some("outgoing.response_unusable"), |metadata| {
            metadata.as_object_mut().unwrap().remove("authorization_endpoint");
            metadata["device_authorization_endpoint"] =
                json!(format!("{}/device/rare", metadata["issuer"].as_str().unwrap()));
        }),
        ("does not support dynamic client registration", None, |metadata| {
            metadata.as_object_mut().unwrap().remove("registration_endpoint");
        }),
        ("larger than", Some("outgoing.response_unusable"), |metadata| {
            metadata["padding"] = json!("x".repeat(300 << 10));
        }),
    ];
    for (expected, id, change) in cases {
        let (url, issuer) = issuer(change).await;
        let error = login_error(&url).await;
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        assert_eq!(reason(&error).as_deref(), id, "{error}");
        assert_eq!(issuer.lock().unwrap().issued, 0, "{expected}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_of_the_resource_leads_nowhere_else() {
    let slow = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at_slow = format!("http://{}/metadata", slow.local_addr().unwrap());
    // It accepts connections, and sends nothing.
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = slow.accept().await {
            kept.push(stream);
        }
    });
    for (metadata, status, expected, id) in [
        // A redirect to the address at which clouds serve credentials.
        ("/away", "302 Found", "is not a public address", "outgoing.url_denied"),
        ("/around", "302 Found", "more than 3 redirects", "outgoing.response_unusable"),
        ("/other", "200 OK", "is for another resource", "outgoing.mix_up"),
        ("/broken", "200 OK", "is not valid metadata", "outgoing.response_unusable"),
        (&at_slow, "", "no response within 20 s", "outgoing.response_unusable"),
        ("https://169.254.169.254/latest", "", "is not a public address", "outgoing.url_denied"),
        ("ftp://id.example/x", "", "neither `https` nor `http`", "outgoing.url_denied"),
    ] {
        let upstream = Upstream::listen().await;
        let (origin, url) = (upstream.uri(""), upstream.uri("/mcp"));
        let place =
            if metadata.starts_with('/') { format!("{origin}{metadata}") } else { metadata.to_owned() };
        let (name, location) = (metadata.to_owned(), place.clone());
        upstream.serve(move |request| match request.line.split(' ').nth(1).unwrap() {
            "/mcp" => UpstreamResponse {
                status: "401 Unauthorized".to_owned(),
                headers: format!("WWW-Authenticate: Bearer resource_metadata=\"{place}\"\r\n"),
                body: String::new(),
            },
            path if path == name => UpstreamResponse {
                status: status.to_owned(),
                headers: match path {
                    "/away" => "Location: http://169.254.169.254/latest/meta-data\r\n".to_owned(),
                    "/around" => format!("Location: {location}\r\n"),
                    _ => "Content-Type: application/json\r\n".to_owned(),
                },
                body: match path {
                    "/other" => r#"{"resource":"https://bank.example/mcp"}"#.to_owned(),
                    _ => "{".to_owned(),
                },
            },
            _ => json_response("404 Not Found", &json!({})),
        });
        let error = login_error(&url).await;
        assert!(error.to_string().contains(expected), "{metadata}: {error}");
        assert_eq!(reason(&error).as_deref(), Some(id), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_without_pkce_is_refused() {
    let mut provider = Command::new(testbed::path("MCPM_TEST_PYTHON"))
        .args(["-u", "-m", "oidc_provider_mock", "-p", "0"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(provider.stderr.take().unwrap()).lines();
    let found = async {
        loop {
            let line = lines.next_line().await.unwrap().unwrap();
            if let Some((_, port)) = line.split_once("http://127.0.0.1:") {
                let port: String = port.chars().take_while(char::is_ascii_digit).collect();
                break format!("http://127.0.0.1:{port}");
            }
        }
    };
    let issuer = with_timeout("the provider", found).await;
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let server = ProtectedServer::start(|proxy| proxy.oidc_issuer(issuer.clone())).await;
    let error = login_error(server.proxy.url()).await;
    assert_eq!(reason(&error).as_deref(), Some("outgoing.pkce_missing"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_user_a_required_login_is_an_error() {
    let (url, _issuer) = issuer(|_| {}).await;
    let home = tempfile::tempdir().unwrap();
    let error = proxy(&url, home.path(), None).build().unwrap().start().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LoginRequired, "{error}");
}
