//! Proxies: the builder, and the handle of a running proxy.

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
    prompt::CUserPrompt,
};
use crate::{executor, prompt_bridge::environment};

/// Collects the options of a proxy.
#[derive(Debug, Default)]
pub struct ProxyBuilder(OptionCollector<ProxyOptions>);

impl CBuilder for ProxyBuilder {
    type Options = ProxyOptions;

    fn collector(&mut self) -> &mut OptionCollector<ProxyOptions> {
        &mut self.0
    }
}

/// Creates a builder without options; free it with `mcpm_proxy_builder_free`.
#[unsafe(no_mangle)]
pub extern "C" fn mcpm_proxy_builder_new() -> *mut ProxyBuilder {
    handle::into_raw(ProxyBuilder::default())
}

/// Sets an option by name, such as `target-uri`, with its value in text form, as on the command line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_set(
    builder: *mut ProxyBuilder,
    name: *const c_char,
    value: *const c_char,
) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_named(builder, name, value) }
}

/// Sets the prompt, which prompts the user, for example to log in to a remote server, at the start and later. The
/// caller keeps its own, which must still be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_user_prompt(
    builder: *mut ProxyBuilder,
    prompt: *const CUserPrompt,
) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_prompt(builder, prompt) }
}

/// Frees a builder; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_free(builder: *mut ProxyBuilder) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free(builder) }
}

/// A running proxy in front of an MCP server.
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
/// Consumes the options of the builder, which must still be freed. On success, `proxy` is set to a handle; free it
/// with `mcpm_proxy_free`.
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
            let (options, prompt) = builder::take(builder)?;
            let builder = mcpm::ProxyBuilder::from(options).environment(environment(prompt));
            let running =
                executor::spawn_cancellable(async move { builder.build()?.start().await })?.block_on()?;
            let (name, url) = (handle::c_text(running.name()), handle::c_text(running.url()));
            let warnings = running.warnings().iter().map(|warning| handle::c_text(warning)).collect();
            out.put(handle::into_raw(CProxy { running: Arc::new(running), name, url, warnings }));
            Ok(())
        })
    }
}

/// Returns the name of the server; valid as long as the handle. Null returns null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_name(proxy: *const CProxy) -> *const c_char {
    // SAFETY: the conventions in the header.
    unsafe { handle::as_ref(proxy) }.map_or(ptr::null(), |proxy| proxy.name.as_ptr())
}

/// Returns the URL for clients; valid as long as the handle. Null returns null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_url(proxy: *const CProxy) -> *const c_char {
    // SAFETY: the conventions in the header.
    unsafe { handle::as_ref(proxy) }.map_or(ptr::null(), |proxy| proxy.url.as_ptr())
}

/// Returns a warning of the start by its index from 0, for example that callers are not authenticated, or that an
/// option has no effect; valid as long as the handle. Returns null for a null pointer and if the index is out of
/// range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_warning(proxy: *const CProxy, number: usize) -> *const c_char {
    // SAFETY: the conventions in the header.
    let proxy = unsafe { handle::as_ref(proxy) };
    let warning = proxy.and_then(|proxy| proxy.warnings.get(number));
    warning.map_or(ptr::null(), |warning| warning.as_ptr())
}

/// Checks with one MCP exchange whether the target is an MCP server. Starting does not check this, because the
/// target need not be up then.
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

/// Returns the phase of a proxy.
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

/// Stops listening and waits up to 2 s for pending responses.
///
/// Stopping twice is allowed. The handle must still be freed.
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

/// Frees a proxy; null is allowed. A running proxy is stopped shortly afterwards; call `mcpm_proxy_stop` first to
/// wait for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_free(proxy: *mut CProxy) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free_catching_panics(proxy) }
}
