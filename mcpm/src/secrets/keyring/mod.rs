//! Stores secrets in the keyring of the desktop: the Secret Service of Linux desktops, or the Keychain of macOS.

#[cfg(not(windows))]
mod access;
#[cfg(target_os = "macos")]
mod keychain;
#[cfg(not(any(target_os = "macos", windows)))]
mod secret_service;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "macos")]
pub(super) use keychain::open;
#[cfg(not(any(target_os = "macos", windows)))]
pub(super) use secret_service::{check, open};
#[cfg(windows)]
pub(super) use windows::open;
