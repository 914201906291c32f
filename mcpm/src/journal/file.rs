//! A file that lines are appended to, and that is put aside when it is large.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use super::Sink;

/// When a file is put aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rotation {
    /// Bytes that it has at most.
    pub(crate) size: u64,
    /// How many are kept beside it; the oldest goes.
    pub(crate) count: u32,
}

/// The file. The one before it is `NAME.1`, the one before that `NAME.2`.
#[derive(Debug)]
pub(crate) struct RotatingFile {
    path: PathBuf,
    rotation: Rotation,
    file: File,
    size: u64,
    /// Only a file can be put aside, and no device.
    regular: bool,
    /// Whether the last line may be broken off.
    torn: bool,
    /// Whether it was said that it cannot be put aside.
    stuck: bool,
}

/// Where an older file is.
pub(crate) fn older(path: &Path, number: u32) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

impl RotatingFile {
    /// Opens the file, or makes it for its owner alone.
    pub(crate) fn open(path: PathBuf, rotation: Rotation) -> io::Result<Self> {
        let (file, size, regular) = open(&path)?;
        let torn = regular && size > 0 && is_torn(&path, size);
        Ok(Self { path, rotation, file, size, regular, torn, stuck: false })
    }

    /// Has an own file open that has room for that many bytes more, as far as it can be put aside.
    fn make_room(&mut self, more: u64) -> io::Result<()> {
        if !self.regular {
            return Ok(());
        }
        if !self.is_current() {
            // Somebody else put it aside, or it was here and could not be opened anew. What is at the path meanwhile
            // is not ours to put aside, and what is written to the old file would soon be gone.
            self.reopen()?;
        }
        if self.size > 0 && self.size + more > self.rotation.size {
            match self.rotate() {
                Ok(()) => self.reopen()?,
                Err(error) => self.complain(&error),
            }
        }
        Ok(())
    }

    fn complain(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.stuck, true) {
            let path = self.path.display();
            tracing::error!(%error, %path, "a file cannot be put aside; it is written on as it is");
        }
    }

    /// Whether the path still leads to the file.
    fn is_current(&self) -> bool {
        let (Ok(found), Ok(own)) = (fs::metadata(&self.path), self.file.metadata()) else { return false };
        (found.dev(), found.ino()) == (own.dev(), own.ino())
    }

    fn rotate(&self) -> io::Result<()> {
        let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        // After one that was begun and failed there is a gap: older ones need not move again.
        let is_there = |number: &u32| fs::symlink_metadata(older(&self.path, *number)).is_ok();
        let last = (1..self.rotation.count).take_while(is_there).last().unwrap_or_default();
        for number in (1..=last).rev() {
            match fs::rename(older(&self.path, number), older(&self.path, number + 1)) {
                Err(error) if !gone(&error) => return Err(error),
                _ => {}
            }
        }
        match self.rotation.count {
            0 => fs::remove_file(&self.path),
            _ => fs::rename(&self.path, older(&self.path, 1)),
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        (self.file, self.size, self.regular) = open(&self.path)?;
        self.torn = self.regular && self.size > 0 && is_torn(&self.path, self.size);
        self.stuck = false;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<(File, u64, bool)> {
    // A pipe that nobody reads must not be waited for.
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let flags = i32::try_from(flags).unwrap_or_default();
    let file = OpenOptions::new().create(true).append(true).mode(0o600).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() && !found.file_type().is_char_device() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    Ok((file, found.len(), found.is_file()))
}

/// Whether the last line has no end: whoever wrote it was ended in the middle of it.
fn is_torn(path: &Path, size: u64) -> bool {
    let mut last = [0];
    // What may not be read is taken for whole.
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut last, size - 1));
    read.is_ok() && last != *b"\n"
}

impl Sink for RotatingFile {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.make_room(lines.len() as u64)?;
        if self.torn {
            self.file.write_all(b"\n")?;
            (self.torn, self.size) = (false, self.size + 1);
        }
        match self.file.write_all(lines) {
            Ok(()) => {
                self.size += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Some of it may be there.
                let size = self.file.metadata().map_or(self.size, |found| found.len());
                (self.torn, self.size) = (size != self.size, size);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn a_file_is_put_aside_at_its_size_and_the_oldest_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut file = RotatingFile::open(path.clone(), Rotation { size: 10, count: 2 }).expect("a file");
        for line in ["1234\n", "567\n", "89\n", "a line that is longer\n", "b\n", "c\n"] {
            file.write(line.as_bytes()).expect("room");
        }
        assert_eq!(text(&path), "b\nc\n");
        assert_eq!(text(&older(&path, 1)), "a line that is longer\n");
        assert_eq!(text(&older(&path, 2)), "89\n");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3);
        for file in [path.clone(), older(&path, 2)] {
            assert_eq!(fs::metadata(file).expect("a file").mode() & 0o777, 0o600);
        }
        // What others put aside is not written on, and neither is one begun anew when opened again.
        fs::rename(&path, folder.path().join("taken")).expect("a file");
        file.write(b"d\n").expect("room");
        let mut again = RotatingFile::open(path.clone(), Rotation { size: 10, count: 2 }).expect("a file");
        again.write(b"e\n").expect("room");
        assert_eq!(text(&path), "d\ne\n");
    }

    #[test]
    fn what_cannot_be_opened_anew_fails_and_costs_no_older_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut file = RotatingFile::open(path.clone(), Rotation { size: 3, count: 3 }).expect("a file");
        for line in ["1\n", "2\n", "3\n"] {
            file.write(line.as_bytes()).expect("room");
        }
        // What stands in its place is no file.
        fs::rename(&path, folder.path().join("taken")).expect("a file");
        fs::create_dir(&path).expect("a folder");
        for line in ["4\n", "5\n", "6\n"] {
            file.write(line.as_bytes()).expect_err("no file");
        }
        assert_eq!((text(&older(&path, 1)), text(&older(&path, 2))), ("2\n".to_owned(), "1\n".to_owned()));
        fs::remove_dir(&path).expect("a folder");
        file.write(b"7\n").expect("room");
        assert_eq!(text(&path), "7\n");
        // One that cannot be put aside, however often that is tried.
        let mut other = RotatingFile::open(path.clone(), Rotation { size: 3, count: 2 }).expect("a file");
        fs::remove_file(older(&path, 1)).expect("a file");
        fs::create_dir(older(&path, 1)).expect("a folder");
        fs::remove_file(older(&path, 2)).expect("a file");
        fs::create_dir_all(older(&path, 2).join("full")).expect("a folder");
        other.write(b"8\n").expect("it is written on");
        assert_eq!(text(&path), "7\n8\n");
    }

    #[test]
    fn after_a_line_that_was_broken_off_a_new_one_begins() {
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
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a pipe");
        RotatingFile::open(pipe, rotation).expect_err("a pipe is no file");
        let mut full = RotatingFile::open("/dev/full".into(), rotation).expect("a device");
        full.write(b"0123456789abcdef\n").expect_err("it is full");
    }
}
