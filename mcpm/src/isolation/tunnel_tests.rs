use std::sync::Mutex;

use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::{io::DuplexStream, net::TcpListener};

use super::*;
use crate::isolation::{Isolation, IsolationSpec};

/// The first bytes of a handshake for `a.example`.
fn handshake(says_name: bool) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    config.enable_sni = says_name;
    let mut client = ClientConnection::new(Arc::new(config), "a.example".try_into().unwrap()).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// Two spliced connections: the client's end, the host's end, and the denials.
struct TunnelFixture {
    client: DuplexStream,
    host: TcpStream,
    denied: Arc<Mutex<Vec<(Rule, String)>>>,
    joined: tokio::task::JoinHandle<io::Result<()>>,
    _isolation: Isolation,
}

async fn start_tunnel(rules: &[&str], host: &str) -> TunnelFixture {
    joined_over(64 * 1024, rules, host).await
}

/// The client's connection buffers this many unread bytes.
async fn joined_over(room: usize, rules: &[&str], host: &str) -> TunnelFixture {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let outbound = serde_json::json!({ "allow_host": rules }).to_string();
    let spec = IsolationSpec {
        command: Vec::new(),
        outbound: serde_json::from_str(&outbound).unwrap(),
        runtime_gateway: false,
        learn: None,
    };
    let denied = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&denied);
    let tell = Arc::new(move |decision| {
        if let EgressDecision::Denied(denial) = decision {
            heard.lock().unwrap().push((denial.rule, denial.fix));
        }
    });
    let isolation = Isolation::start(None, &spec, None, Vec::new(), tell, None, None).unwrap();
    let (client, theirs) = tokio::io::duplex(room);
    let server = TcpStream::connect(address).await.unwrap();
    let (host_end, _) = listener.accept().await.unwrap();
    let (state, host) = (Arc::clone(&isolation.state), host.parse::<Host>().unwrap());
    let joined = tokio::spawn(async move { splice(&state, &host, address.port(), theirs, server).await });
    TunnelFixture { client, host: host_end, denied, joined, _isolation: isolation }
}

#[tokio::test]
async fn a_handshake_without_sni_needs_an_address_rule() {
    for (rules, host, says_name, refused) in [
        (&["a.example"][..], "a.example", true, false),
        (&["a.example"], "a.example", false, true),
        (&["*.example"], "a.example", false, true),
        // The rule for the address has another port, so it does not allow the connection.
        (&["a.example", "127.0.0.1:1"], "a.example", false, true),
        (&["a.example", "127.0.0.1"], "a.example", false, false),
        (&["a.example", "127.0.0.0/8"], "a.example", false, false),
        (&["127.0.0.1"], "127.0.0.1", false, false),
        (&["b.example"], "b.example", true, true),
    ] {
        let mut joined = start_tunnel(rules, host).await;
        let said = handshake(says_name);
        joined.client.write_all(&said).await.unwrap();
        if refused {
            let mut answer = Vec::new();
            joined.client.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, sniff::TLS_ACCESS_DENIED_ALERT, "{rules:?}");
            let denied = joined.denied.lock().unwrap().clone();
            let rule = if says_name { Rule::ServerNameMismatch } else { Rule::ServerNameMissing };
            assert_eq!(denied.len(), 1);
            assert_eq!(denied[0].0, rule);
            assert_eq!(denied[0].1.contains("`127.0.0.1:"), !says_name, "{denied:?}");
            // No byte was forwarded.
            joined.joined.await.unwrap().unwrap();
            assert_eq!(joined.host.read(&mut [0]).await.unwrap(), 0);
        } else {
            let mut heard = vec![0; said.len()];
            joined.host.read_exact(&mut heard).await.unwrap();
            assert_eq!(heard, said, "{rules:?}");
            assert!(joined.denied.lock().unwrap().is_empty());
        }
    }
}

/// The preface of an HTTP/2 client; the name follows later, compressed.
const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[tokio::test]
async fn a_plain_request_must_name_the_allowed_host() {
    for (rules, host, said, rule) in [
        (&["a.example"][..], "a.example", "Host: a.example", None),
        (&["a.example"], "a.example", "Host: A.example.:80", None),
        (&["a.example"], "a.example", "Host: b.example", Some(Rule::ServerNameMismatch)),
        (&["a.example"], "a.example", "Host: a.example\r\nHost: b.example", Some(Rule::ServerNameMismatch)),
        (&["a.example"], "a.example", "X: y", Some(Rule::ServerNameMissing)),
        (&["a.example", "127.0.0.1"], "a.example", "X: y", None),
        (&["127.0.0.1"], "127.0.0.1", "Host: b.example", None),
    ]
    .into_iter()
    .flat_map(|case| ["GET", "PROPFIND", "QUERY", "x-any"].map(|method| (method, case)))
    .map(|(method, (rules, host, asked, rule))| {
        (rules, host, format!("{method} / HTTP/1.1\r\n{asked}\r\n\r\n"), rule)
    })
    .chain([
        (&["a.example"][..], "a.example", PREFACE.to_owned(), Some(Rule::ServerNameMissing)),
        (&["a.example", "127.0.0.1"], "a.example", PREFACE.to_owned(), None),
    ]) {
        let mut joined = start_tunnel(rules, host).await;
        joined.client.write_all(said.as_bytes()).await.unwrap();
        if let Some(rule) = rule {
            let mut answer = String::new();
            joined.client.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
            assert!(answer.contains(rule.as_str()), "{answer}");
            assert_eq!(joined.denied.lock().unwrap()[0].0, rule, "{said}");
            joined.joined.await.unwrap().unwrap();
            assert_eq!(joined.host.read(&mut [0]).await.unwrap(), 0);
        } else {
            let mut heard = vec![0; said.len()];
            joined.host.read_exact(&mut heard).await.unwrap();
            assert_eq!(heard, said.as_bytes(), "{said}");
            assert!(joined.denied.lock().unwrap().is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_refusal_is_let_go() {
    let mut joined = joined_over(sniff::TLS_ACCESS_DENIED_ALERT.len() - 1, &["b.example"], "a.example").await;
    joined.client.write_all(&handshake(true)).await.unwrap();
    let outcome = joined.joined.await.unwrap();
    assert_eq!(outcome.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
}

#[tokio::test(start_paused = true)]
async fn an_idle_tunnel_is_closed() {
    let alive = Arc::new(ActivityTimer::new());
    let (mut near, far) = tokio::io::duplex(64);
    let mut signing = ActivityStream::new(far, Arc::clone(&alive));
    let begin = Instant::now();
    let idle = {
        let alive = Arc::clone(&alive);
        tokio::spawn(async move {
            alive.idle().await;
            Instant::now()
        })
    };
    tokio::time::advance(IDLE_TIMEOUT / 2).await;
    near.write_all(b"x").await.unwrap();
    signing.read_exact(&mut [0]).await.unwrap();
    tokio::time::advance(IDLE_TIMEOUT / 2).await;
    signing.write_all(b"y").await.unwrap();
    let last = Instant::now();
    assert!(last >= begin + IDLE_TIMEOUT);
    assert!(idle.await.unwrap() >= last + IDLE_TIMEOUT);
}
