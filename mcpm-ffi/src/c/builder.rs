//! Provides the shared parts of the builders of workloads and of proxies: the options, the prompt, and the error of the
//! first invalid value.

use std::{ffi::c_char, mem, sync::Arc};

use mcpm::{options::OptionSet, user_prompt::UserPrompt};

use super::{error::CError, event::EventCallback, handle, prompt::CUserPrompt};

/// Options that are being collected.
#[derive(Debug, Default)]
pub(super) struct OptionCollector<O> {
    options: O,
    extras: Extras,
    first_error: Option<CError>,
    used: bool,
}

/// What a builder holds besides options.
#[derive(Debug, Default)]
pub(super) struct Extras {
    pub(super) prompt: Option<Arc<dyn UserPrompt>>,
    pub(super) in_process_only: bool,
    /// Only for a workload.
    pub(super) on_event: Option<EventCallback>,
}

/// A builder behind a C pointer.
pub(super) trait CBuilder {
    type Options: OptionSet;

    fn collector(&mut self) -> &mut OptionCollector<Self::Options>;
}

/// Changes the options of a builder and records the first failure.
///
/// # Safety
/// As for [`handle::as_mut`].
pub(super) unsafe fn set<B: CBuilder>(
    builder: *mut B,
    change: impl FnOnce(&mut B::Options) -> Result<(), CError>,
) {
    // SAFETY: guaranteed by the caller.
    let Some(builder) = (unsafe { handle::as_mut(builder) }) else { return };
    let collected = builder.collector();
    if let Err(error) = handle::catch_panic(|| change(&mut collected.options)) {
        collected.first_error.get_or_insert(error);
    }
}

/// Sets an option from its text form.
///
/// # Safety
/// As for [`handle::as_mut`] and [`handle::text`].
pub(super) unsafe fn set_text<B: CBuilder>(builder: *mut B, name: &str, text: *const c_char) {
    // SAFETY: guaranteed by the caller.
    unsafe { set(builder, |options| Ok(options.set(name, handle::text(text, name)?)?)) }
}

/// Sets an option by name, from its text form.
///
/// # Safety
/// As for [`handle::as_mut`] and [`handle::text`].
pub(super) unsafe fn set_named<B: CBuilder>(builder: *mut B, name: *const c_char, text: *const c_char) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        set(builder, |options| {
            let name = handle::text(name, "name")?;
            Ok(options.set(name, handle::text(text, name)?)?)
        });
    }
}

/// Sets the prompt.
///
/// # Safety
/// As for [`handle::as_mut`] and [`handle::as_ref`].
pub(super) unsafe fn set_prompt<B: CBuilder>(builder: *mut B, prompt: *const CUserPrompt) {
    // SAFETY: guaranteed by the caller.
    let Some(builder) = (unsafe { handle::as_mut(builder) }) else { return };
    let collected = builder.collector();
    // SAFETY: guaranteed by the caller.
    match unsafe { handle::required_ref(prompt, "prompt") } {
        Ok(prompt) => collected.extras.prompt = Some(prompt.adapt()),
        Err(error) => {
            collected.first_error.get_or_insert(error);
        }
    }
}

/// Changes what a builder holds besides options.
///
/// # Safety
/// As for [`handle::as_mut`].
pub(super) unsafe fn set_extra<B: CBuilder>(builder: *mut B, change: impl FnOnce(&mut Extras)) {
    // SAFETY: guaranteed by the caller.
    if let Some(builder) = unsafe { handle::as_mut(builder) } {
        change(&mut builder.collector().extras);
    }
}

/// Takes the collected options, which is possible only once, or returns the first failure of a setter.
///
/// # Safety
/// As for [`handle::as_mut`].
pub(super) unsafe fn take<B: CBuilder>(builder: *mut B) -> Result<(B::Options, Extras), CError> {
    // SAFETY: guaranteed by the caller.
    let Some(builder) = (unsafe { handle::as_mut(builder) }) else {
        return Err(CError::bad_argument("`builder` is null".to_owned()));
    };
    let collected = builder.collector();
    if mem::replace(&mut collected.used, true) {
        return Err(CError::bad_argument("`builder` was used before; create a new one".to_owned()));
    }
    match collected.first_error.take() {
        Some(first) => Err(first),
        None => Ok((mem::take(&mut collected.options), mem::take(&mut collected.extras))),
    }
}
