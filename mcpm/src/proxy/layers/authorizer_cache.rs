//! A cache of authorizers, so that a caller's entity is prepared once and not for each request.
//!
//! Its key is the `Arc<Principal>` of the authenticator, which is the same as long as the token is cached.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use crate::{auth::incoming::Principal, policy::cedar::CallerAuthorizer};

/// Maximum number of entries.
const MAX_PRINCIPALS: usize = 4096;

/// Authorizers by the address of the principal.
#[derive(Default)]
pub(super) struct AuthorizerCache(Mutex<HashMap<usize, CachedAuthorizer>>);

/// The weak reference keeps the allocation, so its address is not reused.
type CachedAuthorizer = (Weak<Principal>, Arc<CallerAuthorizer>);

impl AuthorizerCache {
    /// Returns the authorizer of a principal, preparing it if necessary.
    pub(super) fn get_or_insert(
        &self,
        principal: &Arc<Principal>,
        prepare: impl FnOnce() -> CallerAuthorizer,
    ) -> Arc<CallerAuthorizer> {
        let address = Arc::as_ptr(principal).addr();
        if let Some((_, authorizer)) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&address) {
            return Arc::clone(authorizer);
        }
        let authorizer = Arc::new(prepare());
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() == cache.capacity() {
            // Before it grows, entries of dropped principals are removed.
            cache.retain(|_, (principal, _)| principal.strong_count() > 0);
        }
        if cache.len() >= MAX_PRINCIPALS {
            cache.clear();
        }
        cache.insert(address, (Arc::downgrade(principal), Arc::clone(&authorizer)));
        authorizer
    }
}

impl std::fmt::Debug for AuthorizerCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Askers(..)")
    }
}
