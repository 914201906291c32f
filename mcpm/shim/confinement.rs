//! Restricts the server's process more than its sandbox does: with Landlock and filters of system calls.
//!
//! The restrictions are installed in the server's process directly before its program starts. So they do not apply to
//! the shim, which inspects and redirects the server's connections.

use alloc::vec::Vec;

use crate::{
    START_FAILED,
    failure::{Result, failed},
    report::Step,
    sys::{self, Errno, Fd, Landlock, decimal},
};

/// Prints the version of Landlock that the kernel supports, or the negated number of the kernel's error: the command
/// `landlock` of the shim. Returns its exit code.
pub(crate) fn print_landlock_version() -> i32 {
    let mut text = Vec::new();
    match Landlock::query_version() {
        Ok(version) => decimal(&mut text, version),
        Err(Errno(number)) => {
            text.push(b'-');
            decimal(&mut text, number as u32);
        }
    }
    sys::write_all(&Fd(1), &text).map_or(START_FAILED, |()| 0)
}

/// The restrictions of a server.
pub(crate) struct Confinement<'a> {
    landlock: Option<Landlock>,
    writable: &'a [Vec<u8>],
    filters: &'a [Vec<u8>],
}

impl<'a> Confinement<'a> {
    pub(crate) fn new(writable: &'a [Vec<u8>], filters: &'a [Vec<u8>]) -> Self {
        Self { landlock: Landlock::detect(), writable, filters }
    }

    /// Returns the version of Landlock that restricts the server; 0 if the kernel has none.
    pub(crate) fn landlock_version(&self) -> u32 {
        self.landlock.map_or(0, Landlock::version)
    }

    /// Restricts this process. If that fails, the server must not run.
    pub(crate) fn install(&self) -> Result<()> {
        // This process is a copy of the shim, which cannot be inspected. It must be inspectable, so that the shim can
        // redirect the server's connections.
        sys::set_inspectable(true).map_err(failed(Step::Start, b""))?;
        if let Some(landlock) = self.landlock {
            self.restrict_files(landlock)?;
        }
        for filter in self.filters {
            sys::install_filter(filter).map_err(failed(Step::RestrictCalls, b""))?;
        }
        Ok(())
    }

    fn restrict_files(&self, landlock: Landlock) -> Result<()> {
        let step = |path| failed(Step::RestrictFiles, path);
        let rules = landlock.create().map_err(step(b""))?;
        let root = sys::open_place(b"/\0").map_err(step(b"/"))?;
        rules.allow_reading(&root).map_err(step(b"/"))?;
        for path in self.writable {
            let place = match sys::open_place(path) {
                Err(Errno::NOT_FOUND) => continue,
                place => place.map_err(step(path))?,
            };
            rules.allow_writing(&place).map_err(step(path))?;
        }
        rules.restrict_process().map_err(step(b""))
    }
}
