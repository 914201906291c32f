//! Reads the shim's reports about the start of a sandbox, and creates the error for a step that failed.

use std::{fs, io};

use rustix::io::Errno;

use crate::{Error, ErrorKind, Result};
use report::{FAILED, PROCESS, READY, REPORT_HEADER_BYTES, STEPS, Step};

#[path = "../../../../shim/report.rs"]
mod report;

/// The context of the error for a root that cannot be mounted.
const FILE_SYSTEM: &str = "file system";
const OVERLAY: &str = "overlay";

/// Whether a sandbox was not started because overlays cannot be mounted on the file systems of their folders.
pub(crate) fn is_overlay_failure(error: &Error) -> bool {
    error.context().any(|entry| entry == (FILE_SYSTEM, OVERLAY))
}

/// A sandbox that was set up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StartedSandbox {
    /// The sandbox's first process.
    pub(super) process: u32,
    /// The version of Landlock that restricts the server; 0 without it.
    pub(super) landlock: u32,
}

/// A failed step.
#[derive(Debug)]
struct FailedStep {
    step: Step,
    verb: &'static str,
    operand: String,
    errno: Errno,
}

/// Parses all reports about a start.
///
/// # Errors
/// The error for the step that failed, or `StartFailed` if the reports are incomplete.
pub(super) fn parse_reports(mut bytes: &[u8]) -> Result<StartedSandbox> {
    let (mut process, mut landlock) = (None, None);
    while let Some((letter, [first, second], operand)) = next_report(&mut bytes) {
        match letter {
            PROCESS => process = Some(first),
            READY => landlock = Some(first),
            FAILED => {
                if let Some(failed) = FailedStep::new(first, second, operand) {
                    return Err(failed.into_error(&|name| fs::read_to_string(sysctl_path(name)).ok()));
                }
            }
            _ => break,
        }
    }
    match (process, landlock) {
        (Some(process), Some(landlock)) => Ok(StartedSandbox { process, landlock }),
        _ => Err(Error::new(ErrorKind::StartFailed, "the sandbox ended before it was set up")),
    }
}

fn next_report<'a>(bytes: &mut &'a [u8]) -> Option<(u8, [u32; 2], &'a [u8])> {
    let (head, rest) = bytes.split_first_chunk::<REPORT_HEADER_BYTES>()?;
    let [letter, numbers @ ..] = head;
    let mut numbers = numbers.chunks_exact(4).map(|bytes| bytes.try_into().map(u32::from_le_bytes));
    let mut number = || numbers.next()?.ok();
    let (first, second, length) = (number()?, number()?, number()?);
    let (operand, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some((*letter, [first, second], operand))
}

impl FailedStep {
    fn new(step: u32, errno: u32, operand: &[u8]) -> Option<Self> {
        let (step, verb) = *STEPS.get(usize::try_from(step).ok()?)?;
        let errno = Errno::from_raw_os_error(i32::try_from(errno).ok()?);
        Some(Self { step, verb, operand: String::from_utf8_lossy(operand).trim().to_owned(), errno })
    }

    /// Returns the error for the step; `sysctl` reads a setting of the kernel.
    fn into_error(self, sysctl: &dyn Fn(&str) -> Option<String>) -> Error {
        let operand = if self.operand.is_empty() { String::new() } else { format!(" `{}`", self.operand) };
        let kind = match self.step {
            Step::CreateNamespaces | Step::MapIds | Step::Separate => ErrorKind::EngineUnavailable,
            Step::Run | Step::EnterFolder => ErrorKind::StartFailed,
            _ => ErrorKind::Engine,
        };
        let cause = match (self.step, self.errno) {
            (Step::Run, Errno::NOENT | Errno::NOTDIR) => io::Error::other("not found"),
            (Step::Run, Errno::NOEXEC) => io::Error::other("not a program that this machine can run"),
            _ => self.errno.into(),
        };
        let mut error = Error::new(kind, format!("cannot {}{operand}", self.verb)).source(cause);
        // If mounting an overlay is not permitted, no mount is.
        if self.step == Step::Mount
            && self.operand == "/"
            && !matches!(self.errno, Errno::PERM | Errno::ACCESS)
        {
            error = error.with(FILE_SYSTEM, OVERLAY);
        }
        match self.next_step(sysctl) {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }

    /// Returns what the user can do about it.
    fn next_step(&self, sysctl: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let is = |name: &str, value: &str| sysctl(name).is_some_and(|found| found.trim() == value);
        let allow =
            |setting: &str| Some(format!("to allow user namespaces, run `sysctl -w {setting}` as root"));
        let is_denied = matches!(self.errno, Errno::PERM | Errno::ACCESS);
        match (self.step, self.errno) {
            (Step::CreateNamespaces, Errno::NOSPC | Errno::USERS) if is("user.max_user_namespaces", "0") => {
                allow("user.max_user_namespaces=15000")
            }
            (Step::CreateNamespaces, Errno::NOSPC | Errno::USERS) => Some(
                "too many namespaces are in use: stop other containers, or increase `user.max_user_namespaces`"
                    .to_owned(),
            ),
            (Step::CreateNamespaces | Step::MapIds | Step::Separate | Step::Mount, _) if is_denied => {
                if is("kernel.unprivileged_userns_clone", "0") {
                    return allow("kernel.unprivileged_userns_clone=1");
                }
                if is("kernel.apparmor_restrict_unprivileged_userns", "1") {
                    return Some(
                        "AppArmor restricts user namespaces: add a profile for this program that allows `userns`, or \
                         run `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` as root"
                            .to_owned(),
                    );
                }
                if self.step == Step::Mount && self.operand != "/proc" {
                    return None;
                }
                Some(
                    "mcpm may run in a container or a chroot that restricts namespaces: run it outside, or use Docker \
                     or Podman"
                        .to_owned(),
                )
            }
            (Step::CreateNamespaces, Errno::INVAL) => Some(
                "the kernel has no user namespaces (`CONFIG_USER_NS`): use another kernel, or Docker or Podman"
                    .to_owned(),
            ),
            (Step::JoinCgroup, Errno::AGAIN) => Some(
                "the control group, or one that contains it, has reached its limit of processes (`pids.max`): stop \
                 other programs in it, or raise the limit"
                    .to_owned(),
            ),
            (Step::JoinCgroup, _) => Some(
                "another program may have changed or removed the control group: try again, and if that does not help, \
                 start mcpm in a control group that is delegated to it"
                    .to_owned(),
            ),
            (_, Errno::NOSYS) => Some(
                "the kernel is older than Linux 5.12, or a filter of system calls around mcpm denies the call: use a \
                 newer kernel, run mcpm without that filter, or use Docker or Podman"
                    .to_owned(),
            ),
            (Step::Mount, Errno::NODEV) => {
                Some("the kernel has no overlay file systems: run `modprobe overlay` as root".to_owned())
            }
            _ => None,
        }
    }
}

fn sysctl_path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(letter: u8, numbers: [u32; 2], operand: &str) -> Vec<u8> {
        let [first, second] = numbers.map(u32::to_le_bytes);
        let length = u32::try_from(operand.len()).unwrap().to_le_bytes();
        [&[letter], &first[..], &second, &length, operand.as_bytes()].concat()
    }

    #[test]
    fn steps_are_in_the_order_of_their_numbers() {
        for (number, (step, _)) in STEPS.iter().enumerate() {
            assert_eq!(*step as usize, number);
        }
    }

    #[test]
    fn a_start_is_complete_with_both_reports() {
        let all = [report(PROCESS, [7, 0], ""), report(READY, [6, 0], "")].concat();
        assert_eq!(parse_reports(&all).unwrap(), StartedSandbox { process: 7, landlock: 6 });
        for cut in 0..all.len() {
            assert_eq!(parse_reports(&all[..cut]).unwrap_err().kind(), ErrorKind::StartFailed, "{cut}");
        }
    }

    #[test]
    fn a_failed_step_says_what_to_do() {
        let namespaces = (Step::CreateNamespaces, "");
        for ((step, operand), errno, setting, expected) in [
            (namespaces, Errno::NOSPC, ("user.max_user_namespaces", "0"), "user.max_user_namespaces=15000"),
            (namespaces, Errno::NOSPC, ("user.max_user_namespaces", "9"), "too many namespaces"),
            (namespaces, Errno::PERM, ("kernel.unprivileged_userns_clone", "0\n"), "userns_clone=1"),
            (namespaces, Errno::PERM, ("", ""), "chroot"),
            (namespaces, Errno::INVAL, ("", ""), "CONFIG_USER_NS"),
            (
                (Step::MapIds, "0 1000 1"),
                Errno::ACCESS,
                ("kernel.apparmor_restrict_unprivileged_userns", "1"),
                "AppArmor",
            ),
            ((Step::JoinCgroup, "/sys/fs/cgroup/w"), Errno::AGAIN, ("", ""), "pids.max"),
            ((Step::JoinCgroup, "/sys/fs/cgroup/w"), Errno::ACCESS, ("", ""), "delegated"),
            ((Step::Mount, "/proc"), Errno::PERM, ("", ""), "outside"),
            ((Step::Mount, "/"), Errno::NODEV, ("", ""), "modprobe overlay"),
            ((Step::Protect, "/dev"), Errno::NOSYS, ("", ""), "5.12"),
        ] {
            let failed =
                FailedStep::new(step as u32, errno.raw_os_error().unsigned_abs(), operand.as_bytes())
                    .unwrap();
            let error = failed.into_error(&|name| (name == setting.0).then(|| setting.1.to_owned()));
            assert!(error.next_step().is_some_and(|hint| hint.contains(expected)), "{error}");
        }
    }

    #[test]
    fn a_failed_step_names_its_operand_and_its_cause() {
        let failed = report(FAILED, [Step::Run as u32, 2], "server");
        let error = parse_reports(&[report(PROCESS, [7, 0], ""), failed].concat()).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::StartFailed, "cannot run `server`: not found")
        );
        let failed = report(FAILED, [Step::Mount as u32, 2], "/missing");
        let error = parse_reports(&failed).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Engine);
        assert!(error.to_string().starts_with("cannot mount `/missing`: No such file"), "{error}");
    }

    #[test]
    fn a_root_that_cannot_be_mounted_is_told_from_what_is_forbidden() {
        for (step, operand, errno, expected) in [
            (Step::Mount, "/", Errno::INVAL, true),
            (Step::Mount, "/", Errno::NODEV, true),
            (Step::Mount, "/", Errno::PERM, false),
            (Step::Mount, "/proc", Errno::INVAL, false),
            (Step::Run, "/", Errno::INVAL, false),
        ] {
            let failed = FailedStep { step, verb: "mount", operand: operand.to_owned(), errno };
            assert_eq!(is_overlay_failure(&failed.into_error(&|_| None)), expected, "{operand} {errno}");
        }
    }
}
