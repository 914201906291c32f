//! Serializes and deserializes options as JSON: numbers and booleans as JSON values, other values in their text form.
//! Secrets are not serialized.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::value::{OptionValue, Slot};

/// Serializes a field; the `serialize_with` of every row.
pub(super) fn serialize<T: Slot, S: Serializer>(slot: &T, serializer: S) -> Result<S::Ok, S::Error> {
    slot.export(serializer)
}

/// Deserializes a field; the `deserialize_with` of every row.
pub(super) fn deserialize<'de, T: Slot, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::import(deserializer)
}

/// Returns whether a field is skipped: it is empty or a secret.
pub(super) fn is_left_out<T: Slot>(slot: &T) -> bool {
    slot.values().iter().all(|value| value.text().is_none())
}

/// Serializes an option value inside a list.
pub(super) struct JsonValueOut<'a, T>(pub(super) &'a T);

impl<T: OptionValue> Serialize for JsonValueOut<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.export(serializer)
    }
}

/// Deserializes an option value inside a list.
pub(super) struct JsonValueIn<T>(pub(super) T);

impl<'de, T: OptionValue> Deserialize<'de> for JsonValueIn<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::import(deserializer).map(Self)
    }
}
