//! Exports proxies to C: the builder, and the handle of a running proxy.

use std::{
    ffi::{CString, c_char, c_void},
    ptr,
    sync::Arc,
};

use mcpm::{
    RunningProxy,
    options::{ProxyMode, ProxyOptions, Secret},
    stdio_bridge::ConnectOptions,
};

use super::{
    builder::{self, CBuilder, Extras, OptionCollector},
    connection::CConnection,
    error::{CError, Status},
    handle::{self, Out, Owned},
    operation::{self, COnEnd, COperation},
    phase::CPhase,
    prompt::CUserPrompt,
};
use crate::{connection_handle::ConnectionHandle, executor, prompt_bridge::environment};

/// Collects the options of a proxy.
#[derive(Debug, Default)]
pub struct ProxyBuilder(OptionCollector<ProxyOptions>);

impl CBuilder for ProxyBuilder {
    type Options = ProxyOptions;

    fn collector(&mut self) -> &mut OptionCollector<ProxyOptions> {
        &mut self.0
    }
}

/// Frees a builder; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_free(builder: *mut Owned<ProxyBuilder>) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free(builder) }
}

/// Creates a builder without options; free it with `mcpm_proxy_builder_free`.
/// cbindgen:postfix=MCPM_FREED_BY(mcpm_proxy_builder_free)
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn mcpm_proxy_builder_new() -> *mut Owned<ProxyBuilder> {
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

/// Sets the prompt for requests to the user at the start and later, for example to log in to a remote server. The
/// caller must still free `prompt`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_user_prompt(
    builder: *mut ProxyBuilder,
    prompt: *const CUserPrompt,
) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_prompt(builder, prompt) }
}

/// Sets whether the proxy opens no port. Without a port, only `mcpm_proxy_connect` can connect to the server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_builder_in_process_only(builder: *mut ProxyBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_extra(builder, |extras| extras.in_process_only = value) }
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

impl From<RunningProxy> for CProxy {
    fn from(running: RunningProxy) -> Self {
        let (name, url) = (handle::c_text(running.name()), handle::c_text(running.url()));
        let warnings = running.warnings().iter().map(|warning| handle::c_text(warning)).collect();
        Self { running: Arc::new(running), name, url, warnings }
    }
}

/// Receives a started proxy, which must be freed with `mcpm_proxy_free`. If the start has failed, `proxy` is null, and
/// `error` must be freed.
///
/// mcpm calls it once, on one of its threads. The callback may block, and may start other operations, but must not call
/// functions of mcpm that block: in a callback, they return `MCPM_STATUS_NOT_HERE`.
pub type COnProxyStarted = Option<
    unsafe extern "C" fn(user_data: *mut c_void, proxy: *mut Owned<CProxy>, error: *mut Owned<CError>),
>;

/// Takes the options that the builder has collected, and starts the proxy.
///
/// # Safety
/// As for [`builder::take`].
unsafe fn start(
    builder: *mut ProxyBuilder,
) -> Result<impl Future<Output = mcpm::Result<RunningProxy>> + Send, CError> {
    // SAFETY: guaranteed by the caller.
    let (options, Extras { prompt, in_process_only, on_event: _ }) = unsafe { builder::take(builder) }?;
    let mut builder = mcpm::ProxyBuilder::from(options).environment(environment(prompt));
    if in_process_only {
        builder = builder.in_process_only();
    }
    Ok(async move { builder.build()?.start().await })
}

/// Starts a proxy and waits until clients can connect.
///
/// The builder cannot be used for another start, and must still be freed. On success, `proxy` is set to a handle; free
/// the handle with `mcpm_proxy_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_start(
    builder: *mut ProxyBuilder,
    proxy: *mut *mut Owned<CProxy>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            let out = Out::new(proxy, "proxy")?;
            let started = executor::spawn_cancellable(start(builder)?)?.block_on()?;
            out.put(handle::into_raw(CProxy::from(started)));
            Ok(())
        })
    }
}

/// Starts a proxy as `mcpm_proxy_start` does, but returns at once, and calls `on_started` when clients can connect or
/// the start has failed.
///
/// `operation` may be null. Otherwise it is set to a handle that can cancel the start; free it with
/// `mcpm_operation_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_start_async(
    builder: *mut ProxyBuilder,
    on_started: COnProxyStarted,
    user_data: *mut c_void,
    operation: *mut *mut Owned<COperation>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let on_started = handle::required_callback(on_started, "on_started")?;
            let into_raw = |started| handle::into_raw(CProxy::from(started));
            operation::start_with_result(operation, start(builder)?, into_raw, on_started, user_data)
        })
    }
}

/// Returns the name of the server; valid as long as the handle. Returns null for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_name(proxy: *const CProxy) -> *const c_char {
    // SAFETY: the conventions in the header.
    unsafe { handle::as_ref(proxy) }.map_or(ptr::null(), |proxy| proxy.name.as_ptr())
}

/// Returns the URL for clients; valid as long as the handle. Returns null for a null pointer.
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

/// Receives the outcome of a check. `remark` is null if there is none, and must be freed with `mcpm_string_free`
/// otherwise. If the check has failed, `remark` is null, and `error` must be freed.
///
/// mcpm calls it once, on one of its threads. The callback may block, and may start other operations, but must not call
/// functions of mcpm that block: in a callback, they return `MCPM_STATUS_NOT_HERE`.
pub type COnChecked = Option<
    unsafe extern "C" fn(user_data: *mut c_void, remark: *mut Owned<c_char>, error: *mut Owned<CError>),
>;

/// Checks with one MCP exchange whether the target is an MCP server. A start does not check this, because the target
/// may be started later.
///
/// `remark` may be null. Otherwise it is set to a remark about a server that passes, for example that it requires a
/// login, and must be freed with `mcpm_string_free`; it is set to null if there is none.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_check(
    proxy: *const CProxy,
    remark: *mut *mut Owned<c_char>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            let running = Arc::clone(&handle::required_ref(proxy, "proxy")?.running);
            let passed = executor::spawn_cancellable(async move { running.check().await })?.block_on()?;
            if let Ok(remark) = Out::new(remark, "remark") {
                remark.put(handle::string_into_raw(passed));
            }
            Ok(())
        })
    }
}

/// Checks the target as `mcpm_proxy_check` does, but returns at once, and calls `on_checked` with the outcome.
///
/// `operation` may be null. Otherwise it is set to a handle that can cancel the check; free it with
/// `mcpm_operation_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_check_async(
    proxy: *const CProxy,
    on_checked: COnChecked,
    user_data: *mut c_void,
    operation: *mut *mut Owned<COperation>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let on_checked = handle::required_callback(on_checked, "on_checked")?;
            let running = Arc::clone(&handle::required_ref(proxy, "proxy")?.running);
            let checked = async move { running.check().await };
            operation::start_with_result(operation, checked, handle::string_into_raw, on_checked, user_data)
        })
    }
}

/// Connects to the server from this process, without a port. Free the connection with `mcpm_connection_free`.
///
/// `bearer_token` is the access token of the caller if the proxy authenticates callers; it may be null. `transport` is
/// the transport of the server, `streamable-http` or `sse`; if it is null, the URL of the target determines the
/// transport.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_connect(
    proxy: *const CProxy,
    bearer_token: *const c_char,
    transport: *const c_char,
    connection: *mut *mut Owned<CConnection>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let out = Out::new(connection, "connection")?;
            let proxy = handle::required_ref(proxy, "proxy")?;
            let bearer_token = handle::optional_text(bearer_token, "bearer_token")?.map(Secret::from);
            let mode = match handle::optional_text(transport, "transport")? {
                None => None,
                Some("streamable-http") => Some(ProxyMode::StreamableHttp),
                Some("sse") => Some(ProxyMode::Sse),
                Some(other) => {
                    let message = format!("`transport` is `{other}`; expected `streamable-http` or `sse`");
                    return Err(CError::bad_argument(message));
                }
            };
            let options = ConnectOptions { bearer_token, mode };
            let connected = executor::with_threads(|| proxy.running.connect_with(options))?;
            out.put(handle::into_raw(CConnection::new(ConnectionHandle::new(connected))));
            Ok(())
        })
    }
}

/// Returns the phase of a proxy.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_status(
    proxy: *const CProxy,
    phase: *mut CPhase,
    error: *mut *mut Owned<CError>,
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
pub unsafe extern "C" fn mcpm_proxy_stop(proxy: *mut CProxy, error: *mut *mut Owned<CError>) -> Status {
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

/// Stops a proxy as `mcpm_proxy_stop` does, but returns at once, and calls `on_end` when it has stopped. Stopping
/// cannot be cancelled.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_stop_async(
    proxy: *mut CProxy,
    on_end: COnEnd,
    user_data: *mut c_void,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let running = Arc::clone(&handle::required_ref(proxy, "proxy")?.running);
            let stopped = async move {
                running.stop().await;
                Ok(())
            };
            operation::start_to_completion(stopped, on_end, user_data)
        })
    }
}

/// Frees a proxy; null is allowed. A running proxy stops shortly afterwards. To wait until it has stopped, call
/// `mcpm_proxy_stop` first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_free(proxy: *mut Owned<CProxy>) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free_catching_panics(proxy) }
}
