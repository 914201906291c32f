//! The keyring of the desktop as a store of secrets: the Secret Service of Linux desktops, the Keychain of macOS.

mod access;
#[cfg(target_os = "macos")]
mod keychain;
#[cfg(not(target_os = "macos"))]
mod secret_service;

#[cfg(target_os = "macos")]
pub(super) use keychain::open;
#[cfg(not(target_os = "macos"))]
pub(super) use secret_service::open;
