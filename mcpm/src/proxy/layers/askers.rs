//! Remembers what was prepared to ask policies about a caller, so that it is done once and not at each request.
//!
//! A caller is a principal as the gate hands it out: the same one for as long as it knows their token.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use crate::{auth::incoming::Principal, policy::cedar::Asker};

/// So many are kept at most.
const MOST: usize = 4096;

/// What was prepared, by principal.
#[derive(Default)]
pub(super) struct Askers(Mutex<HashMap<usize, Prepared>>);

/// The place of a principal is nobody else's for as long as it is held here.
type Prepared = (Weak<Principal>, Arc<Asker>);

impl Askers {
    /// What was prepared for a principal, or is now.
    pub(super) fn of(&self, principal: &Arc<Principal>, prepare: impl FnOnce() -> Asker) -> Arc<Asker> {
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
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert(place, (Arc::downgrade(principal), Arc::clone(&asker)));
        asker
    }
}

impl std::fmt::Debug for Askers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Askers(..)")
    }
}
