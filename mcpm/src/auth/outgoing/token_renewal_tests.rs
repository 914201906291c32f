//! Tests renewals over a simulated day, with a test clock and a real token endpoint.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use url::Url;

use super::OutgoingAuth;
use crate::{
    Environment, Error, ErrorKind, Result,
    auth::outgoing::{
        OutgoingSecrets, OutgoingSpec, kept_login::KeptLogin, registration::ClientRegistration,
    },
    options::Secret,
    secrets::SecretStore,
    testing::with_timeout,
};

/// Seconds since 1970 on the clock of the test.
static CLOCK: AtomicU64 = AtomicU64::new(1_900_000_000);
/// How long a token is valid, in seconds.
const LIFETIME: u64 = 3600;

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(CLOCK.load(Ordering::Relaxed))
}

/// Starts a token endpoint, which counts the tokens that it issues.
async fn token_endpoint(issued: Arc<AtomicU32>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let url = format!("http://{}/token", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let issued = Arc::clone(&issued);
            let respond = service_fn(move |_: http::Request<Incoming>| {
                let number = issued.fetch_add(1, Ordering::Relaxed) + 1;
                let body = format!(
                    r#"{{"access_token":"access-{number}","token_type":"Bearer","expires_in":{LIFETIME}}}"#
                );
                std::future::ready(Ok::<_, Infallible>(Response::new(body)))
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), respond));
        }
    });
    url
}

fn login(token_endpoint: String) -> Secret {
    let login = KeptLogin {
        issuer: "https://id.example".to_owned(),
        token_endpoint,
        revocation_endpoint: None,
        resource: "http://127.0.0.1:1/mcp".to_owned(),
        client: ClientRegistration {
            client_id: "me".to_owned(),
            client_secret: None,
            is_configured: false,
            expires: false,
            sends_secret_in_body: false,
            redirect_uri: None,
        },
        scopes: Vec::new(),
        missing_scopes: Vec::new(),
        is_of_client: false,
        access_token: Secret::from("access-0"),
        refresh_token: Some(Secret::from("refresh")),
        expires_at: Some(now() + Duration::from_secs(LIFETIME)),
        is_saved: false,
    };
    login.to_secret()
}

fn number(header: &HeaderValue) -> u32 {
    let token = header.to_str().expect("text").strip_prefix("Bearer access-").expect("a token");
    token.parse().expect("a number")
}

#[tokio::test]
async fn a_day_of_requests_has_valid_tokens_and_so_has_a_clock_that_jumps() {
    let issued = Arc::new(AtomicU32::new(0));
    let endpoint = token_endpoint(Arc::clone(&issued)).await;
    let target = Url::parse("http://127.0.0.1:1/mcp").expect("a URL");
    let auth = OutgoingAuth::new(OutgoingSpec::default(), OutgoingSecrets::default(), target, None, None);
    let auth = Arc::new(OutgoingAuth { now, ..auth.expect("the configuration is valid") });
    with_timeout(async {
        auth.restore(Some(&login(endpoint))).await.expect("a login");
        // The number of the current token, and when it was issued.
        let (mut used, mut issued_at) = (0, now());
        for _ in 0..24 * 60 {
            CLOCK.fetch_add(60, Ordering::Relaxed);
            let header = auth.authorization().await.expect("a token").expect("a token");
            assert_eq!(number(&header), used);
            assert!(now() < issued_at + Duration::from_secs(LIFETIME), "an expired token was used");
            // A renewal before the expiry is completed before the next request.
            tokio::task::yield_now().await;
            drop(auth.renewal.lock().await);
            if issued.load(Ordering::Relaxed) > used {
                (used, issued_at) = (issued.load(Ordering::Relaxed), now());
            }
        }
        // Each token is renewed 5 to 7.5 minutes before its expiry.
        assert!((25..=28).contains(&used), "{used} renewals");

        // A clock that is ahead makes the token look expired.
        CLOCK.fetch_add(48 * 3600, Ordering::Relaxed);
        let header = auth.authorization().await.expect("a token").expect("a token");
        assert_eq!(number(&header), used + 1);
        // A clock that is behind makes the token look valid for days, but the server rejects it.
        CLOCK.fetch_sub(96 * 3600, Ordering::Relaxed);
        let header = auth.authorization().await.expect("a token").expect("a token");
        assert_eq!(number(&header), used + 1);
        let rejected = (StatusCode::UNAUTHORIZED, HeaderMap::new());
        let renewed = auth.after_rejection(Some(header), rejected.0, &rejected.1, false).await;
        assert_eq!(number(&renewed.expect("a token")), used + 2);
        assert_eq!(issued.load(Ordering::Relaxed), used + 2);
    })
    .await;
}

/// A store that can be made read-only temporarily.
#[derive(Debug, Default)]
struct MemoryStore {
    values: Mutex<BTreeMap<String, Secret>>,
    is_read_only: AtomicBool,
}

#[async_trait]
impl SecretStore for MemoryStore {
    fn location(&self) -> String {
        "the memory".to_owned()
    }

    async fn read(&self, names: &[String]) -> Result<BTreeMap<String, Secret>> {
        let values = self.values.lock().expect("the values");
        let found = names.iter().filter_map(|name| Some((name.clone(), values.get(name)?.clone())));
        Ok(found.collect())
    }

    async fn set(&self, name: &str, value: &Secret) -> Result<()> {
        if self.is_read_only.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::SecretsUnavailable, "it is locked"));
        }
        self.values.lock().expect("the values").insert(name.to_owned(), value.clone());
        Ok(())
    }

    async fn list(&self) -> Result<Vec<String>> {
        Ok(self.values.lock().expect("the values").keys().cloned().collect())
    }

    async fn remove(&self, name: &str) -> Result<bool> {
        Ok(self.values.lock().expect("the values").remove(name).is_some())
    }
}

#[tokio::test]
async fn a_login_that_could_not_be_saved_gives_way_to_a_newer_one() {
    let issued = Arc::new(AtomicU32::new(0));
    let endpoint = token_endpoint(Arc::clone(&issued)).await;
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(MemoryStore::default());
    let mut environment = Environment::from_lookup(|_| None);
    environment.state_dir = folder.path().to_owned();
    environment.secrets.store = Some(Arc::<MemoryStore>::clone(&store));
    let process = || {
        let target = Url::parse("http://127.0.0.1:1/mcp").expect("a URL");
        let (spec, secrets) = (OutgoingSpec::default(), OutgoingSecrets::default());
        Arc::new(OutgoingAuth::new(spec, secrets, target, None, Some(environment.clone())).expect("is valid"))
    };
    let (first, second) = (process(), process());
    store.set(&first.login_name(), &login(endpoint)).await.expect("is writable");
    let reject = async |process: &Arc<OutgoingAuth>| {
        let rejected = (process.current(), StatusCode::UNAUTHORIZED, HeaderMap::new());
        let renewed = process.after_rejection(rejected.0, rejected.1, &rejected.2, false).await;
        number(&renewed.expect("a token"))
    };
    with_timeout(async {
        first.restore(None).await.expect("a login");
        store.is_read_only.store(true, Ordering::Relaxed);
        assert_eq!(reject(&first).await, 1);
        // The login in the store is older, so it is not used.
        assert_eq!(reject(&first).await, 2);
        store.is_read_only.store(false, Ordering::Relaxed);
        second.restore(None).await.expect("a login");
        assert_eq!(reject(&second).await, 3);
        assert_eq!(reject(&first).await, 3);
        assert_eq!(issued.load(Ordering::Relaxed), 3);
    })
    .await;
}
