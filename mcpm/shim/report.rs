//! The steps of starting a sandbox, and the format of the reports about them: a letter, two numbers of four bytes each,
//! the length of the step's operand, and the operand. The shim and mcpm both use this file.

/// The shim sent the process id of the sandbox's first process, as a process of the machine.
pub(crate) const PROCESS: u8 = b'p';
/// The sandbox is set up; the first number is the version of Landlock that restricts the server, 0 without it.
pub(crate) const READY: u8 = b'r';
/// A step failed: its number, and the number of the error.
pub(crate) const FAILED: u8 = b'f';

/// Bytes of a report before its operand: the letter, two numbers and a length.
pub(crate) const REPORT_HEADER_BYTES: usize = 13;

/// A step of starting a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    ReceivePlan,
    CreateNamespaces,
    MapIds,
    JoinCgroup,
    Separate,
    Network,
    Mount,
    Create,
    Protect,
    Hide,
    ChangeRoot,
    HostName,
    Limit,
    ChangeUser,
    DropPrivileges,
    EnterFolder,
    RestrictFiles,
    RestrictCalls,
    Start,
    Run,
}

/// The steps in the order of their numbers, each as the verb of a message with its operand.
pub(crate) const STEPS: [(Step, &str); 20] = [
    (Step::ReceivePlan, "receive the configuration of the sandbox"),
    (Step::CreateNamespaces, "create namespaces"),
    (Step::MapIds, "map users and groups with"),
    (Step::JoinCgroup, "add a process to the control group"),
    (Step::Separate, "separate the sandbox from"),
    (Step::Network, "set up the network:"),
    (Step::Mount, "mount"),
    (Step::Create, "create"),
    (Step::Protect, "make read-only"),
    (Step::Hide, "hide"),
    (Step::ChangeRoot, "change the root folder to"),
    (Step::HostName, "set the host name"),
    (Step::Limit, "limit"),
    (Step::ChangeUser, "change to"),
    (Step::DropPrivileges, "drop the privileges of the server"),
    (Step::EnterFolder, "change to the folder"),
    (Step::RestrictFiles, "restrict the files of the server with Landlock"),
    (Step::RestrictCalls, "restrict the system calls of the server with seccomp"),
    (Step::Start, "start a process of the sandbox"),
    (Step::Run, "run"),
];
