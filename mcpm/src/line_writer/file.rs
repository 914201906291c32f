//! Appends lines to a file, and rotates the file.
//!
//! Several processes may write to one file: each locks it while it writes, and only the process that has locked the
//! file at the path rotates it.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use super::sink::{LineSink, MAX_BATCH_BYTES};
use crate::platform::{self, with_mode, without_waiting};

/// When a file is rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rotation {
    /// Maximum size of the file in bytes.
    pub(crate) size: u64,
    /// Number of rotated files that are kept.
    pub(crate) count: u32,
}

/// The file `NAME` with its rotated files `NAME.1`, `NAME.2` and so on, the newest first.
#[derive(Debug)]
pub(crate) struct RotatingFile {
    path: PathBuf,
    rotation: Rotation,
    file: File,
    /// Whether the file is a regular file; a device cannot be rotated.
    regular: bool,
    /// The size up to which all lines are known to be complete.
    intact_size: u64,
    /// Whether a failed rotation was logged.
    rotation_failed: bool,
}

/// Returns the path of a rotated file.
pub(crate) fn rotated_path(path: &Path, number: u32) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

impl RotatingFile {
    /// Opens the file, or creates it with access for its owner only.
    pub(crate) fn open(path: PathBuf, rotation: Rotation) -> io::Result<Self> {
        let (file, regular) = open(&path)?;
        Ok(Self { path, rotation, file, regular, intact_size: 0, rotation_failed: false })
    }

    /// Locks the file at the path, and returns its size.
    ///
    /// The file is reopened if another process, or another program, has rotated it.
    fn lock_current(&mut self) -> io::Result<u64> {
        loop {
            lock(&self.file)?;
            if let Some(size) = self.current_size() {
                return Ok(size);
            }
            self.reopen()?;
            if !self.regular {
                return Ok(0);
            }
        }
    }

    /// Locks the file and returns its size. If `more` bytes do not fit into the file, it is rotated first, if possible.
    fn make_room(&mut self, more: u64) -> io::Result<u64> {
        loop {
            let size = self.lock_current()?;
            if size == 0 || size + more <= self.rotation.size || !self.regular {
                return Ok(size);
            }
            if let Err(error) = self.rotate() {
                self.report_rotation_error(&error);
                return Ok(size);
            }
        }
    }

    fn report_rotation_error(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.rotation_failed, true) {
            let path = self.path.display();
            tracing::error!(%error, %path, "cannot rotate a file; lines are still appended to it");
        }
    }

    /// Returns the size of the file, if it is still the one at the path.
    fn current_size(&self) -> Option<u64> {
        let is_current = platform::is_same_file(&self.path, &self.file).ok()?;
        if is_current { self.file.metadata().ok().map(|own| own.len()) } else { None }
    }

    fn rotate(&self) -> io::Result<()> {
        let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        // If an earlier rotation failed halfway, a number is unused, and older files need not be renamed again.
        let is_there = |number: &u32| fs::symlink_metadata(rotated_path(&self.path, *number)).is_ok();
        let last = (1..self.rotation.count).take_while(is_there).last().unwrap_or_default();
        for number in (1..=last).rev() {
            match fs::rename(rotated_path(&self.path, number), rotated_path(&self.path, number + 1)) {
                Err(error) if !gone(&error) => return Err(error),
                _ => {}
            }
        }
        match self.rotation.count {
            0 => fs::remove_file(&self.path),
            _ => fs::rename(&self.path, rotated_path(&self.path, 1)),
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        (self.file, self.regular) = open(&self.path)?;
        (self.intact_size, self.rotation_failed) = (0, false);
        Ok(())
    }

    /// Appends lines, while the file is locked.
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let size = self.make_room(lines.len() as u64)?;
        // Another process may have written to the file meanwhile, and may have been killed in the middle of a line.
        let torn = size > self.intact_size && is_torn(&self.path, size);
        let begin = if torn { &b"\n"[..] } else { b"" };
        match self.file.write_all(begin).and_then(|()| self.file.write_all(lines)) {
            Ok(()) => {
                self.intact_size = size + (begin.len() + lines.len()) as u64;
                Ok(())
            }
            Err(error) => {
                // A part of the lines may have been written. If it cannot be removed either, the next write begins a
                // new line.
                if self.regular {
                    let _ = self.file.set_len(size);
                }
                Err(error)
            }
        }
    }
}

/// Locks the file against other processes until it is unlocked or closed.
fn lock(file: &File) -> io::Result<()> {
    let locked = file.lock();
    // A file system without locks is assumed not to be used by several processes.
    if locked.as_ref().is_err_and(platform::has_no_locks) { Ok(()) } else { locked }
}

fn open(path: &Path) -> io::Result<(File, bool)> {
    // Opening a pipe without a reader must not block.
    let mut options = OpenOptions::new();
    let file = without_waiting(with_mode(options.create(true).append(true), 0o600)).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() && !platform::is_char_device(&found) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok((file, found.is_file()))
}

/// Whether the last line is incomplete, because its writer was killed.
fn is_torn(path: &Path, size: u64) -> bool {
    let mut last = [0];
    // A file that cannot be read counts as complete.
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(size - 1))?;
        file.read_exact(&mut last)
    });
    read.is_ok() && last != *b"\n"
}

impl LineSink for RotatingFile {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if !self.regular {
            return self.file.write_all(lines);
        }
        let written = self.append(lines);
        // Other processes wait for the lock. Unlocking an open file cannot fail.
        let _ = self.file.unlock();
        written
    }

    fn max_batch_bytes(&self) -> usize {
        // A batch of lines is no larger than the room in the file, so that the file is rotated only when it is full.
        let room = self.rotation.size.saturating_sub(self.intact_size);
        usize::try_from(room).map_or(MAX_BATCH_BYTES, |room| room.min(MAX_BATCH_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn a_file_is_rotated_at_its_size_limit_and_the_oldest_deleted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut file = RotatingFile::open(path.clone(), Rotation { size: 10, count: 2 }).expect("a file");
        for line in ["1234\n", "567\n", "89\n", "a line that is longer\n", "b\n", "c\n"] {
            file.write(line.as_bytes()).expect("room");
        }
        assert_eq!(text(&path), "b\nc\n");
        assert_eq!(text(&rotated_path(&path, 1)), "a line that is longer\n");
        assert_eq!(text(&rotated_path(&path, 2)), "89\n");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3);
        for file in [path.clone(), rotated_path(&path, 2)] {
            assert_eq!(fs::metadata(file).expect("a file").mode() & 0o777, 0o600);
        }
        // If another program has moved the file, lines are written to a new file, also after a reopen.
        fs::rename(&path, folder.path().join("taken")).expect("a file");
        file.write(b"d\n").expect("room");
        let mut again = RotatingFile::open(path.clone(), Rotation { size: 10, count: 2 }).expect("a file");
        again.write(b"e\n").expect("room");
        assert_eq!(text(&path), "d\ne\n");
    }

    #[test]
    fn a_failed_reopen_deletes_no_rotated_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut file = RotatingFile::open(path.clone(), Rotation { size: 3, count: 3 }).expect("a file");
        for line in ["1\n", "2\n", "3\n"] {
            file.write(line.as_bytes()).expect("room");
        }
        // The path is now a folder, so the file cannot be reopened.
        fs::rename(&path, folder.path().join("taken")).expect("a file");
        fs::create_dir(&path).expect("a folder");
        for line in ["4\n", "5\n", "6\n"] {
            file.write(line.as_bytes()).expect_err("no file");
        }
        assert_eq!(
            (text(&rotated_path(&path, 1)), text(&rotated_path(&path, 2))),
            ("2\n".to_owned(), "1\n".to_owned())
        );
        fs::remove_dir(&path).expect("a folder");
        file.write(b"7\n").expect("room");
        assert_eq!(text(&path), "7\n");
        // This file cannot be rotated, because the rotated files are folders.
        let mut other = RotatingFile::open(path.clone(), Rotation { size: 3, count: 2 }).expect("a file");
        fs::remove_file(rotated_path(&path, 1)).expect("a file");
        fs::create_dir(rotated_path(&path, 1)).expect("a folder");
        fs::remove_file(rotated_path(&path, 2)).expect("a file");
        fs::create_dir_all(rotated_path(&path, 2).join("full")).expect("a folder");
        other.write(b"8\n").expect("it is written on");
        assert_eq!(text(&path), "7\n8\n");
    }

    #[test]
    fn a_torn_line_is_terminated_before_the_next_write() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        for (before, after) in [("", "a\n"), ("whole\n", "whole\na\n"), ("bro", "bro\na\n")] {
            fs::write(&path, before).expect("a file");
            let rotation = Rotation { size: 100, count: 0 };
            let mut file = RotatingFile::open(path.clone(), rotation).expect("a file");
            file.write(b"a\n").expect("room");
            assert_eq!(text(&path), after);
        }
    }

    #[test]
    fn several_writers_lose_no_line_and_break_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let rotation = Rotation { size: 2000, count: 1000 };
        let write = |writer: usize| {
            let mut file = RotatingFile::open(path.clone(), rotation).expect("a file");
            for number in 0..500 {
                let line = format!("{writer} {number} {}\n", "x".repeat(number % 90));
                file.write(line.as_bytes()).expect("room");
            }
        };
        std::thread::scope(|scope| {
            for writer in 0..4 {
                scope.spawn(move || write(writer));
            }
        });
        let mut found: Vec<String> = Vec::new();
        for file in fs::read_dir(folder.path()).expect("a folder").map(|file| file.expect("a file").path()) {
            let text = text(&file);
            assert!(text.len() <= 2000 && text.ends_with('\n'), "{}: {}", file.display(), text.len());
            found.extend(text.lines().map(str::to_owned));
        }
        let numbers = (0..4).flat_map(|writer| (0..500).map(move |number| (writer, number)));
        let mut expected: Vec<String> = numbers
            .map(|(writer, number)| format!("{writer} {number} {}", "x".repeat(number % 90)))
            .collect();
        found.sort();
        expected.sort();
        assert!(found == expected, "{} of {} lines", found.len(), expected.len());
    }

    #[test]
    fn without_older_files_none_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut file = RotatingFile::open(path.clone(), Rotation { size: 3, count: 0 }).expect("a file");
        for line in ["1\n", "2\n", "3\n"] {
            file.write(line.as_bytes()).expect("room");
        }
        assert_eq!(text(&path), "3\n");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn what_is_no_file_is_refused_and_a_full_device_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let rotation = Rotation { size: 10, count: 2 };
        RotatingFile::open(folder.path().to_owned(), rotation).expect_err("a folder is no file");
        let pipe = folder.path().join("pipe");
        crate::testing::make_pipe(&pipe);
        RotatingFile::open(pipe, rotation).expect_err("a pipe is no file");
        let mut full = RotatingFile::open("/dev/full".into(), rotation).expect("a device");
        full.write(b"0123456789abcdef\n").expect_err("it is full");
    }
}
