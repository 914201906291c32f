//! Sandboxes: processes without privileges, in namespaces and a file system of their own. Ordinary users can start
//! them.
//!
//! [`SandboxPlan`] describes a sandbox and [`spawn`] starts it. The shim (`mcpm/shim/sandbox.rs`) creates the sandbox.
//! mcpm starts the shim as a program, because only a process with a single thread can enter namespaces safely. One
//! process of the shim stays outside as the monitor; its child is the first process of the sandbox.
//!
//! The server runs with the user id that the plan specifies, without capabilities, in a user namespace of its own, with
//! filters of system calls ([`syscall_filter`]) and, if the kernel supports it, with Landlock. The content of the root
//! folder is untrusted. The plan, and the files and folders that it mounts, are trusted.

#[cfg(test)]
mod control_group_tests;
mod encode;
#[cfg(test)]
mod escape_tests;
#[cfg(test)]
mod hostile_root_tests;
mod id_map;
#[cfg(test)]
mod isolation_tests;
mod landlock;
#[cfg(test)]
mod landlock_tests;
mod plan;
#[cfg(test)]
mod plan_tests;
mod process;
mod program;
#[cfg(test)]
pub(crate) mod sandbox_tests;
mod standard_mounts;
mod start_error;
mod streams;
mod syscall_filter;
mod syscalls;

pub(crate) use {
    id_map::{IdMap, PrivilegedMap},
    landlock::landlock_version,
    plan::{
        BindMount, MountOperation, SandboxCommand, SandboxLimits, SandboxNetwork, SandboxPlan, TmpfsMount,
    },
    process::{SandboxProcess, parse_exit_record, spawn},
    standard_mounts::standard_mounts,
    start_error::is_overlay_failure,
    streams::{SandboxStream, SandboxStreams},
};
