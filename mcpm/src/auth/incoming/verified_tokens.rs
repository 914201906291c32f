//! Caches the principals of tokens whose signatures were verified, so that a token is not verified for each request.
//!
//! An entry is valid for at most one hour, no longer than its token, and only as long as the key set with which the
//! token was verified is in use, because a key set that is fetched later may no longer contain the key.
//!
//! The cache is keyed by SHA-256 digests. The digest of a known token is not computed again: the token is found by a
//! keyed hash, which is cheaper for a token of a kilobyte, and then compared in full.

use std::{
    collections::HashMap,
    hash::BuildHasher as _,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use foldhash::quality::RandomState;

use super::{Principal, jwks::JwkSet, principal::LEEWAY};
use crate::auth::token_cache::{CachedToken, TokenCache, TokenDigest};

/// Maximum lifetime of an entry; key sets are fetched more often.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// Maximum number of tokens that can be found by their hash.
const MAX_HASHED_TOKENS: usize = 10_000;

/// The principals of verified tokens.
#[derive(Debug, Default)]
pub(super) struct VerifiedTokens {
    principals: Box<TokenCache<(Weak<JwkSet>, Arc<Principal>)>>,
    hasher: RandomState,
    /// Digests by the keyed hash of the token; the principal contains the token itself.
    digests: Mutex<HashMap<u64, (Weak<Principal>, TokenDigest)>>,
}

impl VerifiedTokens {
    /// Returns the digest of a token.
    pub(super) fn digest(&self, token: &str) -> TokenDigest {
        let known = self.known_digest(token.as_bytes());
        known.unwrap_or_else(|| TokenDigest::of(token))
    }

    /// Returns the digest of a token whose principal is cached.
    pub(super) fn known_digest(&self, token: &[u8]) -> Option<TokenDigest> {
        let hash = self.hasher.hash_one(token);
        let digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        let (principal, digest) = digests.get(&hash)?;
        // A token with a chosen hash could only replace another entry if it were valid. Without the key of the hash, an
        // attacker cannot choose a token that is compared with an unknown one, so the duration of the comparison
        // reveals nothing about it.
        (principal.upgrade()?.token.expose().as_bytes() == token).then_some(*digest)
    }

    fn remember_digest(&self, digest: TokenDigest, principal: &Arc<Principal>) {
        let hash = self.hasher.hash_one(principal.token.expose().as_bytes());
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if digests.len() == digests.capacity() {
            // Before the map grows, entries of tokens that are no longer valid are removed.
            digests.retain(|_, (principal, _)| principal.strong_count() > 0);
        }
        if digests.len() >= MAX_HASHED_TOKENS {
            digests.clear();
        }
        digests.insert(hash, (Arc::downgrade(principal), digest));
    }

    /// Returns the principal of a token that was verified with these keys.
    pub(super) fn get(&self, token: &TokenDigest, keys: &Arc<JwkSet>) -> Option<Arc<Principal>> {
        let (with, principal) = self.principals.get(token)?;
        std::ptr::eq(with.as_ptr(), Arc::as_ptr(keys)).then_some(principal)
    }

    /// Stores the principal of a token that was verified with these keys.
    pub(super) fn insert(&self, token: TokenDigest, keys: &Arc<JwkSet>, principal: &Arc<Principal>) {
        self.remember_digest(token, principal);
        self.principals.insert(
            token,
            CachedToken {
                value: (Arc::downgrade(keys), Arc::clone(principal)),
                ttl: MAX_AGE,
                expires_at: principal.expires.checked_add(LEEWAY),
                is_positive: true,
                // The claims and the prepared entities have about the size of the token each.
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

    #[test]
    fn a_token_has_the_same_digest_whether_it_is_known_or_not() {
        let (checked, keys) = (VerifiedTokens::default(), keys());
        let principal = principal(SystemTime::now() + LEEWAY);
        assert_eq!(checked.digest("x"), TokenDigest::of("x"));
        checked.insert(TokenDigest::of("x"), &keys, &principal);
        assert_eq!(checked.known_digest(b"x"), Some(TokenDigest::of("x")));
        assert_eq!(checked.known_digest(b"y"), None);
        // Another token with the same hash.
        let digests: Vec<_> =
            checked.digests.lock().expect("digests").drain().map(|(_, known)| known).collect();
        let hash = checked.hasher.hash_one(b"y".as_slice());
        checked.digests.lock().expect("digests").extend(digests.into_iter().map(|known| (hash, known)));
        assert_eq!(checked.digest("y"), TokenDigest::of("y"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_verified_token_is_cached_until_it_or_its_keys_expire() {
        let (checked, keys, token) = (VerifiedTokens::default(), keys(), TokenDigest::of("x"));
        assert!(checked.get(&token, &keys).is_none());
        checked.insert(token, &keys, &principal(SystemTime::now() + LEEWAY));
        assert_eq!(checked.get(&token, &keys).expect("a principal").subject, "ann");
        assert!(checked.get(&TokenDigest::of("y"), &keys).is_none());
        // Entries belong to one key set, even if another one has the same keys.
        assert!(checked.get(&token, &self::keys()).is_none());
        checked.insert(token, &keys, &principal(SystemTime::now() - LEEWAY));
        assert!(checked.get(&token, &keys).is_none(), "it has ended");
    }
}
