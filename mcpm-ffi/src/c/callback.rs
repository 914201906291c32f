//! Holds the user data that C programs pass with their callbacks, and frees it after the last call.

use std::ffi::c_void;

/// Frees the user data of callbacks.
pub type CFreeUserData = Option<unsafe extern "C" fn(user_data: *mut c_void)>;

/// The user data of callbacks, which is freed with the last owner.
#[derive(Debug)]
pub(super) struct UserData {
    pointer: *mut c_void,
    free: CFreeUserData,
}

// SAFETY: the documentation of every callback requires user data that any thread may use.
unsafe impl Send for UserData {}
// SAFETY: as above.
unsafe impl Sync for UserData {}

impl UserData {
    /// Takes the user data of a program, which is freed with `free` if that is set.
    pub(super) fn new(pointer: *mut c_void, free: CFreeUserData) -> Self {
        Self { pointer, free }
    }

    pub(super) fn pointer(&self) -> *mut c_void {
        self.pointer
    }
}

impl Drop for UserData {
    fn drop(&mut self) {
        if let Some(free) = self.free {
            // SAFETY: the program has passed both, and no callback is called any more.
            unsafe { free(self.pointer) }
        }
    }
}
