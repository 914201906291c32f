//! Reads files that other processes append to, and that may be rotated.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use crate::{Result, platform::is_same_file, state::file::file_error};

/// A file that grows, and that may be replaced by another file.
#[derive(Debug)]
pub(super) struct GrowingFile {
    path: PathBuf,
    file: Option<File>,
}

impl GrowingFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// Returns the bytes that were added since the last call.
    pub(super) fn read(&mut self) -> Result<Vec<u8>> {
        let mut added = Vec::new();
        self.read_into(&mut added).map_err(|error| file_error("read", &self.path, error))?;
        Ok(added)
    }

    fn read_into(&mut self, added: &mut Vec<u8>) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            let is_current = is_same_file(&self.path, file).unwrap_or(false);
            file.read_to_end(added)?;
            if is_current {
                return Ok(());
            }
        }
        self.file = open(&self.path)?;
        self.file.as_mut().map_or(Ok(0), |file| file.read_to_end(added)).map(drop)
    }
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _};

    use super::*;

    #[test]
    fn what_is_added_is_read_also_from_the_next_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = GrowingFile::new(path.clone());
        let mut added = || String::from_utf8(log.read().unwrap()).unwrap();
        assert_eq!(added(), "");
        fs::write(&path, "one\n").unwrap();
        assert_eq!(added(), "one\n");
        assert_eq!(added(), "");
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"two\nlast\n").unwrap();
        fs::rename(&path, folder.path().join("log.1")).unwrap();
        fs::write(&path, "three, which is longer\n").unwrap();
        assert_eq!(added(), "two\nlast\nthree, which is longer\n");
        assert_eq!(added(), "");
    }
}
