//! A set of options: what the table makes for each command, by name.

use super::{
    Secret,
    spec::{OptionSpec, Required},
    value::ErasedSlot,
};
use crate::{Error, ErrorKind, Result};

/// The options of one command, declared by the table.
///
/// Names are those of the fields; the spelling of the flag (`proxy-port`) is understood as well.
pub trait OptionSet: Default + Sized {
    /// Name of the command that takes them.
    const COMMAND: &'static str;

    /// Every option, in the order of the table.
    const SPECS: &'static [OptionSpec];

    /// Returns the field of that name.
    fn slot(&self, name: &str) -> Option<&dyn ErasedSlot>;

    /// Returns the field of that name.
    fn slot_mut(&mut self, name: &str) -> Option<&mut dyn ErasedSlot>;

    /// Fills what is not given here from `lower`.
    #[must_use]
    fn or(self, lower: Self) -> Self;

    /// Returns what is known of the option of that name.
    fn spec(name: &str) -> Option<&'static OptionSpec> {
        Self::SPECS.iter().find(|spec| spec.name == name || spec.is_flag(name))
    }

    /// Parses `text` as a user would type it and stores it under `name`. A repeatable option gets one more value.
    ///
    /// # Errors
    /// `InvalidOption` for an unknown name or a bad value; nothing is stored then.
    fn set(&mut self, name: &str, text: &str) -> Result<()> {
        let unknown =
            || Error::new(ErrorKind::InvalidOption, format!("`{}` has no option `{name}`", Self::COMMAND));
        let spec = Self::spec(name).ok_or_else(unknown)?;
        self.slot_mut(spec.name).ok_or_else(unknown)?.put_text(spec, text)
    }

    /// Tells whether the option of that name was given.
    fn is_given(&self, name: &str) -> bool {
        self.slot(name).is_some_and(ErasedSlot::is_given)
    }

    /// Returns those of these options that were given and say more than their defaults do.
    fn non_default(&self, names: &[&str]) -> Vec<&'static OptionSpec> {
        let defaults = Self::defaults();
        let says_more = |name: &&&str| {
            self.slot(name).is_some_and(|slot| {
                // A secret has no text, and no default.
                let differs = || defaults.slot(name).is_none_or(|default| slot.texts() != default.texts());
                slot.is_given() && (!slot.secrets().is_empty() || differs())
            })
        };
        names.iter().filter(says_more).filter_map(|name| Self::spec(name)).collect()
    }

    /// Returns the names of the options that were given, in the order of the table.
    fn given(&self) -> impl Iterator<Item = &'static str> {
        Self::SPECS.iter().map(|spec| spec.name).filter(|name| self.is_given(name))
    }

    /// Returns the secrets that were given, each with the name of its option, in the form that [`set`](Self::set)
    /// takes. The JSON form leaves them out.
    fn secrets(&self) -> Vec<(&'static str, Secret)> {
        let of = |spec: &'static OptionSpec| {
            let values = self.slot(spec.name).map(ErasedSlot::secrets).unwrap_or_default();
            values.into_iter().map(|value| (spec.name, value))
        };
        Self::SPECS.iter().flat_map(of).collect()
    }

    /// Returns the declared defaults.
    fn defaults() -> Self {
        let mut all = Self::default();
        for spec in Self::SPECS {
            if let Some(text) = spec.default {
                let stored = all.set(spec.name, text);
                debug_assert!(stored.is_ok(), "the default of `{}` does not parse", spec.name);
            }
        }
        all
    }

    /// Checks everything that can be known from the options alone.
    ///
    /// # Errors
    /// `InvalidOption` for a bad value, a missing option or a contradiction, `Unsupported` for a feature that is
    /// not built yet.
    fn check(&self) -> Result<()> {
        self.check_values()?;
        self.check_conflicts()?;
        self.check_required()?;
        self.check_supported()
    }

    /// Refuses values that could not have been typed.
    ///
    /// # Errors
    /// `InvalidOption` names the option.
    fn check_values(&self) -> Result<()> {
        Self::SPECS.iter().try_for_each(|spec| self.slot(spec.name).map_or(Ok(()), |slot| slot.check(spec)))
    }

    /// Refuses a set that lacks a required option.
    ///
    /// # Errors
    /// `InvalidOption` names the option.
    fn check_required(&self) -> Result<()> {
        for spec in Self::SPECS {
            let needed = match spec.required {
                Required::No => false,
                Required::Always => true,
                Required::Unless(other) => !self.is_given(other),
            };
            if needed && !self.is_given(spec.name) {
                return Err(Error::new(ErrorKind::InvalidOption, format!("`{}` is required", spec.name)));
            }
        }
        Ok(())
    }

    /// Refuses options that contradict each other.
    ///
    /// # Errors
    /// `InvalidOption` names both.
    fn check_conflicts(&self) -> Result<()> {
        let given = || Self::SPECS.iter().filter(|spec| self.is_given(spec.name));
        for one in given() {
            for other in given().filter(|other| other.name != one.name) {
                let replaced = one.is_exclusive && !other.allowed_with_from_config;
                if replaced || one.conflicts_with.contains(&other.name) {
                    return Err(Error::new(
                        ErrorKind::InvalidOption,
                        format!("`{}` cannot be used with `{}`", one.name, other.name),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Refuses an option whose feature is not built yet, unless its value changes nothing.
    ///
    /// # Errors
    /// `Unsupported` names the option.
    fn check_supported(&self) -> Result<()> {
        for spec in Self::SPECS.iter().filter(|spec| spec.unsupported.is_some()) {
            if self.is_given(spec.name) && !has_working_value(self, spec) {
                let error =
                    Error::new(ErrorKind::Unsupported, format!("`{}` is not supported yet", spec.name));
                return Err(match spec.supported_values {
                    [] => error,
                    values => error.hint(format!("values that work: {}", values.join(", "))),
                });
            }
        }
        Ok(())
    }
}

/// Tells whether an option that waits for its feature holds a value that works without it.
fn has_working_value<O: OptionSet>(options: &O, spec: &OptionSpec) -> bool {
    let texts = options.slot(spec.name).map(ErasedSlot::texts);
    // A default is what happens without the feature, unless the row says what does.
    let working =
        if spec.supported_values.is_empty() { spec.default.as_slice() } else { spec.supported_values };
    working.iter().any(|text| {
        let mut working = O::default();
        // Both are compared in the form they print in, so that `60s` is `1m`.
        working.set(spec.name, text).is_ok() && working.slot(spec.name).map(ErasedSlot::texts) == texts
    })
}
