//! Checks whether this machine allows containers without an engine.

use std::fs;

use crate::{Error, ErrorKind, Result};

const APPARMOR: &str = "kernel/apparmor";

/// Settings of the kernel that can forbid containers of ordinary users: the name, the value that forbids them, and how
/// to change it.
const FORBIDDING: [(&str, &str, &str); 3] = [
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "an administrator can allow user namespaces with `sysctl kernel.unprivileged_userns_clone=1`",
    ),
    (
        "user/max_user_namespaces",
        "0",
        "an administrator can allow user namespaces with `sysctl user.max_user_namespaces=15000`",
    ),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "an administrator can allow user namespaces with `sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or \
         with an AppArmor profile for this program",
    ),
];

/// Checks the settings of this machine. Other obstacles are only found when a container is started.
///
/// # Errors
/// `EngineUnavailable`, with what to change.
pub(super) fn check() -> Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    let value = |name: &str| fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default();
    decide(is_root, has_apparmor_profile(), value)
}

/// Whether AppArmor has a profile for this program, which decides instead of the setting for all others.
fn has_apparmor_profile() -> bool {
    let profile = ["/proc/self/attr/apparmor/current", "/proc/self/attr/current"]
        .iter()
        .find_map(|path| fs::read_to_string(path).ok());
    profile.is_some_and(|name| !matches!(name.trim_matches(['\0', '\n']), "" | "unconfined"))
}

fn decide(is_root: bool, has_profile: bool, value: impl Fn(&str) -> String) -> Result<()> {
    for (name, forbidding, hint) in FORBIDDING {
        // For root, only the limit on user namespaces matters.
        let is_exempt = is_root && name.starts_with("kernel/") || has_profile && name.starts_with(APPARMOR);
        if is_exempt || value(name).trim() != forbidding {
            continue;
        }
        let message = "the built-in runtime cannot be used: this machine does not allow user namespaces";
        let setting = format!("{}={forbidding}", name.replace('/', "."));
        return Err(Error::new(ErrorKind::EngineUnavailable, message).with("setting", setting).hint(hint));
    }
    Ok(())
}

/// Whether a server in the network of this machine can connect to the abstract sockets of all other programs: before
/// Linux 6.12, Landlock does not prevent that.
pub(crate) fn shares_abstract_sockets() -> bool {
    let kernel = rustix::system::uname();
    is_older(&kernel.release().to_string_lossy(), (6, 12))
}

/// Whether a kernel's release, such as `6.8.0-45-generic`, is older than a version. A release that cannot be parsed
/// counts as older.
fn is_older(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < version,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        for (release, expected) in [
            ("6.8.0-45-generic", true),
            ("6.12.1", false),
            ("6.18.44-fc-v669", false),
            ("5.15", true),
            ("7.0-rc1", false),
            ("", true),
        ] {
            assert_eq!(is_older(release, (6, 12)), expected, "{release}");
        }
    }

    #[test]
    fn each_setting_that_forbids_containers_is_named() {
        for (is_root, has_profile, set, allowed) in [
            (false, false, "", true),
            (false, false, "kernel/unprivileged_userns_clone=0", false),
            (true, false, "kernel/unprivileged_userns_clone=0", true),
            (false, false, "kernel/unprivileged_userns_clone=1", true),
            (false, false, "user/max_user_namespaces=0", false),
            (true, false, "user/max_user_namespaces=0", false),
            (false, false, "user/max_user_namespaces=96365", true),
            (false, false, "kernel/apparmor_restrict_unprivileged_userns=1", false),
            (true, false, "kernel/apparmor_restrict_unprivileged_userns=1", true),
            (false, true, "kernel/apparmor_restrict_unprivileged_userns=1", true),
            (false, true, "user/max_user_namespaces=0", false),
        ] {
            let outcome = decide(is_root, has_profile, |name| {
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
