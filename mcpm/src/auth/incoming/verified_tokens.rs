//! Remembers whom tokens stand for whose signature was checked, so that it is checked once and not at each request.
//!
//! That holds with the very set of keys that it was checked with: a set that was fetched since, in which a key may be
//! missing, begins anew. And it holds no longer than the token itself.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use super::{Principal, claims::LEEWAY, jwks::JwkSet};
use crate::auth::token_cache::{CachedToken, TokenCache, TokenDigest};

/// How long it holds at most, since sets of keys are fetched anew more often.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// Who came with tokens that were checked.
#[derive(Debug, Default)]
pub(super) struct VerifiedTokens(Box<TokenCache<(Weak<JwkSet>, Arc<Principal>)>>);

impl VerifiedTokens {
    /// Whom a token stands for, if it was checked with these keys.
    pub(super) fn get(&self, token: &TokenDigest, keys: &Arc<JwkSet>) -> Option<Arc<Principal>> {
        let (with, principal) = self.0.get(token)?;
        std::ptr::eq(with.as_ptr(), Arc::as_ptr(keys)).then_some(principal)
    }

    /// Remembers whom a token stands for that was checked with these keys.
    pub(super) fn insert(&self, token: TokenDigest, keys: &Arc<JwkSet>, principal: &Arc<Principal>) {
        self.0.insert(
            token,
            CachedToken {
                value: (Arc::downgrade(keys), Arc::clone(principal)),
                ttl: MAX_AGE,
                expires_at: principal.expires.checked_add(LEEWAY),
                is_positive: true,
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

    fn keys() -> Arc<JwkSet> {
        let set = br#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAA"}]}"#;
        Arc::new(JwkSet::read(set).expect("a set of keys"))
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
    async fn a_verified_token_is_cached_until_it_or_its_keys_expire() {
        let (checked, keys, token) = (VerifiedTokens::default(), keys(), TokenDigest::of("x"));
        assert!(checked.get(&token, &keys).is_none());
        checked.insert(token, &keys, &principal(SystemTime::now() + LEEWAY));
        assert_eq!(checked.get(&token, &keys).expect("a principal").subject, "ann");
        assert!(checked.get(&TokenDigest::of("y"), &keys).is_none());
        // The same keys, fetched again, may lack one next time: it is the set that counts.
        assert!(checked.get(&token, &self::keys()).is_none());
        checked.insert(token, &keys, &principal(SystemTime::now() - LEEWAY));
        assert!(checked.get(&token, &keys).is_none(), "it has ended");
    }
}
