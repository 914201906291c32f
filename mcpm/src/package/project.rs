//! Local Go projects: finds the module, and selects the files for a build.
//!
//! Excluded are files that `.gitignore` and `.dockerignore` match, the `.git` folder, and links that lead out of the
//! project. As in Git, `.gitignore` files apply up to the root of the repository.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use ignore::{
    WalkBuilder,
    gitignore::{Gitignore, GitignoreBuilder},
};

use super::context::{BuildContext, MAX_CONTEXT_BYTES};
use crate::{Error, ErrorKind, Result};

/// A Go module on this machine, and the package in it that is compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Project {
    /// Where `go.mod` is.
    root: PathBuf,
    /// The folder of the program below the root, as Go names it: `.` or `./cmd/server`.
    pub(super) package: String,
}

impl Project {
    /// Finds the module that a folder belongs to.
    ///
    /// # Errors
    /// `NotFound` when there is no such folder, `InvalidOption` when it is not in a Go module.
    pub(super) fn find(folder: &Path) -> Result<Self> {
        let shown = folder.display();
        let cannot_read = |error: io::Error| {
            let kind = match error.kind() {
                io::ErrorKind::NotFound => ErrorKind::NotFound,
                _ => ErrorKind::Io,
            };
            Error::new(kind, format!("cannot read the project `{shown}`")).source(error)
        };
        let folder = fs::canonicalize(folder).map_err(cannot_read)?;
        if !folder.is_dir() {
            let message = format!("`{shown}` is not a folder");
            return Err(Error::new(ErrorKind::InvalidOption, message)
                .hint("use the folder that contains the program's `main` package"));
        }
        let Some(root) = folder.ancestors().find(|folder| folder.join("go.mod").is_file()) else {
            let message = format!("`{shown}` is not in a Go module: no `go.mod` in it or in a parent folder");
            return Err(
                Error::new(ErrorKind::InvalidOption, message).hint("create a module with `go mod init`")
            );
        };
        let below = folder.strip_prefix(root).unwrap_or(Path::new(""));
        let package = match below.to_str() {
            Some("") => ".".to_owned(),
            Some(below) => format!("./{below}"),
            None => {
                let message = format!("the name of `{shown}` is not UTF-8");
                return Err(Error::new(ErrorKind::InvalidOption, message));
            }
        };
        Ok(Self { root: root.to_owned(), package })
    }

    /// Adds the project's files below a folder of the context, and returns notices about files that were excluded
    /// without a pattern.
    ///
    /// # Errors
    /// `Io` when a file cannot be read, `InvalidOption` for a broken `.dockerignore` or a project that is too large.
    pub(super) fn pack(&self, context: &mut BuildContext, into: &str) -> Result<Vec<String>> {
        let mut left_out = Vec::new();
        for path in self.files()? {
            let below = path.strip_prefix(&self.root).unwrap_or(&path);
            let place = Path::new(into).join(below);
            let cannot_read = |error: io::Error| {
                Error::new(ErrorKind::Io, format!("cannot read `{}`", path.display())).source(error)
            };
            let found = fs::symlink_metadata(&path).map_err(cannot_read)?;
            if found.is_file() {
                context.add_file(
                    &place,
                    &read_bounded(&path).map_err(cannot_read)?,
                    is_executable(&found),
                )?;
            } else if found.is_symlink() {
                let target = fs::read_link(&path).map_err(cannot_read)?;
                let stays = target.is_relative()
                    && fs::canonicalize(&path).is_ok_and(|target| target.starts_with(&self.root));
                if stays {
                    context.add_symlink(&place, &target)?;
                } else {
                    left_out.push(format!(
                        "`{}` links to a target outside the project and is omitted",
                        below.display()
                    ));
                }
            }
        }
        Ok(left_out)
    }

    /// Returns the content of a file in the root, if it exists. Links are not followed, since they may lead out of the
    /// project.
    ///
    /// # Errors
    /// `InvalidOption` if it is not a file, `Io` when it cannot be read.
    pub(super) fn root_file(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.root.join(name);
        let shown = path.display();
        let cannot_read =
            |error: io::Error| Error::new(ErrorKind::Io, format!("cannot read `{shown}`")).source(error);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() => read_bounded(&path).map(Some).map_err(cannot_read),
            Ok(_) => {
                let message = format!("`{shown}` is a link, or not a regular file");
                Err(Error::new(ErrorKind::InvalidOption, message).hint("replace it with a regular file"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(cannot_read(error)),
        }
    }

    /// Returns the files and links that are not ignored, in the order of their names.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let docker = self.dockerignore()?;
        let in_git = self.root.ancestors().any(|folder| folder.join(".git").exists());
        let walk = WalkBuilder::new(&self.root)
            .hidden(false)
            .ignore(false)
            .git_global(false)
            // Without a repository, only ignore files in the project itself apply.
            .parents(in_git)
            .require_git(in_git)
            .follow_links(false)
            .filter_entry(|entry| entry.file_name() != ".git")
            .build();
        let mut files = Vec::new();
        for entry in walk {
            let entry = entry.map_err(|error| {
                let message = format!("cannot read the project `{}`", self.root.display());
                Error::new(ErrorKind::Io, message).source(error)
            })?;
            let path = entry.path();
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            let below = path.strip_prefix(&self.root).unwrap_or(path);
            if !is_folder && !docker.ignores(below) {
                files.push(entry.into_path());
            }
        }
        files.sort();
        Ok(files)
    }

    /// Reads `.dockerignore`.
    fn dockerignore(&self) -> Result<DockerIgnore> {
        let path = self.root.join(".dockerignore");
        let broken = |error: ignore::Error| {
            Error::new(ErrorKind::InvalidOption, format!("cannot use `{}`", path.display())).source(error)
        };
        let mut patterns = Vec::new();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            // An unreadable ignore file is an error, since it may exclude secrets.
            text => text.map_err(|error| broken(error.into()))?,
        };
        for line in text.lines() {
            if line.starts_with('#') {
                continue;
            }
            let line = line.trim();
            let pattern = line.strip_prefix('!');
            let lets_in = pattern.is_some();
            let pattern = pattern.unwrap_or(line).trim().trim_start_matches("./").trim_matches('/');
            if !pattern.is_empty() && pattern != "." {
                // Patterns and paths are both relative to the root.
                let mut builder = GitignoreBuilder::new("");
                builder.add_line(None, &format!("/{pattern}")).map_err(broken)?;
                patterns.push((lets_in, builder.build().map_err(broken)?));
            }
        }
        Ok(DockerIgnore(patterns))
    }
}

/// The patterns of a `.dockerignore`, and whether each re-includes. Unlike those of Git, they are relative to the
/// root, and the last one that matches a path or a parent folder decides.
struct DockerIgnore(Vec<(bool, Gitignore)>);

impl DockerIgnore {
    fn ignores(&self, path: &Path) -> bool {
        let matches = |pattern: &Gitignore| pattern.matched_path_or_any_parents(path, false).is_ignore();
        self.0.iter().rev().find(|(_, pattern)| matches(pattern)).is_some_and(|(lets_in, _)| !lets_in)
    }
}

/// Reads a file, up to the size limit of a context. A file that has been replaced by a link or something else is not
/// read.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut options = fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut content = Vec::new();
    file.take(MAX_CONTEXT_BYTES as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(unix)]
fn is_executable(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    found.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    false
}

#[cfg(test)]
#[path = "project_tests.rs"]
mod tests;
