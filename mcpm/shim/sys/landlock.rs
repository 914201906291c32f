//! Landlock: restricts the files that a process and its children can use and, since version 6, their signals and
//! connections to abstract sockets.

use super::{Errno, Fd, Result, call, number, opened};

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_FOLDER: u64 = 1 << 3;
const TRUNCATE: u64 = 1 << 14;
const DEVICE_CONTROL: u64 = 1 << 15;
/// Rights that a rule may give on a file that is no folder.
const ON_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICE_CONTROL;

/// The rights that a kernel knows, and the sizes of its structures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Landlock {
    version: u32,
}

impl Landlock {
    /// The first version that can allow programs to move files between folders, which they need.
    const MIN_VERSION: u32 = 2;

    /// Returns what the kernel supports, if that is sufficient.
    pub(crate) fn detect() -> Option<Self> {
        let version = Self::query_version().ok()?;
        Some(Self { version }).filter(|found| found.version >= Self::MIN_VERSION)
    }

    /// Returns the version of the kernel's interface, also if it is not sufficient.
    pub(crate) fn query_version() -> Result<u32> {
        const QUERY_VERSION: usize = 1;
        // SAFETY: no structure is read.
        unsafe { call(number::LANDLOCK_CREATE_RULESET, [0, 0, QUERY_VERSION, 0, 0, 0]) }
            .map(|version| version as u32)
    }

    /// Returns the version of the kernel's interface.
    pub(crate) fn version(self) -> u32 {
        self.version
    }

    fn file_rights(self) -> u64 {
        let count = match self.version {
            0..=1 => 13,
            2 => 14,
            3..=4 => 15,
            _ => 16,
        };
        (1 << count) - 1
    }

    /// Returns a set without rules. On kernels that support it, the set also confines signals and connections to
    /// abstract sockets to its processes.
    pub(crate) fn create(self) -> Result<Ruleset> {
        const ABSTRACT_SOCKETS_AND_SIGNALS: u64 = 0x1 | 0x2;
        let scoped = if self.version >= 6 { ABSTRACT_SOCKETS_AND_SIGNALS } else { 0 };
        let attributes = [self.file_rights(), 0, scoped];
        let size = match self.version {
            0..=3 => 8,
            4..=5 => 16,
            _ => 24,
        };
        let args = [attributes.as_ptr() as usize, size, 0, 0, 0, 0];
        // SAFETY: the kernel reads a structure of that size there.
        unsafe { call(number::LANDLOCK_CREATE_RULESET, args) }
            .map(|file| Ruleset { file: opened(file), rights: self.file_rights() })
    }
}

/// What a process may do; everything else with files is denied.
pub(crate) struct Ruleset {
    file: Fd,
    rights: u64,
}

impl Ruleset {
    /// Allows to read and execute what is at and below a file.
    pub(crate) fn allow_reading(&self, place: &Fd) -> Result<()> {
        self.allow(place, EXECUTE | READ_FILE | READ_FOLDER)
    }

    /// Allows everything at and below a file.
    pub(crate) fn allow_writing(&self, place: &Fd) -> Result<()> {
        match self.allow(place, self.rights) {
            // `place` is not a folder.
            Err(Errno::INVALID) => self.allow(place, self.rights & ON_FILES),
            result => result,
        }
    }

    fn allow(&self, place: &Fd, rights: u64) -> Result<()> {
        const PATH_BENEATH: usize = 1;
        #[repr(C, packed)]
        struct Rule {
            rights: u64,
            place: i32,
        }
        let rule = Rule { rights, place: place.0 };
        let args = [self.file.arg(), PATH_BENEATH, &raw const rule as usize, 0, 0, 0];
        // SAFETY: the kernel reads a structure of that size there.
        unsafe { call(number::LANDLOCK_ADD_RULE, args) }.map(drop)
    }

    /// Restricts this process and its future children, which gain no privileges from programs.
    pub(crate) fn restrict_process(self) -> Result<()> {
        // SAFETY: the call takes no pointer.
        unsafe { call(number::LANDLOCK_RESTRICT_SELF, [self.file.arg(), 0, 0, 0, 0, 0]) }.map(drop)
    }
}
