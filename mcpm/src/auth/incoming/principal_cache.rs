//! Caches data about callers that is expensive to prepare for each request.
//!
//! The cache key is the `Arc<Principal>` from the authenticator, which stays the same as long as the token is cached.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use foldhash::fast::RandomState;

use super::Principal;

/// Maximum number of entries.
const MAX_PRINCIPALS: usize = 4096;

/// Values by the address of the principal. The weak reference keeps the allocation, so its address is not reused.
pub(crate) struct PrincipalCache<T>(Mutex<HashMap<usize, (Weak<Principal>, T), RandomState>>);

impl<T> Default for PrincipalCache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> PrincipalCache<T> {
    /// Returns the value for a principal, preparing it if necessary.
    pub(crate) fn get_or_insert(&self, principal: &Arc<Principal>, prepare: impl FnOnce() -> T) -> T {
        let address = Arc::as_ptr(principal).addr();
        if let Some((_, value)) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&address) {
            return value.clone();
        }
        let value = prepare();
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() == cache.capacity() {
            // Before it grows, entries of dropped principals are removed.
            cache.retain(|_, (principal, _)| principal.strong_count() > 0);
        }
        if cache.len() >= MAX_PRINCIPALS {
            cache.clear();
        }
        cache.insert(address, (Arc::downgrade(principal), value.clone()));
        value
    }
}

impl<T> std::fmt::Debug for PrincipalCache<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PrincipalCache(..)")
    }
}
