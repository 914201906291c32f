//! Reads a file that another process appends to and rotates: `NAME` is renamed to `NAME.1`, and a new `NAME` is
//! created. Only these two files are read.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use super::file::{file_error, is_same_file};
use crate::{Result, line_writer::rotated_path};

/// A reader of the file and of its predecessor.
#[derive(Debug)]
pub(crate) struct RotatedFile {
    path: PathBuf,
    previous: PathBuf,
    /// The file that was read last, up to its present end.
    file: Option<File>,
    /// The file that was read before that one.
    earlier: Option<File>,
}

/// The data that was added since the last call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AddedData {
    /// The continuation of the file whose beginning the last call returned.
    pub(crate) continued: Vec<u8>,
    /// The files that were begun since then, oldest first.
    pub(crate) files: Vec<Vec<u8>>,
}

impl AddedData {
    /// Returns all of it, oldest first.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        let Self { mut continued, files } = self;
        files.iter().for_each(|file| continued.extend_from_slice(file));
        continued
    }
}

impl RotatedFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        let previous = rotated_path(&path, 1);
        Self { path, previous, file: None, earlier: None }
    }

    /// Returns the data that was added since the last call, or all data at the first call. If the file was rotated more
    /// than once in between, the data that is gone is left out.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn read(&mut self) -> Result<AddedData> {
        self.read_added().map_err(|error| file_error("read", &self.path, error))
    }

    fn read_added(&mut self) -> io::Result<AddedData> {
        let mut added = AddedData::default();
        let begun = self.begun_files()?;
        if let Some(file) = &mut self.file {
            file.read_to_end(&mut added.continued)?;
        }
        for mut file in begun {
            let mut data = Vec::new();
            file.read_to_end(&mut data)?;
            added.files.push(data);
            self.earlier = self.file.replace(file);
        }
        Ok(added)
    }

    /// Opens the files that were begun after the file that was read last, oldest first.
    fn begun_files(&self) -> io::Result<Vec<File>> {
        loop {
            if is_at(&self.path, self.file.as_ref()) {
                return Ok(Vec::new());
            }
            let current = open(&self.path)?;
            let is_read = [&self.file, &self.earlier].iter().any(|file| is_at(&self.previous, file.as_ref()));
            let previous = if is_read { None } else { open(&self.previous)? };
            let is_unchanged = match &current {
                Some(file) => is_same_file(&self.path, file)?,
                None => !self.path.exists(),
            };
            // After a rotation in between, these need not be the last two files.
            if is_unchanged {
                return Ok(previous.into_iter().chain(current).collect());
            }
        }
    }
}

/// Whether the opened file is at this path.
fn is_at(path: &Path, file: Option<&File>) -> bool {
    file.is_some_and(|file| is_same_file(path, file).unwrap_or(false))
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, OpenOptions},
        io::Write as _,
        thread,
    };

    use super::*;

    /// A log with a reader.
    struct Log {
        folder: tempfile::TempDir,
        reader: RotatedFile,
    }

    impl Log {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let reader = RotatedFile::new(folder.path().join("log"));
            Self { folder, reader }
        }

        fn append(&self, text: &str) {
            let path = self.folder.path().join("log");
            let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }

        fn rotate(&self) {
            fs::rename(self.folder.path().join("log"), self.folder.path().join("log.1")).unwrap();
        }

        #[track_caller]
        fn assert_added(&mut self, continued: &str, files: &[&str]) {
            let files = files.iter().map(|text| text.as_bytes().to_vec()).collect();
            let expected = AddedData { continued: continued.as_bytes().to_vec(), files };
            assert_eq!(self.reader.read().unwrap(), expected);
        }
    }

    #[test]
    fn added_data_is_read_across_rotations() {
        let mut log = Log::new();
        log.assert_added("", &[]);
        log.append("one");
        log.assert_added("", &["one"]);
        log.assert_added("", &[]);
        log.append(", two");
        log.rotate();
        log.assert_added(", two", &[]);
        log.append("three");
        log.assert_added("", &["three"]);
        log.append(", four");
        log.rotate();
        log.append("five");
        log.rotate();
        log.append("six");
        log.assert_added(", four", &["five", "six"]);
        fs::remove_file(log.folder.path().join("log")).unwrap();
        log.assert_added("", &[]);
        log.append("seven");
        log.assert_added("", &["seven"]);
    }

    #[test]
    fn the_first_reading_begins_with_the_rotated_file() {
        let mut log = Log::new();
        log.append("one");
        log.rotate();
        log.assert_added("", &["one"]);
        log.append("two");
        log.assert_added("", &["two"]);
    }

    #[test]
    fn a_rotation_during_a_reading_loses_nothing() {
        const FILES: usize = 2000;
        for _ in 0..20 {
            let log = Log::new();
            let mut reader = RotatedFile::new(log.folder.path().join("log"));
            let writer = thread::spawn(move || {
                for number in 0..FILES {
                    log.append(&format!("{number}\n"));
                    if number % 7 == 6 {
                        log.rotate();
                    }
                }
                log
            });
            // Numbers may be missing at the beginning of a reading only, if the file was rotated more than once before.
            let mut numbers: Vec<Vec<usize>> = Vec::new();
            let mut read = || {
                let added = reader.read().unwrap();
                let parse = |data: Vec<u8>| -> Vec<usize> {
                    String::from_utf8(data).unwrap().lines().map(|line| line.parse().unwrap()).collect()
                };
                numbers.push(parse(added.continued));
                numbers.push(added.files.into_iter().flat_map(parse).collect());
            };
            while !writer.is_finished() {
                read();
            }
            let _log = writer.join().unwrap();
            read();
            for part in &numbers {
                assert!(part.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{part:?}");
            }
            let all: Vec<usize> = numbers.into_iter().flatten().collect();
            assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
            assert_eq!(all.last(), Some(&(FILES - 1)));
        }
    }
}
