//! Whether this machine allows containers without an engine.

use std::fs;

use crate::{Error, ErrorKind, Result};

/// Settings of the kernel that forbid what ordinary users need, with the value that forbids it, and how to change it.
const FORBIDDING: [(&str, &str, &str); 3] = [
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "an administrator can allow them with `sysctl kernel.unprivileged_userns_clone=1`",
    ),
    (
        "user/max_user_namespaces",
        "0",
        "an administrator can allow them with `sysctl user.max_user_namespaces=15000`",
    ),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "an administrator can allow them with `sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or with an AppArmor \
         profile for this program",
    ),
];

/// Checks the settings of this machine. What they do not tell is found when a container is started.
///
/// # Errors
/// `EngineUnavailable`, with what to change.
pub(super) fn check() -> Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    let value = |name: &str| fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default();
    decide(is_root, value)
}

fn decide(is_root: bool, value: impl Fn(&str) -> String) -> Result<()> {
    for (name, forbidding, hint) in FORBIDDING {
        // Root needs only that there may be user namespaces at all.
        if is_root && name.starts_with("kernel/") || value(name).trim() != forbidding {
            continue;
        }
        let message = "the built-in runtime cannot be used: this machine does not allow user namespaces";
        let setting = format!("{}={forbidding}", name.replace('/', "."));
        return Err(Error::new(ErrorKind::EngineUnavailable, message).with("setting", setting).hint(hint));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_that_forbids_containers_is_named() {
        for (is_root, set, allowed) in [
            (false, "", true),
            (false, "kernel/unprivileged_userns_clone=0", false),
            (true, "kernel/unprivileged_userns_clone=0", true),
            (false, "kernel/unprivileged_userns_clone=1", true),
            (false, "user/max_user_namespaces=0", false),
            (true, "user/max_user_namespaces=0", false),
            (false, "user/max_user_namespaces=96365", true),
            (false, "kernel/apparmor_restrict_unprivileged_userns=1", false),
            (true, "kernel/apparmor_restrict_unprivileged_userns=1", true),
        ] {
            let outcome = decide(is_root, |name| {
                set.strip_prefix(name)
                    .and_then(|rest| rest.strip_prefix('='))
                    .map(|v| format!("{v}\n"))
                    .unwrap_or_default()
            });
            match outcome {
                Ok(()) => assert!(allowed, "{set}"),
                Err(error) => {
                    assert!(!allowed, "{set}");
                    assert_eq!(error.kind(), ErrorKind::EngineUnavailable);
                    assert!(error.to_string().contains(&set.replace('/', ".")), "{error}");
                }
            }
        }
    }
}
