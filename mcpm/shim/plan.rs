//! Parses the plan of a sandbox, which consists of records.
//!
//! mcpm serializes it in `runtime/builtin/sandbox/encode.rs`, and `plan_tests.rs` there parses the result with this
//! file. All texts end with a zero byte, unless their comment says otherwise.

use alloc::vec::Vec;

use super::records::{next_field, next_record, nul_terminated};

/// The description of a sandbox.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The content of `uid_map` and `gid_map`, without a zero byte.
    pub(crate) uid_map: Vec<u8>,
    pub(crate) gid_map: Vec<u8>,
    /// The arguments of the programs that set larger maps, with the numbers of the maps; these programs are tried
    /// first, if there are any.
    pub(crate) uid_mapper: Vec<Vec<u8>>,
    pub(crate) gid_mapper: Vec<Vec<u8>>,
    /// Whether the sandbox uses the machine's network.
    pub(crate) shares_network: bool,
    /// The host name, without a zero byte.
    pub(crate) host_name: Vec<u8>,
    /// The folder that becomes the root, as a path of the machine.
    pub(crate) root: Vec<u8>,
    pub(crate) mounts: Vec<MountOperation>,
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Supplementary groups. Without privileges on this machine they cannot be changed.
    pub(crate) groups: Vec<u32>,
    pub(crate) working_dir: Vec<u8>,
    /// The slot of the configuration that mcpm sends over the mounted socket; without it, `args` are run. It has no
    /// zero byte.
    pub(crate) slot: Option<Vec<u8>>,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) env: Vec<Vec<u8>>,
    /// Limits of resources, by the kernel's numbers.
    pub(crate) limits: Vec<(u32, u64)>,
    /// The folder of the control group of version 2 that the sandbox's first process is created in, or joins if it
    /// cannot be created there.
    pub(crate) cgroup: Option<Vec<u8>>,
    /// The files `tasks` of the control groups of version 1 that the sandbox's first process joins.
    pub(crate) cgroup_tasks: Vec<Vec<u8>>,
    /// The file in which the kernel counts the processes that it killed for lack of memory.
    pub(crate) memory_events: Option<Vec<u8>>,
    /// Paths of the sandbox that Landlock lets the server write to.
    pub(crate) writable: Vec<Vec<u8>>,
    /// Filters of system calls, in the order in which they are installed, as the kernel's instructions.
    pub(crate) filters: Vec<Vec<u8>>,
}

/// One step of building the file system. Targets are paths of the sandbox, sources are paths of the machine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MountOperation {
    /// A new file system in memory. `options` are names and values in turn.
    Tmpfs {
        target: Vec<u8>,
        attributes: u64,
        options: Vec<Vec<u8>>,
    },
    /// A file or folder of the machine.
    Bind {
        target: Vec<u8>,
        attributes: u64,
        source: Vec<u8>,
    },
    /// An overlay of folders of the machine; if it is writable, with a folder for changes and a work folder.
    Overlay {
        target: Vec<u8>,
        lower: Vec<Vec<u8>>,
        upper: Vec<Vec<u8>>,
    },
    Proc {
        target: Vec<u8>,
    },
    DevPts {
        target: Vec<u8>,
    },
    Folder {
        path: Vec<u8>,
        mode: u32,
    },
    Symlink {
        path: Vec<u8>,
        to: Vec<u8>,
    },
    /// `content` has no zero byte at its end.
    File {
        path: Vec<u8>,
        mode: u32,
        content: Vec<u8>,
    },
    ReadOnly {
        target: Vec<u8>,
    },
    Mask {
        path: Vec<u8>,
    },
}

impl Plan {
    /// Parses a plan; `None` if it is incomplete or invalid.
    pub(crate) fn parse(mut bytes: &[u8]) -> Option<Self> {
        let mut plan = Self::default();
        loop {
            let (letter, value) = next_record(&mut bytes)?;
            let number = || Some(u32::from_le_bytes(value.try_into().ok()?));
            match letter {
                b'U' => plan.uid_map = value.to_vec(),
                b'G' => plan.gid_map = value.to_vec(),
                b'P' => plan.uid_mapper.push(nul_terminated(value)?),
                b'Q' => plan.gid_mapper.push(nul_terminated(value)?),
                b'N' => plan.shares_network = true,
                b'h' => plan.host_name = value.to_vec(),
                b'R' => plan.root = nul_terminated(value)?,
                b'm' => plan.mounts.push(MountOperation::parse(value)?),
                b'u' => plan.user = number()?,
                b'g' => plan.group = number()?,
                b's' => plan.groups.push(number()?),
                b'd' => plan.working_dir = nul_terminated(value)?,
                b'i' => plan.slot = Some(value.to_vec()),
                b'a' => plan.args.push(nul_terminated(value)?),
                b'e' => plan.env.push(nul_terminated(value).filter(|text| text.contains(&b'='))?),
                b'l' => {
                    let (resource, limit) = value.split_first_chunk::<4>()?;
                    let limit = u64::from_le_bytes(limit.try_into().ok()?);
                    plan.limits.push((u32::from_le_bytes(*resource), limit));
                }
                b'C' => plan.cgroup = Some(nul_terminated(value)?),
                b'c' => plan.cgroup_tasks.push(nul_terminated(value)?),
                b'o' => plan.memory_events = Some(nul_terminated(value)?),
                b'w' => plan.writable.push(nul_terminated(value)?),
                b'f' => plan.filters.push(value.to_vec()),
                b'.' => return (bytes.is_empty() && plan.is_complete()).then_some(plan),
                _ => return None,
            }
        }
    }

    fn is_complete(&self) -> bool {
        let has_program = self.slot.is_some() == self.args.is_empty();
        has_program && !self.root.is_empty() && !self.working_dir.is_empty()
    }
}

impl MountOperation {
    /// Parses a letter, a path, a number of eight bytes, and further fields.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (letter, mut rest) = bytes.split_first()?;
        let path = nul_terminated(next_field(&mut rest)?)?;
        let (number, mut rest) = rest.split_first_chunk::<8>()?;
        let attributes = u64::from_le_bytes(*number);
        let mode = u32::try_from(attributes).ok();
        let mut fields = Vec::new();
        while !rest.is_empty() {
            fields.push(next_field(&mut rest)?);
        }
        let text = |at: usize| nul_terminated(fields.get(at)?);
        let texts =
            |fields: &[&[u8]]| fields.iter().map(|field| nul_terminated(field)).collect::<Option<_>>();
        Some(match letter {
            b't' => Self::Tmpfs { target: path, attributes, options: texts(&fields)? },
            b'b' => Self::Bind { target: path, attributes, source: text(0)? },
            b'o' => {
                // The number says how many of the folders are for changes and work.
                let (upper, lower) = fields.split_at_checked(mode? as usize)?;
                Self::Overlay { target: path, lower: texts(lower)?, upper: texts(upper)? }
            }
            b'p' => Self::Proc { target: path },
            b'y' => Self::DevPts { target: path },
            b'd' => Self::Folder { path, mode: mode? },
            b'l' => Self::Symlink { path, to: text(0)? },
            b'f' => Self::File { path, mode: mode?, content: fields.first()?.to_vec() },
            b'r' => Self::ReadOnly { target: path },
            b'x' => Self::Mask { path },
            _ => return None,
        })
    }
}
