//! Blocks `SIGPIPE` on mcpm's threads, because this signal would end a C or Swift program that does not handle it.

/// Blocks `SIGPIPE` on this thread, so that writing to a pipe or connection that the peer has closed is an error.
/// Otherwise the signal would end the process: a Rust or Python program ignores it, but a C or Swift program does not.
#[cfg(unix)]
#[expect(unsafe_code, reason = "the signal mask of a thread is changed by functions of the C library")]
pub(crate) fn block() {
    // SAFETY: the set is initialized by `sigemptyset` before it is read, and lives during all calls.
    unsafe {
        let mut signals = std::mem::MaybeUninit::uninit();
        libc::sigemptyset(signals.as_mut_ptr());
        libc::sigaddset(signals.as_mut_ptr(), libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, signals.as_ptr(), std::ptr::null_mut());
    }
}

/// There is no such signal on this system.
#[cfg(not(unix))]
pub(crate) fn block() {}
