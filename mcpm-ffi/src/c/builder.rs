//! What both builders share: options, and the first value that was refused.

use std::{ffi::c_char, mem};

use mcpm::options::OptionSet;

use super::{error::CError, handle};

/// Options that are being collected.
#[derive(Debug, Default)]
pub(super) struct Collected<O> {
    options: O,
    refused: Option<CError>,
    used: bool,
}

/// A builder that C holds.
pub(super) trait Builder {
    type Options: OptionSet;

    fn collected(&mut self) -> &mut Collected<Self::Options>;
}

/// Changes the options of a builder and remembers the first failure.
///
/// # Safety
/// That of [`handle::change`].
pub(super) unsafe fn set<B: Builder>(
    builder: *mut B,
    change: impl FnOnce(&mut B::Options) -> Result<(), CError>,
) {
    // SAFETY: the caller's promise.
    let Some(builder) = (unsafe { handle::change(builder) }) else { return };
    let collected = builder.collected();
    if let Err(error) = handle::caught(|| change(&mut collected.options)) {
        collected.refused.get_or_insert(error);
    }
}

/// Sets an option from its text form.
///
/// # Safety
/// Those of [`handle::change`] and [`handle::text`].
pub(super) unsafe fn set_text<B: Builder>(builder: *mut B, name: &str, text: *const c_char) {
    // SAFETY: the caller's promises.
    unsafe { set(builder, |options| Ok(options.set(name, handle::text(text, name)?)?)) }
}

/// Sets the option that C names, from its text form.
///
/// # Safety
/// Those of [`handle::change`] and [`handle::text`].
pub(super) unsafe fn set_named<B: Builder>(builder: *mut B, name: *const c_char, text: *const c_char) {
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
pub(super) unsafe fn take<B: Builder>(builder: *mut B) -> Result<B::Options, CError> {
    // SAFETY: the caller's promise.
    let Some(builder) = (unsafe { handle::change(builder) }) else {
        return Err(CError::bad_argument("`builder` is null".to_owned()));
    };
    let collected = builder.collected();
    if mem::replace(&mut collected.used, true) {
        return Err(CError::bad_argument("`builder` was used before; make a new one".to_owned()));
    }
    match collected.refused.take() {
        Some(first) => Err(first),
        None => Ok(mem::take(&mut collected.options)),
    }
}
