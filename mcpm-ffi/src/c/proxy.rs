//! Proxies: their builder, and the handle of one that runs.

use std::{
    ffi::{CString, c_char},
    ptr,
    sync::Arc,
};

use mcpm::{RunningProxy, options::ProxyOptions};

use super::{
    builder::{self, CBuilder, OptionCollector},
    error::{CError, Status},
    handle::{self, Out},
    phase::CPhase,
};
use crate::executor;

/// Collects the options of a proxy.
#[derive(Debug, Default)]
pub struct ProxyBuilder(OptionCollector<ProxyOptions>);

impl CBuilder for ProxyBuilder {
    type Options = ProxyOptions;

    fn collector(&mut self) -> &mut OptionCollector<ProxyOptions> {
        &mut self.0
    }
}

/// Returns a builder without options; free it with `mcpm_proxy_builder_free`.
#[unsafe(no_mangle)]
pub extern "C" fn mcpm_proxy_builder_new() -> *mut ProxyBuilder {
    handle::into_raw(ProxyBuilder::default())
}

/// Sets the option of that name, such as `target-uri`, from a text as on a command line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_set(
    builder: *mut ProxyBuilder,
    name: *const c_char,
    value: *const c_char,
) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_named(builder, name, value) }
}

/// Frees a builder; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_free(builder: *mut ProxyBuilder) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free(builder) }
}

/// A proxy that was started in front of an MCP server.
#[derive(Debug)]
pub struct CProxy {
    running: Arc<RunningProxy>,
    name: CString,
    url: CString,
    warnings: Vec<CString>,
}

impl CProxy {
    pub(super) fn explain(&self, id: &str) -> mcpm::Result<mcpm::Explanation> {
        self.running.explain(id)
    }
}

/// Starts a proxy and waits until clients can connect.
///
/// It uses up the options of the builder, which is still to be freed. On success `proxy` gets a handle, which
/// `mcpm_proxy_free` frees.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_start(
    builder: *mut ProxyBuilder,
    proxy: *mut *mut CProxy,
    error: *mut *mut CError,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            let out = Out::new(proxy, "proxy")?;
            let builder = mcpm::ProxyBuilder::from(builder::take(builder)?)
                .environment(mcpm::Environment::from_process());
            let running =
                executor::spawn_cancellable(async move { builder.build()?.start().await })?.block_on()?;
            let (name, url) = (handle::c_text(running.name()), handle::c_text(running.url()));
            let warnings = running.warnings().iter().map(|warning| handle::c_text(warning)).collect();
            out.put(handle::into_raw(CProxy { running: Arc::new(running), name, url, warnings }));
            Ok(())
        })
    }
}

/// Returns the name of the server; it lives as long as the handle. Null returns null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_name(proxy: *const CProxy) -> *const c_char {
    // SAFETY: the conventions in the header.
    unsafe { handle::as_ref(proxy) }.map_or(ptr::null(), |proxy| proxy.name.as_ptr())
}

/// Returns where clients connect; it lives as long as the handle. Null returns null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_url(proxy: *const CProxy) -> *const c_char {
    // SAFETY: the conventions in the header.
    unsafe { handle::as_ref(proxy) }.map_or(ptr::null(), |proxy| proxy.url.as_ptr())
}

/// Returns a warning of the start, such as that callers are not authenticated, or that an option has no effect, by its number
/// from 0; it lives as long as the handle. Null and a number beyond the last one return null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_warning(proxy: *const CProxy, number: usize) -> *const c_char {
    // SAFETY: the conventions in the header.
    let proxy = unsafe { handle::as_ref(proxy) };
    let warning = proxy.and_then(|proxy| proxy.warnings.get(number));
    warning.map_or(ptr::null(), |warning| warning.as_ptr())
}

/// Checks with one MCP exchange whether the target is an MCP server. The start does not need a target that is up, so it does
/// not check that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_check(proxy: *const CProxy, error: *mut *mut CError) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            let running = Arc::clone(&handle::required_ref(proxy, "proxy")?.running);
            executor::spawn_cancellable(async move { running.check().await })?.block_on()?;
            Ok(())
        })
    }
}

/// Tells where a proxy is in its life.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_status(
    proxy: *const CProxy,
    phase: *mut CPhase,
    error: *mut *mut CError,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let proxy = handle::required_ref(proxy, "proxy")?;
            Out::new(phase, "phase")?.put(proxy.running.status().into());
            Ok(())
        })
    }
}

/// Stops listening and lets answers under way finish for up to 2 s.
///
/// Stopping twice does no harm. The handle is still to be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_stop(proxy: *mut CProxy, error: *mut *mut CError) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            let running = Arc::clone(&handle::required_ref(proxy, "proxy")?.running);
            let stopped = async move {
                running.stop().await;
                Ok(())
            };
            Ok(executor::spawn_to_completion(stopped)?.block_on()?)
        })
    }
}

/// Frees a proxy; null is allowed. One that still runs ends a moment later; stop it first to wait for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_free(proxy: *mut CProxy) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free_catching_panics(proxy) }
}
