//! What both builders share: options, and the first value that was refused.

use std::ffi::c_char;

use mcpm::options::OptionSet;

use super::{
    error::{CError, Status},
    handle,
};

/// Options that are being collected.
#[derive(Debug, Default)]
pub(super) struct Collected<O> {
    options: O,
    refused: Option<CError>,
}

/// A builder that C holds.
pub(super) trait Builder {
    type Options: OptionSet;

    fn collected(&self) -> &Collected<Self::Options>;
    fn collected_mut(&mut self) -> &mut Collected<Self::Options>;
}

impl<O: OptionSet> Collected<O> {
    fn check(&self) -> Result<(), CError> {
        match &self.refused {
            Some(first) => Err(first.clone()),
            None => Ok(self.options.check()?),
        }
    }
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
    let collected = builder.collected_mut();
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

/// Checks what was collected.
///
/// # Safety
/// Those of [`handle::see`] and [`handle::guard`].
pub(super) unsafe fn check<B: Builder>(builder: *const B, error: *mut *mut CError) -> Status {
    // SAFETY: the caller's promises.
    unsafe {
        handle::guard(error, || match handle::see(builder) {
            Some(builder) => builder.collected().check(),
            None => Err(CError::bad_argument("`builder` is null".to_owned())),
        })
    }
}
