//! Binds instruments to the first label sets in use, so that these label sets are not hashed for each measurement.

use std::sync::{PoisonError, RwLock};

/// Maximum number of label sets to which an instrument is bound; others are looked up for each measurement.
const MAX_LABEL_SETS: usize = 64;

/// Instruments by their label sets. There are few label sets, so a lookup compares them one after the other.
#[derive(Debug)]
pub(crate) struct LabelSets<K, B>(RwLock<Vec<(K, B)>>);

impl<K, B> Default for LabelSets<K, B> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<K: PartialEq, B> LabelSets<K, B> {
    /// Measures with the instruments that are bound to a label set. Returns `false` if no instruments are bound to it.
    pub(crate) fn measure(&self, is_wanted: impl Fn(&K) -> bool, measure: impl FnOnce(&B)) -> bool {
        let sets = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let found = sets.iter().find(|(labels, _)| is_wanted(labels));
        found.map(|(_, bound)| measure(bound)).is_some()
    }

    /// Binds instruments to a label set while there is room.
    pub(crate) fn bind(&self, labels: K, bind: impl FnOnce() -> B) {
        let mut sets = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if sets.len() < MAX_LABEL_SETS && !sets.iter().any(|(known, _)| *known == labels) {
            sets.push((labels, bind()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_sets_are_bounded() {
        let sets = LabelSets::default();
        let measured = |number: usize| {
            let mut found = None;
            sets.measure(|labels| *labels == number, |bound: &usize| found = Some(*bound));
            found
        };
        for number in 0..2 * MAX_LABEL_SETS {
            assert_eq!(measured(number), None);
            sets.bind(number, || number);
            // The first binding is kept.
            sets.bind(number, || 0);
            assert_eq!(measured(number), (number < MAX_LABEL_SETS).then_some(number));
        }
    }
}
