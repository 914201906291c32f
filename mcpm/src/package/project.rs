//! Local projects and scripts: finds the files for a build.
//!
//! Excluded are files that `.gitignore`, `.dockerignore` and `.mcpmignore` match, files that usually have secrets, the
//! `.git` folder, installed packages, and links that lead out of the project. As in Git, `.gitignore` files apply up to
//! the root of the repository. A script that belongs to no project is alone.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use ignore::{
    WalkBuilder,
    gitignore::{Gitignore, GitignoreBuilder},
};

use super::{
    Ecosystem,
    context::{BuildContext, MAX_CONTEXT_BYTES},
    local::{manifest, project_of_script},
    reference::script_ecosystem,
};
use crate::{Error, ErrorKind, Result};

/// Files that usually have secrets. They are left out even if no ignore file names them.
const SECRET_FILES: [&str; 5] = [".env", ".netrc", ".npmrc", ".pypirc", ".git-credentials"];
/// Folders with what tools have installed or compiled for this machine.
const INSTALLED_FOLDERS: [&str; 3] = ["node_modules", ".venv", "__pycache__"];
/// Files of a user's home folder, which is no project even if it has the manifest of one.
const HOME_FILES: [&str; 3] = [".ssh", ".bashrc", ".profile"];

/// A local project, and the program in it that is started; or a script alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Project {
    ecosystem: Ecosystem,
    /// Where the manifest is; for a script alone, its folder.
    root: PathBuf,
    /// The folder of a Go program below the root, as Go names it: `.` or `./cmd/server`; for a script, its path; for
    /// another project, `.`.
    pub(super) package: String,
    pub(super) is_script: bool,
    is_alone: bool,
}

impl Project {
    /// Finds the module that a folder belongs to, or the project of a folder or a script.
    ///
    /// # Errors
    /// `NotFound` when there is no such path, `InvalidOption` when it is no project and no script.
    pub(super) fn find(ecosystem: Ecosystem, path: &Path) -> Result<Self> {
        let shown = path.display();
        let cannot_read = |error: io::Error| {
            let kind = match error.kind() {
                io::ErrorKind::NotFound => ErrorKind::NotFound,
                _ => ErrorKind::Io,
            };
            Error::new(kind, format!("cannot read the project `{shown}`")).source(error)
        };
        let path = fs::canonicalize(path).map_err(cannot_read)?;
        let is_script = path.is_file() && script_ecosystem(&path) == Some(ecosystem);
        if !is_script && !path.is_dir() {
            let message = format!("`{shown}` is not a folder");
            return Err(Error::new(ErrorKind::InvalidOption, message).hint(match ecosystem {
                Ecosystem::Go => "use the folder that contains the program's `main` package",
                Ecosystem::Python => "use the folder of a project, or a script that ends in `.py`",
                Ecosystem::Node => {
                    "use the folder of a project, or a script such as `server.js` or `server.ts`"
                }
            }));
        }
        let manifest = manifest(ecosystem);
        let has_manifest = |folder: &&Path| folder.join(manifest).is_file();
        let root = match ecosystem {
            Ecosystem::Go => path.ancestors().find(has_manifest).map(Path::to_owned),
            // What a script names itself takes precedence over its project.
            Ecosystem::Python if is_script && has_inline_metadata(&path).map_err(cannot_read)? => None,
            _ if is_script => project_of_script(&path, ecosystem),
            _ => Some(path.as_path()).filter(has_manifest).map(Path::to_owned),
        };
        let is_alone = root.is_none() && is_script;
        let root = if is_alone { path.parent().map(Path::to_owned) } else { root };
        let Some(root) = root else {
            let message = match ecosystem {
                Ecosystem::Go => {
                    format!("`{shown}` is not in a Go module: no `go.mod` in it or in a parent folder")
                }
                _ => format!("`{shown}` is not a project: it has no `{manifest}`"),
            };
            let hint = match ecosystem {
                Ecosystem::Go => "create a module with `go mod init`",
                _ => "name the script that starts the server",
            };
            return Err(Error::new(ErrorKind::InvalidOption, message).hint(hint));
        };
        if !is_alone && HOME_FILES.iter().any(|name| root.join(name).exists()) {
            let message =
                format!("`{}` is a home folder, with files that do not belong into an image", root.display());
            return Err(
                Error::new(ErrorKind::InvalidOption, message).hint("move the project to a folder of its own")
            );
        }
        let below = path.strip_prefix(&root).unwrap_or(Path::new(""));
        let package = match below.to_str() {
            Some("") => ".".to_owned(),
            Some(below) if is_script => below.to_owned(),
            Some(below) => format!("./{below}"),
            None => {
                let message = format!("the name of `{shown}` is not UTF-8");
                return Err(Error::new(ErrorKind::InvalidOption, message));
            }
        };
        Ok(Self { ecosystem, root, package, is_script, is_alone })
    }

    /// Adds the project's files below a folder of the context, and returns notices about files that were excluded
    /// although no pattern matches them.
    ///
    /// # Errors
    /// `Io` when a file cannot be read, `InvalidOption` for a broken `.dockerignore` or a project that is too large.
    pub(super) fn pack(&self, context: &mut BuildContext, into: &str) -> Result<Vec<String>> {
        let mut left_out = Vec::new();
        let files = if self.is_alone { vec![self.root.join(&self.package)] } else { self.files()? };
        for path in files {
            let below = path.strip_prefix(&self.root).unwrap_or(&path);
            if may_have_secrets(below) {
                left_out.push(format!("`{}` may have secrets and is omitted", below.display()));
                continue;
            }
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
        // Nothing installs packages into the folder of a Go module.
        let skipped = if self.ecosystem == Ecosystem::Go { &[][..] } else { &INSTALLED_FOLDERS[..] };
        let in_git = self.root.ancestors().any(|folder| folder.join(".git").exists());
        let walk = WalkBuilder::new(&self.root)
            .add_custom_ignore_filename(".mcpmignore")
            .hidden(false)
            .ignore(false)
            .git_global(false)
            // Without a repository, only ignore files in the project itself apply.
            .parents(in_git)
            .require_git(in_git)
            .follow_links(false)
            .filter_entry(move |entry| {
                let is = |name: &&str| entry.file_name() == *name;
                entry.file_name() != ".git" && !skipped.iter().any(is)
            })
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

/// Tells whether a file usually has secrets, which nothing in an image may have.
fn may_have_secrets(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_example = || ["example", "sample", "template"].iter().any(|word| name.ends_with(word));
    SECRET_FILES.contains(&&*name) || name.starts_with(".env.") && !is_example()
}

/// Tells whether a script of Python names its dependencies itself (PEP 723).
fn has_inline_metadata(script: &Path) -> io::Result<bool> {
    let content = read_bounded(script)?;
    Ok(content.split(|byte| *byte == b'\n').any(|line| line.trim_ascii_end() == b"# /// script"))
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
