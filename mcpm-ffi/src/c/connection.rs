//! Exports the connection type to C: JSON-RPC messages to and from a server whose proxy runs in the same process.

use std::{
    ffi::{c_char, c_void},
    ptr,
    sync::Arc,
};

use super::{
    error::{CError, Status},
    handle::{self, Out, Owned},
    operation::{self, COnEnd, COperation},
};
use crate::{connection_handle::ConnectionHandle, executor};

/// A connection to a server from this process, which needs no port.
///
/// It transports JSON-RPC messages in both directions. Requests pass through all layers of the proxy, as if they had
/// arrived at its port: authentication, tool filters, policies and the audit log apply. The connection ends when the
/// workload or proxy stops, or when the server has lost the session and cannot continue it.
#[derive(Debug)]
pub struct CConnection(Arc<ConnectionHandle>);

impl CConnection {
    pub(super) fn new(handle: Arc<ConnectionHandle>) -> Self {
        Self(handle)
    }
}

/// Receives a message. `message` must be freed with `mcpm_string_free`, and is null after the end of the connection.
/// `error` is null on success, and must be freed otherwise.
///
/// mcpm calls it once, on one of its threads. The callback may block, and may start other operations, but must not call
/// functions of mcpm that block: in a callback, they return `MCPM_STATUS_NOT_HERE`.
pub type COnMessage = Option<
    unsafe extern "C" fn(user_data: *mut c_void, message: *mut Owned<c_char>, error: *mut Owned<CError>),
>;

/// Sends one JSON-RPC message, and blocks while the server cannot receive more. Responses are received with
/// `mcpm_connection_receive`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_connection_send(
    connection: *const CConnection,
    message: *const c_char,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            let held = Arc::clone(&handle::required_ref(connection, "connection")?.0);
            let message = handle::text(message, "message")?.to_owned();
            Ok(executor::spawn_cancellable(async move { held.send(&message).await })?.block_on()?)
        })
    }
}

/// Sends one JSON-RPC message, and calls `on_end` once the message is sent. Messages are sent in the order of the calls
/// only if each call is made after the previous one has ended. Sending cannot be cancelled.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_connection_send_async(
    connection: *const CConnection,
    message: *const c_char,
    on_end: COnEnd,
    user_data: *mut c_void,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let held = Arc::clone(&handle::required_ref(connection, "connection")?.0);
            let message = handle::text(message, "message")?.to_owned();
            let sent = async move { held.send(&message).await };
            operation::start_with_end(ptr::null_mut(), sent, on_end, user_data)
        })
    }
}

/// Waits for the next JSON-RPC message from the server. `message` is set to it, and must be freed with
/// `mcpm_string_free`; it is set to null after the end of the connection.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_connection_receive(
    connection: *const CConnection,
    message: *mut *mut Owned<c_char>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            let out = Out::new(message, "message")?;
            let held = Arc::clone(&handle::required_ref(connection, "connection")?.0);
            let received = executor::spawn_cancellable(async move { held.receive().await })?.block_on()?;
            out.put(handle::string_into_raw(received));
            Ok(())
        })
    }
}

/// Waits for the next JSON-RPC message from the server, and calls `on_message` with it. If the wait is cancelled, no
/// message is lost.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_connection_receive_async(
    connection: *const CConnection,
    on_message: COnMessage,
    user_data: *mut c_void,
    operation: *mut *mut Owned<COperation>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let on_message = handle::required_callback(on_message, "on_message")?;
            let held = Arc::clone(&handle::required_ref(connection, "connection")?.0);
            let received = async move { held.receive().await };
            operation::start_with_result(operation, received, handle::string_into_raw, on_message, user_data)
        })
    }
}

/// Ends a connection, also for threads that wait for a message. mcpm waits up to 2 s for pending responses, which can
/// still be received. The handle must still be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_connection_close(
    connection: *const CConnection,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            let held = Arc::clone(&handle::required_ref(connection, "connection")?.0);
            Ok(executor::spawn_cancellable(async move { held.close().await })?.block_on()?)
        })
    }
}

/// Ends a connection as `mcpm_connection_close` does, but returns at once, and calls `on_end` when the connection has
/// ended. Closing cannot be cancelled.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_connection_close_async(
    connection: *const CConnection,
    on_end: COnEnd,
    user_data: *mut c_void,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let held = Arc::clone(&handle::required_ref(connection, "connection")?.0);
            let closed = async move { held.close().await };
            operation::start_to_completion(closed, on_end, user_data)
        })
    }
}

/// Frees a connection, which closes it; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_connection_free(connection: *mut Owned<CConnection>) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free_catching_panics(connection) }
}
