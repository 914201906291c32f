//! Checks whether this machine allows containers without an engine, and how Landlock restricts them.

use std::{fs, io};

use rustix::io::Errno;

use super::sandbox;
use crate::{Error, ErrorKind, Result};

/// The first version of Landlock that keeps a server from the abstract sockets of others in the same network.
const LANDLOCK_WITH_SCOPES: u32 = 6;
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

/// Whether a server in the network of this machine can connect to the abstract sockets of all other programs. Blocks
/// for about a millisecond, because it runs the shim.
pub(crate) fn shares_abstract_sockets() -> bool {
    allows_abstract_sockets(sandbox::landlock_version().ok())
}

/// Whether a version of Landlock, or its absence, lets a server in the network of this machine connect to the abstract
/// sockets of all other programs.
pub(super) fn allows_abstract_sockets(landlock: Option<u32>) -> bool {
    landlock < Some(LANDLOCK_WITH_SCOPES)
}

/// Describes how Landlock restricts servers, given the kernel's version of it.
///
/// # Errors
/// `Unsupported` if it does not restrict all that mcpm can restrict with it, with what to change.
pub(super) fn describe_landlock(version: io::Result<u32>) -> Result<&'static str> {
    let unsupported = |message: &'static str| Error::new(ErrorKind::Unsupported, message);
    let unrestricted =
        || unsupported("only mounts restrict the files of servers, because Landlock cannot be used");
    let error = match version {
        Ok(LANDLOCK_WITH_SCOPES..) => {
            return Ok("Landlock restricts files, signals and connections to abstract sockets");
        }
        // The shim does not use version 1.
        Ok(2..) => {
            let message = "Landlock restricts files, but not connections to abstract sockets of this machine from servers \
                that use the network `host`";
            return Err(unsupported(message).hint("use Linux 6.12 or newer"));
        }
        Ok(_) => return Err(unrestricted().hint("use Linux 5.19 or newer")),
        Err(error) => error,
    };
    let hint = match Errno::from_io_error(&error) {
        Some(Errno::OPNOTSUPP) => {
            "an administrator can enable it with the kernel parameter `lsm=landlock,LIST`, where `LIST` is the content of \
             `/sys/kernel/security/lsm`"
        }
        Some(Errno::NOSYS | Errno::PERM) => {
            "use Linux 5.19 or newer with `CONFIG_SECURITY_LANDLOCK`; if mcpm runs under a filter of system calls, allow \
             `landlock_create_ruleset` in it"
        }
        // The kernel was not asked.
        _ => {
            return Err(
                unsupported("cannot check whether Landlock restricts the files of servers").source(error)
            );
        }
    };
    Err(unrestricted().source(error).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_of_landlock_is_described() {
        let failed = |errno: Errno| Err(io::Error::from(errno));
        for (version, message, hint) in [
            (Ok(1), "only mounts restrict the files of servers", Some("use Linux 5.19 or newer")),
            (Ok(2), "Landlock restricts files, but not connections", Some("use Linux 6.12 or newer")),
            (Ok(5), "Landlock restricts files, but not connections", Some("use Linux 6.12 or newer")),
            (failed(Errno::OPNOTSUPP), "only mounts restrict", Some("`lsm=landlock,LIST`")),
            (failed(Errno::NOSYS), "only mounts restrict", Some("`CONFIG_SECURITY_LANDLOCK`")),
            (failed(Errno::PERM), "only mounts restrict", Some("allow `landlock_create_ruleset`")),
            (failed(Errno::ACCESS), "cannot check", None),
        ] {
            let error = describe_landlock(version).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.message().starts_with(message), "{error}");
            match (error.next_step(), hint) {
                (Some(found), Some(hint)) => assert!(found.contains(hint), "{error}"),
                (found, hint) => assert_eq!(found, hint, "{error}"),
            }
        }
        for version in [6, 7] {
            assert!(describe_landlock(Ok(version)).is_ok(), "{version}");
        }
    }

    #[test]
    fn only_landlock_with_scopes_prevents_connections_to_abstract_sockets() {
        for (landlock, expected) in
            [(None, true), (Some(1), true), (Some(5), true), (Some(6), false), (Some(7), false)]
        {
            assert_eq!(allows_abstract_sockets(landlock), expected, "{landlock:?}");
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
