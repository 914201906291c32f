//! Gives access to the options of a command by name, and checks them.

use super::{
    Secret,
    spec::{OptionSpec, Required},
    value::ErasedSlot,
};
use crate::{Error, ErrorKind, Result};

/// The options of one command.
///
/// Names are those of the fields; the flag's spelling (`proxy-port`) is accepted as well.
pub trait OptionSet: Default + Sized {
    /// The name of the command.
    const COMMAND: &'static str;

    /// All options, in the order of the table.
    const SPECS: &'static [OptionSpec];

    /// Returns the field with that name.
    fn slot(&self, name: &str) -> Option<&dyn ErasedSlot>;

    /// Returns the field with that name.
    fn slot_mut(&mut self, name: &str) -> Option<&mut dyn ErasedSlot>;

    /// Takes the values of unset options from `lower`.
    #[must_use]
    fn or(self, lower: Self) -> Self;

    /// Returns the specification of the option with that name.
    fn spec(name: &str) -> Option<&'static OptionSpec> {
        Self::SPECS.iter().find(|spec| spec.name == name || spec.is_flag(name))
    }

    /// Parses `text` and stores the value under `name`. Values of a repeatable option are appended.
    ///
    /// # Errors
    /// `InvalidOption` for an unknown name or an invalid value; nothing is stored then.
    fn set(&mut self, name: &str, text: &str) -> Result<()> {
        let unknown =
            || Error::new(ErrorKind::InvalidOption, format!("`{}` has no option `{name}`", Self::COMMAND));
        let spec = Self::spec(name).ok_or_else(unknown)?;
        self.slot_mut(spec.name).ok_or_else(unknown)?.put_text(spec, text)
    }

    /// Returns whether the option with that name is set.
    fn is_given(&self, name: &str) -> bool {
        self.slot(name).is_some_and(ErasedSlot::is_given)
    }

    /// Returns the options in `names` that are set to a value other than their default.
    fn non_default(&self, names: &[&str]) -> Vec<&'static OptionSpec> {
        let defaults = Self::defaults();
        let differs_from_default = |name: &&&str| {
            self.slot(name).is_some_and(|slot| {
                // A secret has no text and no default.
                let differs = || defaults.slot(name).is_none_or(|default| slot.texts() != default.texts());
                slot.is_given() && (!slot.secrets().is_empty() || differs())
            })
        };
        names.iter().filter(differs_from_default).filter_map(|name| Self::spec(name)).collect()
    }

    /// Returns the names of the options that are set, in the order of the table.
    fn given(&self) -> impl Iterator<Item = &'static str> {
        Self::SPECS.iter().map(|spec| spec.name).filter(|name| self.is_given(name))
    }

    /// Returns the secrets that are set, each with the name of its option, in the form that [`set`](Self::set)
    /// accepts. The JSON form omits them.
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

    /// Checks everything that can be checked without I/O.
    ///
    /// # Errors
    /// `InvalidOption` for an invalid value, a missing option or a contradiction, `Unsupported` for a feature that
    /// is not implemented.
    fn check(&self) -> Result<()> {
        self.check_values()?;
        self.check_conflicts()?;
        self.check_required()?;
        self.check_supported()
    }

    /// Checks values that were set in code.
    ///
    /// # Errors
    /// `InvalidOption` names the option.
    fn check_values(&self) -> Result<()> {
        Self::SPECS.iter().try_for_each(|spec| self.slot(spec.name).map_or(Ok(()), |slot| slot.check(spec)))
    }

    /// Checks that required options are set.
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

    /// Checks that no two options contradict each other.
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

    /// Rejects an option whose Cargo feature is not included in this build, unless its value works without it.
    ///
    /// # Errors
    /// `Unsupported` names the option.
    fn check_supported(&self) -> Result<()> {
        for spec in Self::SPECS {
            let Some(error) = spec.unsupported_error() else { continue };
            if self.is_given(spec.name) && !has_working_value(self, spec) {
                return Err(match spec.supported_values {
                    [] => error,
                    values => error.hint(format!("supported values: {}", values.join(", "))),
                });
            }
        }
        Ok(())
    }
}

/// Returns whether an option of a missing Cargo feature has a value that works without the feature.
fn has_working_value<O: OptionSet>(options: &O, spec: &OptionSpec) -> bool {
    let texts = options.slot(spec.name).map(ErasedSlot::texts);
    // The default describes the behaviour without the feature, unless the row lists other values.
    let working =
        if spec.supported_values.is_empty() { spec.default.as_slice() } else { spec.supported_values };
    working.iter().any(|text| {
        let mut working = O::default();
        // Both are compared in their normal form, so that `60s` equals `1m`.
        working.set(spec.name, text).is_ok() && working.slot(spec.name).map(ErasedSlot::texts) == texts
    })
}
