//! Limits the disk space and the number of the files that a sandbox changes in its root.
//!
//! Ordinary users cannot set quotas. Therefore the process that started the sandbox monitors the free space of the file
//! system, which takes one system call, and counts the files only when the free space has shrunk by about as much as
//! the sandbox may still use. This stops programs that write too much by mistake. Hostile programs can hide files, for
//! example by deleting files that they still use: only a read-only root prevents that.

use std::{
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat, statvfs},
    process::geteuid,
};

use super::sandbox::SandboxProcess;
use crate::{image::store::is_whole_root, state::ProcessId};

/// The most bytes that the changed files of a container may use.
const MAX_BYTES: u64 = 10 << 30;
/// The most bytes that a stage of a build may use, as for a whole image.
const MAX_BUILD_BYTES: u64 = 32 << 30;
/// The most files and folders that may be created or changed.
const MAX_FILES: u64 = 1_000_000;
/// Interval of the checks of the free space.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The deepest folder whose files are counted. Each level keeps a folder open.
const MAX_DEPTH: usize = 128;
const RECORD: &str = "disk-limit";

/// The limit of one sandbox.
#[derive(Debug)]
pub(super) struct DiskLimit {
    /// The folder with the changes, or with a copy of the image and the changes.
    root: PathBuf,
    /// The layers of the image, if the folder has a copy of it.
    copied: Vec<PathBuf>,
    /// The file with the limit that the first process of a container got; `None` for a build.
    record: Option<PathBuf>,
    max: Usage,
    interval: Duration,
}

impl DiskLimit {
    /// The limit of a container for a folder that contains changes, and copies of all files in the folders `copied`.
    pub(super) fn new(root: PathBuf, copied: Vec<PathBuf>) -> Self {
        let max = Usage { bytes: MAX_BYTES, files: MAX_FILES };
        let record = root.parent().map(|folder| folder.join(RECORD));
        Self { root, copied, record, max, interval: CHECK_INTERVAL }
    }

    /// The limit of a build.
    pub(super) fn of_build(mut self) -> Self {
        self.max.bytes = MAX_BUILD_BYTES;
        self.record = None;
        self
    }

    #[cfg(test)]
    pub(super) fn for_test(self, bytes: u64) -> Self {
        Self { max: Usage { bytes, ..self.max }, interval: Duration::from_millis(5), ..self }
    }

    /// Returns when the sandbox uses more than the limit.
    async fn exceeded(self) {
        // A start is not delayed.
        tokio::time::sleep(self.interval).await;
        let mut free = Usage::free(&self.root).unwrap_or(Usage::UNLIMITED);
        let mut used = self.used().await.unwrap_or_default();
        let limit = self.limit(used, free);
        while used.fits(limit) {
            // Near the limit, files are not counted at each check.
            let room = limit.subtract(used).max(limit.sixteenth());
            loop {
                tokio::time::sleep(self.interval).await;
                // If the free space cannot be read, the next check tries again.
                let Ok(now) = Usage::free(&self.root) else { continue };
                if !free.subtract(now).fits(room) {
                    free = now;
                    break;
                }
                free = free.max(now);
            }
            used = self.used().await.unwrap_or(used);
        }
    }

    /// Returns the limit, which is at most half of what was free when the container was first started, so that a restart
    /// gives it no further share.
    fn limit(&self, used: Usage, free: Usage) -> Usage {
        let recorded = self.record.as_ref().and_then(|record| fs::read_to_string(record).ok());
        let recorded = recorded.and_then(|text| {
            let (bytes, files) = text.split_once(' ')?;
            Some(Usage { bytes: bytes.parse().ok()?, files: files.parse().ok()? })
        });
        let half = recorded.unwrap_or_else(|| {
            let half = used.add(free).half();
            if let Some(record) = &self.record
                && let Err(error) = fs::write(record, format!("{} {}", half.bytes, half.files))
            {
                tracing::warn!(%error, path = %record.display(), "a limit of disk space cannot be recorded");
            }
            half
        });
        self.max.min(half)
    }

    /// Returns what the changes use; `None` if a folder cannot be opened.
    async fn used(&self) -> Option<Usage> {
        let (root, copied, max) = (self.root.clone(), self.copied.clone(), self.max);
        let counting = tokio::task::spawn_blocking(move || {
            let first = copied.iter().rposition(|layer| is_whole_root(layer)).unwrap_or_default();
            let mut image = Usage::default();
            for layer in &copied[first..] {
                image = image.add(Usage::of_folder(layer, Usage::UNLIMITED)?);
            }
            Usage::of_folder(&root, max.add(image)).map(|used| used.subtract(image))
        });
        counting.await.ok()?.ok()
    }
}

/// Waits until a sandbox has ended, or kills it when it exceeds its limit; returns whether it was killed.
pub(super) async fn enforce(limit: Option<DiskLimit>, sandbox: &mut SandboxProcess) -> bool {
    let Some(limit) = limit else { return false };
    let first = ProcessId::of(sandbox.pid());
    tokio::select! {
        biased;
        _ = sandbox.wait() => return false,
        () = limit.exceeded() => {}
    }
    sandbox.kill();
    // A process that had ended when it was examined has no start time, and its id may belong to another one by now.
    if first.start_time.is_some()
        && let Err(error) = first.kill()
    {
        tracing::warn!(%error, "a sandbox that uses too much disk space cannot be killed directly");
    }
    true
}

/// Space on a file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Usage {
    bytes: u64,
    files: u64,
}

impl Usage {
    const UNLIMITED: Self = Self { bytes: u64::MAX, files: u64::MAX };

    /// What is free for this user. Root can also use what is reserved for it.
    fn free(path: &Path) -> io::Result<Self> {
        let status = statvfs(path)?;
        // Some file systems do not limit the number of files.
        let files = if status.f_files == 0 { u64::MAX } else { status.f_favail };
        let blocks = if geteuid().is_root() { status.f_bfree } else { status.f_bavail };
        Ok(Self { bytes: blocks.saturating_mul(status.f_frsize), files })
    }

    /// What the files in a folder use, counted until `limit` is exceeded. Folders in it that cannot be read are skipped,
    /// and no link is followed.
    fn of_folder(folder: &Path, limit: Self) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let top: OwnedFd = openat(CWD, folder, flags, Mode::empty())?;
        let mut levels = vec![Dir::new(top)?];
        let mut used = Self::default();
        while used.fits(limit)
            && let Some(folder) = levels.last_mut()
        {
            let Some(Ok(entry)) = folder.next() else {
                levels.pop();
                continue;
            };
            let name = entry.file_name();
            if [c".", c".."].contains(&name) {
                continue;
            }
            let Ok(status) = folder.fd().and_then(|folder| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW))
            else {
                continue;
            };
            let is_folder = FileType::from_raw_mode(status.st_mode) == FileType::Directory;
            // Each name of a file counts for its part.
            #[cfg_attr(
                target_arch = "x86_64",
                expect(clippy::useless_conversion, reason = "other architectures have a smaller type")
            )]
            let names = if is_folder { 1 } else { u64::from(status.st_nlink).max(1) };
            let bytes = u64::try_from(status.st_blocks).unwrap_or_default().saturating_mul(512) / names;
            used = used.add(Self { bytes, files: 1 });
            if is_folder && levels.len() < MAX_DEPTH {
                let below = levels.last().and_then(|folder| {
                    let opened = openat(folder.fd().ok()?, name, flags, Mode::empty()).ok()?;
                    Dir::new(opened).ok()
                });
                levels.extend(below);
            }
        }
        Ok(used)
    }

    fn fits(self, limit: Self) -> bool {
        self.bytes <= limit.bytes && self.files <= limit.files
    }

    fn add(self, other: Self) -> Self {
        self.combine(other, u64::saturating_add)
    }

    fn subtract(self, other: Self) -> Self {
        self.combine(other, u64::saturating_sub)
    }

    fn min(self, other: Self) -> Self {
        self.combine(other, u64::min)
    }

    fn max(self, other: Self) -> Self {
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
    use std::fs;

    use futures_util::future::poll_immediate;

    use super::*;
    use crate::testing::with_timeout;

    fn limit(root: &Path, max: Usage) -> DiskLimit {
        DiskLimit { max, ..DiskLimit::new(root.to_owned(), Vec::new()).for_test(0) }
    }

    #[tokio::test]
    async fn changes_are_limited_in_size_and_number() {
        for (max, size) in
            [(Usage { bytes: 16 << 20, files: 1000 }, 1 << 20), (Usage { bytes: 1 << 30, files: 64 }, 1)]
        {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().join("root");
            fs::create_dir_all(root.join("a/b")).unwrap();
            if size == 1 && Usage::free(&root).unwrap().files == u64::MAX {
                println!("skipped: this file system does not limit the number of files");
                continue;
            }
            let mut exceeded = std::pin::pin!(limit(&root, max).exceeded());
            let mut number = 0_u64;
            with_timeout(async {
                while poll_immediate(&mut exceeded).await.is_none() {
                    // A file of another program does not count.
                    fs::write(folder.path().join("other"), vec![1; size]).unwrap();
                    fs::write(root.join(format!("a/b/{number}")), vec![1; size]).unwrap();
                    number += 1;
                    tokio::task::yield_now().await;
                }
            })
            .await;
            assert!(number >= max.files.min(max.bytes / size as u64) / 2, "{number}");
        }
    }

    #[tokio::test]
    async fn a_restarted_sandbox_gets_no_further_share() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        fs::write(folder.path().join("root/file"), vec![1; 1 << 20]).unwrap();
        // More than the limit was used before the restart.
        let root = folder.path().join("root");
        with_timeout(limit(&root, Usage { bytes: 1 << 19, files: 1000 }).exceeded()).await;
        with_timeout(limit(&root, Usage { bytes: 1 << 30, files: 0 }).exceeded()).await;
        // Half of what was free at the first start, also when less is free later.
        let second = folder.path().join("second/root");
        fs::create_dir_all(&second).unwrap();
        let of = |free| {
            limit(&second, Usage::UNLIMITED).limit(Usage::default(), Usage { bytes: free, files: free })
        };
        assert_eq!([of(100), of(50)], [Usage { bytes: 50, files: 50 }; 2]);
        let build = DiskLimit::new(second.clone(), Vec::new()).of_build();
        assert_eq!(
            build.limit(Usage::default(), Usage { bytes: 20, files: 20 }),
            Usage { bytes: 10, files: 10 }
        );
        // The files of an image that was copied do not count.
        let copied = vec![root.clone()];
        let copy = DiskLimit { copied, ..limit(&root, Usage { bytes: 0, files: 0 }) };
        assert_eq!(copy.used().await, Some(Usage::default()));
        assert_eq!(limit(&folder.path().join("missing"), Usage::UNLIMITED).used().await, None);
    }

    #[test]
    fn files_are_counted_until_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), vec![1; 1 << 20]).unwrap();
        std::os::unix::fs::symlink("/", root.join("link")).unwrap();
        let used = Usage::of_folder(root, Usage::UNLIMITED).unwrap();
        assert!(used.files == 4 && used.bytes >= 1 << 20, "{used:?}");
        // A second name takes no space.
        fs::hard_link(root.join("a/b/file"), root.join("name")).unwrap();
        let with_name = Usage::of_folder(root, Usage::UNLIMITED).unwrap();
        assert!(with_name.files == 5 && with_name.bytes < used.bytes + (1 << 19), "{with_name:?}");
        let stopped = Usage::of_folder(root, Usage { files: 1, ..Usage::UNLIMITED }).unwrap();
        assert_eq!(stopped.files, 2);
        let deep: PathBuf = std::iter::repeat_n("d", 2 * MAX_DEPTH).collect();
        fs::create_dir_all(root.join(deep)).unwrap();
        assert_eq!(Usage::of_folder(root, Usage::UNLIMITED).unwrap().files, 5 + MAX_DEPTH as u64);
    }
}
