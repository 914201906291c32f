//! Users, privileges and limits of this process.

use super::{Errno, Result, call, number};

const PRCTL_PARENT_DEATH_SIGNAL: usize = 1;
const PRCTL_DUMPABLE: usize = 4;
const PRCTL_NAME: usize = 15;
const PRCTL_DROP_BOUNDING: usize = 24;
const PRCTL_SECURE_BITS: usize = 28;
const PRCTL_NO_NEW_PRIVILEGES: usize = 38;
const PRCTL_AMBIENT: usize = 47;

fn control(operation: usize, first: usize, second: usize) -> Result<()> {
    // SAFETY: the callers pass numbers only, apart from the name, which is a static text.
    unsafe { call(number::PRCTL, [operation, first, second, 0, 0, 0]) }.map(drop)
}

/// Lets this process be killed when its parent dies. A change of its user or capabilities resets that.
pub(crate) fn die_with_parent() -> Result<()> {
    const KILL: usize = 9;
    control(PRCTL_PARENT_DEATH_SIGNAL, KILL, 0)
}

/// Sets whether processes of the same user can read this process's memory and files.
pub(crate) fn set_inspectable(inspectable: bool) -> Result<()> {
    control(PRCTL_DUMPABLE, usize::from(inspectable), 0)
}

/// Sets the name that tools show for this process.
pub(crate) fn set_process_name(name: &'static core::ffi::CStr) {
    let _ = control(PRCTL_NAME, name.as_ptr() as usize, 0);
}

/// Sets the supplementary groups.
pub(crate) fn set_groups(groups: &[u32]) -> Result<()> {
    // SAFETY: the kernel reads that many numbers of four bytes there.
    unsafe { call(number::SETGROUPS, [groups.len(), groups.as_ptr() as usize, 0, 0, 0, 0]) }.map(drop)
}

/// Changes to a group.
pub(crate) fn set_group(group: u32) -> Result<()> {
    let group = group as usize;
    // SAFETY: the call takes no pointer.
    unsafe { call(number::SETRESGID, [group, group, group, 0, 0, 0]) }.map(drop)
}

/// Changes to a user.
pub(crate) fn set_user(user: u32) -> Result<()> {
    let user = user as usize;
    // SAFETY: the call takes no pointer.
    unsafe { call(number::SETRESUID, [user, user, user, 0, 0, 0]) }.map(drop)
}

/// Removes all capabilities from the bounding set, so that even root gets none when it runs a program. This needs
/// privileges.
pub(crate) fn bound_capabilities() -> Result<()> {
    const LAST: usize = 63;
    /// Root gets no capabilities, a change of the user neither adds nor removes any, and none become ambient; all of
    /// these settings are locked.
    const SECURE_BITS: usize = 0x01 | 0x02 | 0x04 | 0x08 | 0x40 | 0x80;
    for capability in 0..=LAST {
        match control(PRCTL_DROP_BOUNDING, capability, 0) {
            Ok(()) => {}
            // The kernel has no further capabilities.
            Err(Errno::INVALID) if capability > 0 => break,
            Err(error) => return Err(error),
        }
    }
    control(PRCTL_SECURE_BITS, SECURE_BITS, 0)
}

/// Drops all capabilities, and makes sure that this process gains none from programs that it runs.
pub(crate) fn drop_capabilities() -> Result<()> {
    const CLEAR_AMBIENT: usize = 4;
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let none = [0_u32; 6];
    control(PRCTL_AMBIENT, CLEAR_AMBIENT, 0)?;
    // SAFETY: the kernel reads a version and a process, and three sets of two words each.
    unsafe { call(number::CAPSET, [header.as_ptr() as usize, none.as_ptr() as usize, 0, 0, 0, 0]) }?;
    control(PRCTL_NO_NEW_PRIVILEGES, 1, 0)
}

/// Sets the soft and the hard limit of a resource, but not above the present hard limit, since that needs privileges.
pub(crate) fn limit_resource(resource: u32, limit: u64) -> Result<()> {
    let (resource, mut present) = (resource as usize, [0_u64; 2]);
    // SAFETY: the kernel writes two numbers there.
    unsafe { call(number::PRLIMIT64, [0, resource, 0, &raw mut present as usize, 0, 0]) }?;
    let limit = limit.min(present[1]);
    let limits = [limit, limit];
    // SAFETY: the kernel reads two numbers there.
    unsafe { call(number::PRLIMIT64, [0, resource, &raw const limits as usize, 0, 0, 0]) }.map(drop)
}
