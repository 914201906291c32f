//! Serializes a plan, which `mcpm/shim/plan.rs` parses.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};

use super::{
    IdMap, MountOperation, PrivilegedMap, SandboxCommand, SandboxNetwork, SandboxPlan, syscall_filter,
};
use crate::{Error, ErrorKind, Result};

/// Attributes of mounts, with the kernel's values.
const READ_ONLY: u64 = 0x1;
const NO_DEVICES: u64 = 0x4;
const NO_EXEC: u64 = 0x8;
/// Resources with limits, by the kernel's numbers.
const FILE_BYTES: u32 = 1;
const CORE_BYTES: u32 = 4;
const PROCESSES: u32 = 6;
const OPEN_FILES: u32 = 7;
/// Paths of the standard mounts that every server may write to.
const ALWAYS_WRITABLE: [&str; 2] = ["/dev", "/proc"];

/// Serializes a plan.
///
/// # Errors
/// `InvalidOption` for texts with a zero byte and for relative paths.
pub(super) fn encode(plan: &SandboxPlan) -> Result<Vec<u8>> {
    let mut records = Records::default();
    records.put(b'U', IdMap::format(&plan.ids.users).as_bytes())?;
    records.put(b'G', IdMap::format(&plan.ids.groups).as_bytes())?;
    for (letter, map) in [(b'P', &plan.ids.privileged_users), (b'Q', &plan.ids.privileged_groups)] {
        if let Some(PrivilegedMap { program, ranges }) = map {
            records.put(letter, machine_path(program)?)?;
            let numbers = IdMap::format(ranges);
            numbers.split_whitespace().try_for_each(|number| records.put(letter, number.as_bytes()))?;
        }
    }
    if plan.network == SandboxNetwork::Host {
        records.put(b'N', b"")?;
    }
    records.put(b'h', text(&plan.hostname)?)?;
    records.put(b'R', machine_path(&plan.root)?)?;
    for operation in &plan.mounts {
        records.put(b'm', &encode_operation(operation)?)?;
    }
    records.put(b'u', &plan.user.to_le_bytes())?;
    records.put(b'g', &plan.group.to_le_bytes())?;
    plan.groups.iter().try_for_each(|group| records.put(b's', &group.to_le_bytes()))?;
    records.put(b'd', path(&plan.working_dir)?)?;
    match &plan.command {
        SandboxCommand::Isolated { slot } => records.put(b'i', text(slot)?)?,
        SandboxCommand::Program { args } if args.is_empty() => {
            return Err(Error::new(ErrorKind::InvalidOption, "the server has no command"));
        }
        SandboxCommand::Program { args } => {
            args.iter().try_for_each(|argument| records.put(b'a', text(argument)?))?;
        }
    }
    for (name, value) in &plan.env {
        records.put(b'e', text(&format!("{name}={value}"))?)?;
    }
    let limits = &plan.limits;
    let resources = [
        (CORE_BYTES, Some(0)),
        (PROCESSES, limits.processes),
        (OPEN_FILES, limits.open_files),
        (FILE_BYTES, limits.file_bytes),
    ];
    for (resource, limit) in resources {
        if let Some(limit) = limit {
            records.put(b'l', &[&resource.to_le_bytes()[..], &limit.to_le_bytes()].concat())?;
        }
    }
    if let Some(folder) = &limits.cgroup {
        records.put(b'C', machine_path(folder)?)?;
    }
    for folder in &limits.separate_cgroups {
        records.put(b'c', machine_path(&folder.join("tasks"))?)?;
    }
    if let Some(file) = &limits.memory_events {
        records.put(b'o', machine_path(file)?)?;
    }
    for writable in plan.writable.iter().map(String::as_str).chain(ALWAYS_WRITABLE) {
        records.put(b'w', path(writable)?)?;
    }
    for filter in syscall_filter::programs()? {
        records.put(b'f', filter)?;
    }
    records.put(b'.', b"")?;
    Ok(records.0)
}

/// Serializes a letter, a path, a number, and further fields.
fn encode_operation(operation: &MountOperation) -> Result<Vec<u8>> {
    let flag = |set: bool, attribute: u64| if set { attribute } else { 0 };
    let (letter, target, number, fields): (u8, &str, u64, Vec<Vec<u8>>) = match operation {
        MountOperation::Tmpfs(mount) => {
            let files = (mount.size / 4096).max(1024);
            let options = [
                ("size", mount.size.to_string()),
                ("nr_inodes", files.to_string()),
                ("mode", format!("{:o}", mount.mode)),
            ];
            let fields = options.into_iter().flat_map(|(name, value)| [name.into(), value.into_bytes()]);
            (b't', &mount.target, flag(mount.no_exec, NO_EXEC), fields.collect())
        }
        MountOperation::Bind(mount) => {
            let attributes = flag(mount.read_only, READ_ONLY)
                | flag(mount.no_exec, NO_EXEC)
                | flag(!mount.devices, NO_DEVICES);
            (b'b', &mount.target, attributes, vec![machine_path(&mount.source)?.to_vec()])
        }
        MountOperation::Overlay { target, lower, writable } => {
            let writable = writable.iter().flat_map(|(changes, work)| [changes, work]);
            let folders: Vec<Vec<u8>> = writable
                .clone()
                .chain(lower)
                .map(|folder| machine_path(folder).map(<[u8]>::to_vec))
                .collect::<Result<_>>()?;
            (b'o', target, writable.count() as u64, folders)
        }
        MountOperation::Proc { target } => (b'p', target, 0, Vec::new()),
        MountOperation::DevPts { target } => (b'y', target, 0, Vec::new()),
        MountOperation::Folder { path, mode } => (b'd', path, u64::from(*mode), Vec::new()),
        MountOperation::Symlink { path, to } => (b'l', path, 0, vec![text(to)?.to_vec()]),
        MountOperation::File { path, content, mode } => (b'f', path, u64::from(*mode), vec![content.clone()]),
        MountOperation::ReadOnly { target } => (b'r', target, 0, Vec::new()),
        MountOperation::Mask { path } => (b'x', path, 0, Vec::new()),
    };
    let mut bytes = vec![letter];
    put_field(&mut bytes, path(target)?)?;
    bytes.extend_from_slice(&number.to_le_bytes());
    fields.iter().try_for_each(|field| put_field(&mut bytes, field))?;
    Ok(bytes)
}

/// Records of a letter, a length and that many bytes.
#[derive(Default)]
struct Records(Vec<u8>);

impl Records {
    fn put(&mut self, letter: u8, value: &[u8]) -> Result<()> {
        self.0.push(letter);
        put_field(&mut self.0, value)
    }
}

fn put_field(bytes: &mut Vec<u8>, value: &[u8]) -> Result<()> {
    let too_long = |error| Error::new(ErrorKind::InvalidOption, "a value is too long").source(error);
    bytes.extend_from_slice(&u32::try_from(value.len()).map_err(too_long)?.to_le_bytes());
    bytes.extend_from_slice(value);
    Ok(())
}

fn text(text: &str) -> Result<&[u8]> {
    without_zero(OsStr::new(text))
}

/// An absolute path of the sandbox.
fn path(path: &str) -> Result<&[u8]> {
    machine_path(Path::new(path))
}

/// An absolute path, without a slash at its end.
fn machine_path(path: &Path) -> Result<&[u8]> {
    if !path.is_absolute() {
        let message = format!("the path `{}` is not absolute", path.display());
        return Err(Error::new(ErrorKind::InvalidOption, message));
    }
    let bytes = without_zero(path.as_os_str())?;
    let length = bytes.iter().rposition(|byte| *byte != b'/').map_or(1, |last| last + 1);
    Ok(bytes.get(..length).unwrap_or(bytes))
}

fn without_zero(text: &OsStr) -> Result<&[u8]> {
    let bytes = text.as_bytes();
    if bytes.contains(&0) {
        let shown = text.to_string_lossy().replace('\0', "\\0");
        return Err(Error::new(ErrorKind::InvalidOption, format!("`{shown}` contains a zero byte")));
    }
    Ok(bytes)
}
