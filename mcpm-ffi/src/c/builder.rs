//! What both builders share: options, and the first value that was refused.

use std::{ffi::c_char, mem};

use mcpm::options::OptionSet;

use super::{error::CError, handle};

/// Options that are being collected.
#[derive(Debug, Default)]
pub(super) struct OptionCollector<O> {
    options: O,
    first_error: Option<CError>,
    used: bool,
}

/// A builder that C holds.
pub(super) trait CBuilder {
    type Options: OptionSet;

    fn collector(&mut self) -> &mut OptionCollector<Self::Options>;
}

/// Changes the options of a builder and remembers the first failure.
///
/// # Safety
/// That of [`handle::change`].
pub(super) unsafe fn set<B: CBuilder>(
    builder: *mut B,
    change: impl FnOnce(&mut B::Options) -> Result<(), CError>,
) {
    // SAFETY: the caller's promise.
    let Some(builder) = (unsafe { handle::as_mut(builder) }) else { return };
    let collected = builder.collector();
    if let Err(error) = handle::catch_panic(|| change(&mut collected.options)) {
        collected.first_error.get_or_insert(error);
    }
}

/// Sets an option from its text form.
///
/// # Safety
/// Those of [`handle::change`] and [`handle::text`].
pub(super) unsafe fn set_text<B: CBuilder>(builder: *mut B, name: &str, text: *const c_char) {
    // SAFETY: the caller's promises.
    unsafe { set(builder, |options| Ok(options.set(name, handle::text(text, name)?)?)) }
}

/// Sets the option that C names, from its text form.
///
/// # Safety
/// Those of [`handle::change`] and [`handle::text`].
pub(super) unsafe fn set_named<B: CBuilder>(builder: *mut B, name: *const c_char, text: *const c_char) {
    // SAFETY: the caller's promises.
    unsafe {
        set(builder, |options| {
            let name = handle::text(name, "name")?;
            Ok(options.set(name, handle::text(text, name)?)?)
        });
    }
}

/// Takes what was collected, once, or tells the first value that was refused.
///
/// # Safety
/// That of [`handle::change`].
pub(super) unsafe fn take<B: CBuilder>(builder: *mut B) -> Result<B::Options, CError> {
    // SAFETY: the caller's promise.
    let Some(builder) = (unsafe { handle::as_mut(builder) }) else {
        return Err(CError::bad_argument("`builder` is null".to_owned()));
    };
    let collected = builder.collector();
    if mem::replace(&mut collected.used, true) {
        return Err(CError::bad_argument("`builder` was used before; make a new one".to_owned()));
    }
    match collected.first_error.take() {
        Some(first) => Err(first),
        None => Ok(mem::take(&mut collected.options)),
    }
}
