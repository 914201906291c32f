//! The description of a sandbox.

use std::{collections::BTreeMap, path::PathBuf};

use super::IdMap;

/// The description of a sandbox. Paths of type `PathBuf` are absolute paths of this machine, others are absolute paths
/// of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SandboxPlan {
    /// The map from users and groups of the sandbox to those of this machine.
    pub(crate) ids: IdMap,
    pub(crate) network: SandboxNetwork,
    pub(crate) hostname: String,
    /// The folder that becomes `/`. Its content is not trusted; nobody else may change the folder itself.
    pub(crate) root: PathBuf,
    /// The steps of building the file system, in their order.
    pub(crate) mounts: Vec<MountOperation>,
    /// The user and group of the server, as ids of the sandbox.
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Supplementary groups. Without reserved ids, an ordinary user cannot change them, so the server keeps the groups
    /// of mcpm.
    pub(crate) groups: Vec<u32>,
    /// The folder that the server starts in; it must exist.
    pub(crate) working_dir: String,
    pub(crate) command: SandboxCommand,
    /// Variables of the server. With [`SandboxCommand::Isolated`], the variables of its configuration take precedence.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) limits: SandboxLimits,
    /// Paths that the server may write to as far as its mounts allow. Everything else is read-only for it where the
    /// kernel has Landlock. `/dev` and `/proc` are always included; paths that do not exist are skipped.
    pub(crate) writable: Vec<String>,
    /// A private folder of this machine, in which the shim is stored if the kernel runs no programs from memory.
    pub(crate) program_folder: PathBuf,
}

/// The network of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SandboxNetwork {
    /// Only a loopback interface, on which any user may listen on any port.
    Private,
    /// The network of this machine.
    Host,
}

/// The program of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SandboxCommand {
    /// The server of a slot, whose configuration the shim requests over the mounted socket, as in an isolated
    /// container of an engine.
    Isolated { slot: String },
    /// A program, which is looked up in the `PATH` of the sandbox, and its arguments.
    Program { args: Vec<String> },
}

/// The limits of a sandbox. No process of a sandbox writes a core dump.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SandboxLimits {
    /// Most processes and threads. The kernel counts those of the user in this sandbox (before Linux 5.14, all of
    /// the user), and does not limit root of this machine: only a control group does.
    pub(crate) processes: Option<u64>,
    /// Most open files of a process.
    pub(crate) open_files: Option<u64>,
    /// Most bytes of a file.
    pub(crate) file_bytes: Option<u64>,
    /// The folder of the control group of version 2 that the sandbox is created in, or else joins before anything runs
    /// in it.
    pub(crate) cgroup: Option<PathBuf>,
    /// The folders of the control groups of version 1 that the sandbox joins before anything runs in it.
    pub(crate) separate_cgroups: Vec<PathBuf>,
    /// The file in which the kernel counts processes that it killed for lack of memory: `memory.events` of a control
    /// group, or `memory.oom_control` of the first version.
    pub(crate) memory_events: Option<PathBuf>,
}

/// One step of building the file system.
///
/// Missing folders on the way to a target are created. Symbolic links and `..` in targets are followed within the
/// sandbox. Set-user-id programs have no effect on any mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MountOperation {
    /// A new file system in memory.
    Tmpfs(TmpfsMount),
    /// A file or folder of this machine, with everything that is mounted in it.
    Bind(BindMount),
    /// Read-only folders of this machine on top of each other, the uppermost first. If `writable` is set, the overlay
    /// can be written to; it contains the folder for changes and an empty folder on the same file system.
    Overlay { target: String, lower: Vec<PathBuf>, writable: Option<(PathBuf, PathBuf)> },
    /// The process files of the sandbox. The target must not be a symbolic link.
    Proc { target: String },
    /// The terminals of the sandbox.
    DevPts { target: String },
    /// A folder. An existing folder is left as it is.
    Folder { path: String, mode: u32 },
    /// A symbolic link, in place of any file or link.
    Symlink { path: String, to: String },
    /// A file, in place of any file or link.
    File { path: String, content: Vec<u8>, mode: u32 },
    /// Makes the mount at a path read-only, or the part of a mount that is there. Mounts below it stay as they are. A
    /// path that does not exist is skipped.
    ReadOnly { target: String },
    /// Hides a file or the content of a folder. A path that does not exist is skipped.
    Mask { path: String },
}

/// A new file system in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TmpfsMount {
    pub(crate) target: String,
    /// Most bytes. The number of files is limited to one for each 4 KiB.
    pub(crate) size: u64,
    /// Mode of the folder.
    pub(crate) mode: u32,
    pub(crate) no_exec: bool,
}

/// A file or folder of this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BindMount {
    pub(crate) source: PathBuf,
    pub(crate) target: String,
    pub(crate) read_only: bool,
    pub(crate) no_exec: bool,
    /// Whether devices in it can be used.
    pub(crate) devices: bool,
}
