//! Plain proxies as Python and Swift see them.

use mcpm::options::{OptionSet as _, ProxyOptions};

use crate::McpmError;

/// Checks what can be known from the options of a proxy alone; starts nothing.
#[uniffi::export]
pub fn check_proxy(options: ProxyOptions) -> Result<(), McpmError> {
    Ok(options.check()?)
}
