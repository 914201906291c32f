//! The builder of a proxy.

use std::ffi::c_char;

use mcpm::options::ProxyOptions;

use super::{
    builder::{self, Builder, Collected},
    error::{CError, Status},
    handle,
};

/// Collects the options of a proxy.
#[derive(Debug, Default)]
pub struct ProxyBuilder(Collected<ProxyOptions>);

impl Builder for ProxyBuilder {
    type Options = ProxyOptions;

    fn collected(&self) -> &Collected<ProxyOptions> {
        &self.0
    }

    fn collected_mut(&mut self) -> &mut Collected<ProxyOptions> {
        &mut self.0
    }
}

/// Returns a builder without options; free it with `mcpm_proxy_builder_free`.
#[unsafe(no_mangle)]
pub extern "C" fn mcpm_proxy_builder_new() -> *mut ProxyBuilder {
    handle::give(ProxyBuilder::default())
}

/// Sets the option of that name, such as `target-uri`, from a text as on a command line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_set(
    builder: *mut ProxyBuilder,
    name: *const c_char,
    value: *const c_char,
) {
    // SAFETY: the conventions in the header.
    unsafe {
        builder::set(builder, |options| {
            let name = handle::text(name, "name")?;
            Ok(mcpm::options::OptionSet::set(options, name, handle::text(value, name)?)?)
        });
    }
}

/// Tells the first value that was refused, or what is wrong with the options together; starts nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_check(
    builder: *const ProxyBuilder,
    error: *mut *mut CError,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe { builder::check(builder, error) }
}

/// Frees a builder; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_free(builder: *mut ProxyBuilder) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free(builder) }
}
