//! Remembers what was prepared to ask policies about a caller, so that it is done once and not at each request.
//!
//! A caller is a principal as the gate hands it out: the same one for as long as it knows their token.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use crate::{auth::incoming::Principal, policy::cedar::CallerAuthorizer};

/// So many are kept at most.
const MAX_PRINCIPALS: usize = 4096;

/// What was prepared, by principal.
#[derive(Default)]
pub(super) struct AuthorizerCache(Mutex<HashMap<usize, CachedAuthorizer>>);

/// The place of a principal is nobody else's for as long as it is held here.
type CachedAuthorizer = (Weak<Principal>, Arc<CallerAuthorizer>);

impl AuthorizerCache {
    /// What was prepared for a principal, or is now.
    pub(super) fn get_or_insert(
        &self,
        principal: &Arc<Principal>,
        prepare: impl FnOnce() -> CallerAuthorizer,
    ) -> Arc<CallerAuthorizer> {
        let place = Arc::as_ptr(principal).addr();
        if let Some((_, asker)) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&place) {
            return Arc::clone(asker);
        }
        let asker = Arc::new(prepare());
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == kept.capacity() {
            // Before it grows: those who will not come again.
            kept.retain(|_, (principal, _)| principal.strong_count() > 0);
        }
        if kept.len() >= MAX_PRINCIPALS {
            kept.clear();
        }
        kept.insert(place, (Arc::downgrade(principal), Arc::clone(&asker)));
        asker
    }
}

impl std::fmt::Debug for AuthorizerCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Askers(..)")
    }
}
