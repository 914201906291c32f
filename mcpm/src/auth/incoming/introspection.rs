//! Asks the identity provider about a token (RFC 7662), and keeps what it says for a short while.
//!
//! A word of the provider holds for half a minute, and never beyond the token's own end. However many callers
//! there are, it is asked about a token by one of them at a time, and about few tokens at once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, SystemTime},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::{Map, Value};
use tokio::{sync::Semaphore, time::Instant};
use url::{Url, form_urlencoded};

use super::{Principal, claims, refusal::Refusal};
use crate::{
    Error, ErrorKind, Result,
    auth::http::{Ask, Http},
    options::Secret,
};

/// How long the word of the provider holds.
const HOLDS: Duration = Duration::from_secs(30);
/// How long it holds that there was no answer.
const PAUSE: Duration = Duration::from_secs(1);
/// Most tokens that are asked about at once.
const AT_ONCE: usize = 32;
/// How long a token waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most tokens of which it is kept.
const MOST: usize = 10_000;
/// Largest answer in bytes.
const LARGEST: usize = 64 << 10;

/// What the provider says of tokens, by their SHA-256.
pub(super) struct Introspection {
    said: Mutex<HashMap<Key, (Said, Instant)>>,
    /// Held by who asks about a token.
    turns: Mutex<HashMap<Key, Weak<tokio::sync::Mutex<()>>>>,
    room: Semaphore,
}

type Key = [u8; 32];

impl Default for Introspection {
    fn default() -> Self {
        Self { said: Mutex::default(), turns: Mutex::default(), room: Semaphore::new(AT_ONCE) }
    }
}

type Said = std::result::Result<Arc<Principal>, Refusal>;

impl std::fmt::Debug for Introspection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Introspection(..)")
    }
}

/// Who asks, and where.
#[derive(Debug)]
pub(super) struct Question<'a> {
    pub(super) http: &'a Http,
    pub(super) endpoint: &'a Url,
    pub(super) client_id: &'a str,
    pub(super) client_secret: Option<&'a Secret>,
    /// Authorises the request where there is no client secret.
    pub(super) bearer: Option<HeaderValue>,
    pub(super) issuer: Option<&'a str>,
}

impl Introspection {
    /// Says whom a token stands for, as the provider says or said a moment ago.
    pub(super) async fn ask(&self, token: &str, question: Question<'_>) -> Said {
        let put = async {
            match question.put(token).await {
                Ok(Some(claims)) => {
                    let stands_in = question.issuer.unwrap_or(question.endpoint.as_str());
                    let now = SystemTime::now();
                    claims::principal(claims, token, question.issuer, Some(stands_in), now).map(Arc::new)
                }
                Ok(None) => Err(Refusal::Inactive),
                Err(error) => {
                    tracing::warn!(%error, "the identity provider cannot be asked about a token");
                    Err(Refusal::Unavailable)
                }
            }
        };
        self.once(digest(token), put).await
    }

    /// What was said of a token, or is said now: to one who asks, for all who wait.
    async fn once(&self, key: Key, put: impl Future<Output = Said>) -> Said {
        if let Some(said) = self.kept(&key) {
            return said;
        }
        let turn = self.turn(key);
        let turns = async {
            let turn = turn.lock().await;
            // Whoever had it before may have asked.
            let kept = self.kept(&key);
            let room = if kept.is_some() { None } else { self.room.acquire().await.ok() };
            (turn, kept, room)
        };
        let Ok((_turn, kept, _room)) = tokio::time::timeout(PATIENCE, turns).await else {
            return Err(Refusal::Unavailable);
        };
        if let Some(said) = kept {
            return said;
        }
        let said = put.await;
        self.keep(key, said.clone());
        said
    }

    fn turn(&self, key: Key) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(&key).and_then(Weak::upgrade) {
            return turn;
        }
        // Those that nobody waits for any more go when they are the greater part.
        if turns.len() >= turns.capacity() {
            turns.retain(|_, turn| turn.strong_count() > 0);
        }
        let turn = Arc::default();
        turns.insert(key, Arc::downgrade(&turn));
        turn
    }

    fn kept(&self, key: &Key) -> Option<Said> {
        let said = self.lock();
        let (said, since) = said.get(key)?;
        let holds = if matches!(said, Err(Refusal::Unavailable)) { PAUSE } else { HOLDS };
        if since.elapsed() >= holds {
            return None;
        }
        match said {
            // Never beyond its end, whatever the clocks are granted.
            Ok(principal) if SystemTime::now() >= principal.expires => None,
            said => Some(said.clone()),
        }
    }

    fn keep(&self, key: Key, word: Said) {
        let mut said = self.lock();
        if said.len() >= MOST {
            said.retain(|_, (_, since)| since.elapsed() < HOLDS);
        }
        // Tokens that nobody has issued must not drive out those that are used.
        if said.len() < MOST || word.is_ok() {
            if said.len() >= MOST {
                said.retain(|_, (word, _)| word.is_ok());
            }
            if said.len() >= MOST {
                said.clear();
            }
            said.insert(key, (word, Instant::now()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, (Said, Instant)>> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Question<'_> {
    /// What the provider says of a token; `None` when it is not active.
    async fn put(&self, token: &str) -> Result<Option<Map<String, Value>>> {
        let refused = |why: String| {
            Error::new(ErrorKind::Upstream, format!("the introspection endpoint gave no answer: {why}"))
        };
        let ask = Ask {
            method: Method::POST,
            url: self.endpoint.clone(),
            headers: self.headers()?,
            body: self.form(token).into(),
        };
        let answer = self.http.send(ask, LARGEST).await?;
        if answer.status != StatusCode::OK {
            return Err(refused(format!("it says {}", answer.status)));
        }
        let mut claims: Map<String, Value> = serde_json::from_slice(&answer.body)
            // What is wrong with it is not repeated: it may be the token.
            .map_err(|error| refused(format!("it cannot be read ({:?})", error.classify())))?;
        match claims.remove("active") {
            Some(Value::Bool(true)) => {
                // To leave a thing out and to say `null` is the same.
                claims.retain(|_, value| !value.is_null());
                Ok(Some(claims))
            }
            Some(Value::Bool(false)) => Ok(None),
            _ => Err(refused("it does not say whether the token is active".to_owned())),
        }
    }

    /// The form that is posted; here, since its maker cannot be held while one waits.
    fn form(&self, token: &str) -> String {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("token", token).append_pair("token_type_hint", "access_token");
        if self.client_secret.is_none() {
            form.append_pair("client_id", self.client_id);
        }
        form.finish()
    }

    fn headers(&self) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, form);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let credentials = match self.client_secret {
            Some(secret) => {
                // Each part is encoded as in a form first (RFC 6749 section 2.3.1).
                let encoded =
                    |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", encoded(self.client_id), encoded(secret.expose()));
                let value = HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(pair)));
                Some(value.map_err(|_| Error::new(ErrorKind::Internal, "the client secret cannot be sent"))?)
            }
            None => self.bearer.clone(),
        };
        if let Some(mut credentials) = credentials {
            credentials.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, credentials);
        }
        Ok(headers)
    }
}

fn digest(token: &str) -> Key {
    let digest = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_asks_about_a_token_for_all_who_wait() {
        let (introspection, asked) = (Introspection::default(), AtomicUsize::new(0));
        let put = |said: Refusal| {
            let asked = &asked;
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                asked.fetch_add(1, Relaxed);
                Err(said)
            }
        };
        for (key, said) in [([1; 32], Refusal::Inactive), ([2; 32], Refusal::Unavailable)] {
            let all = join_all((0..50).map(|_| introspection.once(key, put(said)))).await;
            assert!(all.iter().all(|one| matches!(one, Err(refusal) if *refusal == said)));
        }
        assert_eq!(asked.load(Relaxed), 2);
        // That there was no answer holds for a moment, and a word for longer.
        tokio::time::advance(PAUSE).await;
        for (key, said, count) in [([1; 32], Refusal::Inactive, 2), ([2; 32], Refusal::Unavailable, 3)] {
            assert!(matches!(introspection.once(key, put(said)).await, Err(refusal) if refusal == said));
            assert_eq!(asked.load(Relaxed), count);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn few_tokens_are_asked_about_at_once() {
        let (introspection, now, most) = (Introspection::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let ask = |number: u8, time: Duration| {
            let (introspection, now, most) = (&introspection, &now, &most);
            introspection.once([number; 32], async move {
                most.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
                tokio::time::sleep(time).await;
                now.fetch_sub(1, Relaxed);
                Err(Refusal::Inactive)
            })
        };
        let all = join_all((0..100).map(|number| ask(number, Duration::from_secs(1)))).await;
        assert!(all.iter().all(|one| matches!(one, Err(Refusal::Inactive))));
        assert_eq!(most.load(Relaxed), AT_ONCE);
        // Who waits too long is told to come again.
        let all = join_all((100..140).map(|number| ask(number, PATIENCE * 2))).await;
        let unavailable = all.iter().filter(|one| matches!(one, Err(Refusal::Unavailable)));
        assert_eq!(unavailable.count(), 40 - AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn who_hangs_up_leaves_the_question_to_the_next() {
        let introspection = Introspection::default();
        let silent = introspection.once([1; 32], std::future::pending());
        assert!(tokio::time::timeout(PAUSE, silent).await.is_err());
        let said = introspection.once([1; 32], async { Err(Refusal::Inactive) }).await;
        assert!(matches!(said, Err(Refusal::Inactive)));
    }
}
