//! Limits the disk space for the files that a sandbox changes in its root.
//!
//! Ordinary users cannot set quotas. Therefore the process that started the sandbox observes the free space of the file
//! system, which takes one system call, and examines the files only when the free space has shrunk by as much as the
//! sandbox may still use.

use std::{
    fs::{self, ReadDir},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use super::sandbox::SandboxProcess;

/// The most bytes that changed files may use.
const MAX_BYTES: u64 = 10 << 30;
/// The most files and folders that may be created or changed.
const MAX_FILES: u64 = 1_000_000;
/// Interval of the checks of the free space.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The deepest folder whose files are examined. Each level keeps a folder open.
const MAX_DEPTH: usize = 128;

/// The limit of one sandbox.
#[derive(Debug)]
pub(super) struct DiskLimit {
    /// The folder with the changes, or with a copy of the image and the changes.
    root: PathBuf,
    /// The layers of the image, if the folder has a copy of it.
    copied: Vec<PathBuf>,
    max: Usage,
    interval: Duration,
}

impl DiskLimit {
    /// The limit for a folder that contains changes, and copies of all files in the folders `copied`.
    pub(super) fn new(root: PathBuf, copied: Vec<PathBuf>) -> Self {
        Self { root, copied, max: Usage { bytes: MAX_BYTES, files: MAX_FILES }, interval: CHECK_INTERVAL }
    }

    #[cfg(test)]
    pub(super) fn with_max_bytes(mut self, bytes: u64) -> Self {
        self.max.bytes = bytes;
        self
    }

    /// Returns when the sandbox uses more than the limit: 10 GiB or a million files, or half of what was free when it
    /// was started, if that is less.
    pub(super) async fn exceeded(self) {
        // A start is not delayed.
        tokio::time::sleep(self.interval).await;
        let mut free = Usage::free(&self.root).unwrap_or(Usage::UNLIMITED);
        let mut used = self.used().await.unwrap_or_default();
        let limit = self.max.least(used.plus(free.half()));
        // After a restart, a sandbox may have used its share of a full disk already.
        while used.fits(limit) {
            // Near the limit, files are not examined at each check.
            let room = limit.minus(used).most(limit.sixteenth());
            let shrunk = loop {
                tokio::time::sleep(self.interval).await;
                // A file system whose space cannot be found out may have space again later.
                let Ok(now) = Usage::free(&self.root) else { continue };
                let shrunk = free.minus(now);
                if !shrunk.fits(room) {
                    free = now;
                    break shrunk;
                }
            };
            // Files that cannot be examined may be those that fill the disk.
            used = self.used().await.unwrap_or(used.plus(shrunk));
        }
    }

    /// Returns what the changes use; `None` if some files cannot be examined.
    async fn used(&self) -> Option<Usage> {
        let (root, copied, max) = (self.root.clone(), self.copied.clone(), self.max);
        let used = tokio::task::spawn_blocking(move || {
            let mut image = Usage::default();
            for layer in &copied {
                image = image.plus(Usage::of_folder(layer, Usage::UNLIMITED)?);
            }
            Usage::of_folder(&root, max.plus(image)).map(|used| used.minus(image))
        });
        used.await.ok()?.ok()
    }
}

/// Waits until a sandbox ends or exceeds its limit, and kills it then; returns whether it was killed.
pub(super) async fn kill_at(limit: Option<DiskLimit>, sandbox: &mut SandboxProcess) -> bool {
    let Some(limit) = limit else { return false };
    let is_exceeded = tokio::select! {
        _ = sandbox.wait() => false,
        () = limit.exceeded() => true,
    };
    if is_exceeded {
        sandbox.kill();
    }
    is_exceeded
}

/// Space on a file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Usage {
    bytes: u64,
    files: u64,
}

impl Usage {
    const UNLIMITED: Self = Self { bytes: u64::MAX, files: u64::MAX };

    /// What is free for ordinary users.
    fn free(path: &Path) -> io::Result<Self> {
        let status = rustix::fs::statvfs(path)?;
        // Some file systems do not limit the number of files.
        let files = if status.f_files == 0 { u64::MAX } else { status.f_favail };
        Ok(Self { bytes: status.f_bavail.saturating_mul(status.f_frsize), files })
    }

    /// What the files in a folder use, counted until `limit` is exceeded. A file with several names counts once for each.
    fn of_folder(folder: &Path, limit: Self) -> io::Result<Self> {
        let mut used = Self::default();
        let mut open: Vec<ReadDir> = vec![fs::read_dir(folder)?];
        while let Some(entries) = open.last_mut() {
            let Some(entry) = entries.next() else {
                open.pop();
                continue;
            };
            let entry = entry?;
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            used = used.plus(Self { bytes: metadata.blocks().saturating_mul(512), files: 1 });
            if !used.fits(limit) {
                break;
            }
            if metadata.is_dir() {
                if open.len() == MAX_DEPTH {
                    return Err(io::ErrorKind::Unsupported.into());
                }
                match fs::read_dir(entry.path()) {
                    Ok(entries) => open.push(entries),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(used)
    }

    fn fits(self, limit: Self) -> bool {
        self.bytes <= limit.bytes && self.files <= limit.files
    }

    fn plus(self, other: Self) -> Self {
        self.combine(other, u64::saturating_add)
    }

    fn minus(self, other: Self) -> Self {
        self.combine(other, u64::saturating_sub)
    }

    fn least(self, other: Self) -> Self {
        self.combine(other, u64::min)
    }

    fn most(self, other: Self) -> Self {
        self.combine(other, u64::max)
    }

    fn half(self) -> Self {
        Self { bytes: self.bytes / 2, files: self.files / 2 }
    }

    fn sixteenth(self) -> Self {
        Self { bytes: self.bytes / 16, files: self.files / 16 }
    }

    fn combine(self, other: Self, combine: fn(u64, u64) -> u64) -> Self {
        Self { bytes: combine(self.bytes, other.bytes), files: combine(self.files, other.files) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::with_timeout;

    fn limit(root: &Path, max: Usage) -> DiskLimit {
        DiskLimit { max, interval: Duration::from_millis(5), ..DiskLimit::new(root.to_owned(), Vec::new()) }
    }

    #[tokio::test]
    async fn changes_are_limited_in_size_and_number() {
        const MIB: usize = 1 << 20;
        for (max, size) in
            [(Usage { bytes: 16 << 20, files: 1000 }, MIB), (Usage { bytes: 1 << 30, files: 64 }, 1)]
        {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().join("root");
            fs::create_dir_all(root.join("a/b")).unwrap();
            if max.files < 1000 && Usage::free(&root).unwrap().files == u64::MAX {
                println!("skipped: this file system does not limit the number of files");
                continue;
            }
            let mut exceeded = std::pin::pin!(limit(&root, max).exceeded());
            let mut number = 0_usize;
            // The files of other programs on the same file system do not count.
            with_timeout(async {
                while futures_util::future::poll_immediate(&mut exceeded).await.is_none() {
                    fs::write(root.join(format!("a/b/{number}")), vec![1; size]).unwrap();
                    number += 1;
                    tokio::task::yield_now().await;
                }
            })
            .await;
            assert!(number > 10, "{number}");
        }
    }

    #[test]
    fn files_are_counted_until_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), vec![1; 5000]).unwrap();
        std::os::unix::fs::symlink("/", root.join("link")).unwrap();
        let used = Usage::of_folder(root, Usage::UNLIMITED).unwrap();
        assert!(used.files == 4 && used.bytes >= 5000, "{used:?}");
        let stopped = Usage::of_folder(root, Usage { files: 1, ..Usage::UNLIMITED }).unwrap();
        assert_eq!(stopped.files, 2);
        let deep: PathBuf = std::iter::repeat_n("d", MAX_DEPTH).collect();
        fs::create_dir_all(root.join(deep)).unwrap();
        Usage::of_folder(root, Usage::UNLIMITED).unwrap_err();
    }
}
