//! Builds the filters of system calls for servers.
//!
//! A system call that is on no list fails as on a kernel without that call, so that programs fall back to other calls.
//! Calls that are useful for attacks on the kernel or on other programs fail with a permission error. Sockets of a
//! family or protocol that servers do not need, and reservations of disk space, fail as unsupported. Programs of
//! another architecture than mcpm's are killed, since their calls have other numbers.

use std::{collections::BTreeMap, sync::OnceLock};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::syscalls;
use crate::{Error, ErrorKind, Result};

/// Calls that servers do not need and that attacks on kernels use.
const DENIED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];
/// The flags of `clone` that create namespaces.
const NAMESPACE_FLAGS: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
/// Terminal operations that type into another program's terminal.
const TERMINAL_OPERATIONS: [u64; 2] = [0x5412, 0x541c];
/// File operations that reserve space as `fallocate` does: `FS_IOC_RESVSP`, `FS_IOC_RESVSP64` and `FS_IOC_ZERO_RANGE`,
/// and `XFS_IOC_ALLOCSP` and `XFS_IOC_ALLOCSP64` before Linux 5.17.
const RESERVATIONS: [u64; 5] = [0x4030_5828, 0x4030_582a, 0x4030_5839, 0x4030_580a, 0x4030_5824];
/// Usual values of `personality`: Linux, with 32-bit addresses or an old version, and the query.
const PERSONALITIES: [u64; 5] = [0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];
/// The socket families that servers need; of the last family, only the protocol for interfaces and routes.
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Returns the filters in the order in which they are installed, as the kernel's instructions.
pub(super) fn programs() -> Result<&'static [Vec<u8>]> {
    static PROGRAMS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    if let Some(programs) = PROGRAMS.get() {
        return Ok(programs);
    }
    let cannot = |error: seccompiler::BackendError| {
        Error::new(ErrorKind::Internal, "cannot build the filter of system calls").source(error)
    };
    let built = build().map_err(cannot)?;
    Ok(PROGRAMS.get_or_init(|| built))
}

/// Builds the filters. If several of them deny a call, the kernel returns the error of the one that was installed last.
fn build() -> Result<Vec<Vec<u8>>, seccompiler::BackendError> {
    let errno = |errno: i32| SeccompAction::Errno(errno.unsigned_abs());
    Ok(vec![
        compile(allowed(), errno(libc::ENOSYS), SeccompAction::Allow)?,
        compile(denied()?, SeccompAction::Allow, errno(libc::EPERM))?,
        compile(denied_sockets()?, SeccompAction::Allow, errno(libc::EAFNOSUPPORT))?,
        compile(denied_reservations()?, SeccompAction::Allow, errno(libc::EOPNOTSUPP))?,
    ])
}

fn compile(
    rules: Rules,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<Vec<u8>, seccompiler::BackendError> {
    let architecture = std::env::consts::ARCH.try_into()?;
    let program: BpfProgram = SeccompFilter::new(rules, otherwise, matched, architecture)?.try_into()?;
    let instruction = |filter: &seccompiler::sock_filter| -> Vec<u8> {
        [&filter.code.to_ne_bytes()[..], &[filter.jt, filter.jf], &filter.k.to_ne_bytes()].concat()
    };
    Ok(program.iter().flat_map(instruction).collect())
}

fn allowed() -> Rules {
    let calls = [syscalls::COMMON, syscalls::ARCHITECTURE, syscalls::NEWER];
    calls.into_iter().flatten().map(|call| (*call, Vec::new())).collect()
}

fn denied() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = DENIED.iter().map(|call| (*call, Vec::new())).collect();
    let mut any_of = |call: i64, conditions: Vec<Vec<SeccompCondition>>| {
        let made = conditions.into_iter().map(SeccompRule::new).collect::<Result<Vec<_>, _>>()?;
        rules.insert(call, made);
        Ok::<_, seccompiler::BackendError>(())
    };
    let flag = |flag: i32| {
        let flag = u64::from(flag.unsigned_abs());
        Ok(vec![argument(0, SeccompCmpOp::MaskedEq(flag), flag)?])
    };
    any_of(libc::SYS_clone, NAMESPACE_FLAGS.into_iter().map(flag).collect::<Result<_, _>>()?)?;
    let operation = |operation| Ok(vec![argument(1, SeccompCmpOp::Eq, operation)?]);
    any_of(libc::SYS_ioctl, TERMINAL_OPERATIONS.into_iter().map(operation).collect::<Result<_, _>>()?)?;
    any_of(libc::SYS_personality, vec![none_of(0, &PERSONALITIES)?])?;
    Ok(rules)
}

fn denied_sockets() -> Result<Rules, seccompiler::BackendError> {
    let families = FAMILIES.map(|family| u64::from(family.unsigned_abs()));
    let netlink = u64::from(libc::AF_NETLINK.unsigned_abs());
    let route = u64::from(libc::NETLINK_ROUTE.unsigned_abs());
    let rules = vec![
        SeccompRule::new(none_of(0, &families)?)?,
        SeccompRule::new(vec![
            argument(0, SeccompCmpOp::Eq, netlink)?,
            argument(2, SeccompCmpOp::Ne, route)?,
        ])?,
    ];
    Ok(BTreeMap::from([(libc::SYS_socket, rules)]))
}

/// Space that is reserved without writing would exceed the limit of the disk space before it is noticed. Programs write
/// instead if the file system does not support it.
fn denied_reservations() -> Result<Rules, seccompiler::BackendError> {
    let punch_hole = u64::from(libc::FALLOC_FL_PUNCH_HOLE.unsigned_abs());
    let reserves = vec![argument(1, SeccompCmpOp::MaskedEq(punch_hole), 0)?];
    let operation = |operation| SeccompRule::new(vec![argument(1, SeccompCmpOp::Eq, operation)?]);
    let operations = RESERVATIONS.into_iter().map(operation).collect::<Result<_, _>>()?;
    Ok(BTreeMap::from([
        (libc::SYS_fallocate, vec![SeccompRule::new(reserves)?]),
        (libc::SYS_ioctl, operations),
    ]))
}

fn none_of(index: u8, values: &[u64]) -> Result<Vec<SeccompCondition>, seccompiler::BackendError> {
    values.iter().map(|value| argument(index, SeccompCmpOp::Ne, *value)).collect()
}

/// Returns the condition on an argument. The kernel uses only 32 bits of all arguments that are compared here.
fn argument(
    index: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_fit_into_the_kernels_limit() {
        for program in programs().unwrap() {
            assert!(!program.is_empty() && program.len().is_multiple_of(8) && program.len() / 8 < 4096);
        }
    }

    #[test]
    fn no_call_is_both_allowed_and_denied() {
        let allowed = allowed();
        let both: Vec<_> = DENIED.iter().filter(|call| allowed.contains_key(call)).collect();
        assert!(both.is_empty(), "{both:?}");
        for dispatched in [libc::SYS_clone, libc::SYS_ioctl, libc::SYS_personality, libc::SYS_socket] {
            assert!(allowed.contains_key(&dispatched));
        }
    }
}
