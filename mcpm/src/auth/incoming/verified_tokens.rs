//! A cache of tokens whose signature was verified, so that it is not verified again at each request.
//!
//! An entry is valid only with the key set that verified it, because a set fetched later may lack the key, and no
//! longer than the token itself.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use super::{Principal, jwks::JwkSet, principal::LEEWAY};
use crate::auth::token_cache::{CachedToken, TokenCache, TokenDigest};

/// Maximum age of an entry; key sets are fetched again more often.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// The principals of verified tokens.
#[derive(Debug, Default)]
pub(super) struct VerifiedTokens(Box<TokenCache<(Weak<JwkSet>, Arc<Principal>)>>);

impl VerifiedTokens {
    /// Returns the principal of a token that was verified with these keys.
    pub(super) fn get(&self, token: &TokenDigest, keys: &Arc<JwkSet>) -> Option<Arc<Principal>> {
        let (with, principal) = self.0.get(token)?;
        std::ptr::eq(with.as_ptr(), Arc::as_ptr(keys)).then_some(principal)
    }

    /// Stores the principal of a token that was verified with these keys.
    pub(super) fn insert(&self, token: TokenDigest, keys: &Arc<JwkSet>, principal: &Arc<Principal>) {
        self.0.insert(
            token,
            CachedToken {
                value: (Arc::downgrade(keys), Arc::clone(principal)),
                ttl: MAX_AGE,
                expires_at: principal.expires.checked_add(LEEWAY),
                is_positive: true,
                // An estimate: the token, its claims, and the principal made of them.
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
        // Entries belong to one key set, even if another one has the same keys.
        assert!(checked.get(&token, &self::keys()).is_none());
        checked.insert(token, &keys, &principal(SystemTime::now() - LEEWAY));
        assert!(checked.get(&token, &keys).is_none(), "it has ended");
    }
}
