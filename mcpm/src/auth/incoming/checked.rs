//! Remembers whom tokens stand for whose signature was checked, so that it is checked once and not at each request.
//!
//! That holds with the very set of keys that it was checked with: a set that was fetched since, in which a key may be
//! missing, begins anew. And it holds no longer than the token itself.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use super::{Principal, claims::LEEWAY, jwks::Keys};
use crate::auth::answers::{Answer, Answers, Key};

/// How long it holds at most, since sets of keys are fetched anew more often.
const HOLDS: Duration = Duration::from_secs(3600);

/// Who came with tokens that were checked.
#[derive(Debug, Default)]
pub(super) struct Checked(Box<Answers<(Weak<Keys>, Arc<Principal>)>>);

impl Checked {
    /// Whom a token stands for, if it was checked with these keys.
    pub(super) fn principal(&self, token: &Key, keys: &Arc<Keys>) -> Option<Arc<Principal>> {
        let (with, principal) = self.0.kept(token)?;
        std::ptr::eq(with.as_ptr(), Arc::as_ptr(keys)).then_some(principal)
    }

    /// Remembers whom a token stands for that was checked with these keys.
    pub(super) fn keep(&self, token: Key, keys: &Arc<Keys>, principal: &Arc<Principal>) {
        self.0.keep(
            token,
            Answer {
                said: (Arc::downgrade(keys), Arc::clone(principal)),
                holds: HOLDS,
                ends: principal.expires.checked_add(LEEWAY),
                good: true,
                // Its claims, and what is made of them, beside the token.
                size: 3 * principal.token.expose().len(),
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use serde_json::Map;

    use super::*;
    use crate::options::Secret;

    fn keys() -> Arc<Keys> {
        let set = br#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAA"}]}"#;
        Arc::new(Keys::read(set).expect("a set of keys"))
    }

    fn principal(expires: SystemTime) -> Arc<Principal> {
        Arc::new(Principal {
            issuer: "https://id.example".to_owned(),
            subject: "ann".to_owned(),
            audience: Vec::new(),
            client_id: None,
            scopes: Vec::new(),
            claims: Map::new(),
            expires,
            token: Secret::from("x"),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_known_while_it_and_its_keys_hold() {
        let (checked, keys, token) = (Checked::default(), keys(), Key::of("x"));
        assert!(checked.principal(&token, &keys).is_none());
        checked.keep(token, &keys, &principal(SystemTime::now() + LEEWAY));
        assert_eq!(checked.principal(&token, &keys).expect("a principal").subject, "ann");
        assert!(checked.principal(&Key::of("y"), &keys).is_none());
        // The same keys, fetched again, may lack one next time: it is the set that counts.
        assert!(checked.principal(&token, &self::keys()).is_none());
        checked.keep(token, &keys, &principal(SystemTime::now() - LEEWAY));
        assert!(checked.principal(&token, &keys).is_none(), "it has ended");
    }
}
