//! Decides which files of a local project are excluded from its image.
//!
//! An ignore file that cannot be read completely, or that has an invalid pattern, fails the build, because the file may
//! exclude secrets.

use std::{
    fs,
    path::{Path, PathBuf},
    rc::Rc,
};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::{
    Ecosystem,
    local::{cannot_read, invalid, shown},
    regular_file,
};
use crate::{Error, ErrorKind, Result};

/// The largest ignore file.
const MAX_IGNORE_FILE_BYTES: usize = 1 << 20;
/// The most patterns of a `.dockerignore`, which are matched one by one.
const MAX_DOCKERIGNORE_PATTERNS: usize = 10_000;

/// Files and folders that usually contain secrets, as case-insensitive Git patterns. They are excluded even if no
/// ignore file names them.
const SECRET_PATTERNS: &[&str] = &[
    // Variables, except for templates.
    "*.env",
    ".env[._-]*",
    ".envrc",
    "!.env*{example,sample,template}",
    "!{example,sample,template}.env",
    // Private keys. A certificate may be in the same format.
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.ppk",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    // Logins.
    ".netrc",
    "_netrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pypirc",
    ".git-credentials",
    ".pgpass",
    ".htpasswd",
    "credentials.json",
    "client_secret*.json",
    "**/.docker/config.json",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".ssh",
    "**/.config/gcloud",
    // Terraform stores passwords of what it made.
    "*.tfstate",
    "*.tfstate.*",
    "*.tfvars",
];
/// Folders of version control, whose history may contain secrets that were removed.
const VERSION_CONTROL_FOLDERS: &[&str] = &[".git", ".hg", ".svn", ".jj"];
/// Folders with what tools have installed or compiled for this machine.
const INSTALLED_FOLDERS: &[&str] = &["node_modules", ".venv", "__pycache__", ".tox", ".nox"];

/// The rules that apply to a whole project.
pub(super) struct Exclusions {
    installed_folders: &'static [&'static str],
    secrets: Gitignore,
    /// The user's own patterns for all projects.
    global: Gitignore,
    docker: DockerIgnore,
}

impl Exclusions {
    /// Reads the `.dockerignore` of the project in `root`, and the global ignore file, if it applies.
    ///
    /// # Errors
    /// `InvalidOption` for a broken ignore file; `Io`.
    pub(super) fn new(root: &Path, ecosystem: Ecosystem, global_file: Option<&Path>) -> Result<Self> {
        let global = match global_file {
            // Unlike an ignore file of a project, the global ignore file may be a link.
            Some(file) if file.is_symlink() => {
                load(root, &fs::canonicalize(file).map_err(|error| cannot_read(file, error))?)?
            }
            Some(file) => load(root, file)?,
            None => None,
        };
        Ok(Self {
            // Nothing installs packages into the folder of a Go module.
            installed_folders: if ecosystem == Ecosystem::Go { &[] } else { INSTALLED_FOLDERS },
            secrets: secret_patterns(root)
                .map_err(|error| Error::new(ErrorKind::Internal, "a pattern is invalid").source(error))?,
            global: global.unwrap_or_else(Gitignore::empty),
            docker: DockerIgnore::load(root)?,
        })
    }

    /// Tells whether a file or folder does not belong in an image, because it belongs to version control, was
    /// installed, or is ignored globally.
    pub(super) fn skips(&self, path: &Path, is_folder: bool) -> bool {
        let name = path.file_name().unwrap_or_default();
        let mut names = VERSION_CONTROL_FOLDERS.iter().chain(self.installed_folders);
        names.any(|skipped| name.eq_ignore_ascii_case(skipped))
            // A virtual environment of Python can have any name.
            || is_folder && path.join("pyvenv.cfg").exists()
            || self.global.matched(path, is_folder).is_ignore()
    }

    /// Tells whether a file or folder usually contains secrets.
    pub(super) fn may_contain_secrets(&self, path: &Path, is_folder: bool) -> bool {
        self.secrets.matched(path, is_folder).is_ignore()
    }

    /// Tells whether `.dockerignore` ignores a path, which is relative to the root.
    pub(super) fn docker_ignores(&self, path: &Path) -> bool {
        self.docker.ignores(path)
    }
}

fn secret_patterns(root: &Path) -> Result<Gitignore, ignore::Error> {
    let mut builder = GitignoreBuilder::new(root);
    builder.case_insensitive(true)?;
    for pattern in SECRET_PATTERNS {
        builder.add_line(None, pattern)?;
    }
    builder.build()
}

/// The ignore files that apply in a folder, outer ones first.
#[derive(Clone, Default)]
pub(super) struct FolderRules {
    git: Vec<Rc<Gitignore>>,
    /// The `.mcpmignore` files, which cannot re-include files that Git ignores.
    mcpm: Vec<Rc<Gitignore>>,
}

impl FolderRules {
    /// Returns the rules of the folders above a project, up to the root of its Git repository.
    ///
    /// # Errors
    /// As for [`within`](Self::within).
    pub(super) fn above(root: &Path) -> Result<Rc<Self>> {
        let mut rules = Rc::new(Self::default());
        let Some(repository) = root.ancestors().find(|folder| is_repository(folder)) else {
            return Ok(rules);
        };
        let above: Vec<&Path> =
            root.ancestors().skip(1).take_while(|folder| folder.starts_with(repository)).collect();
        for folder in above.into_iter().rev() {
            rules = Self::within(&rules, folder)?;
        }
        Ok(rules)
    }

    /// Adds the ignore files of a folder to the rules of its parent folder.
    ///
    /// # Errors
    /// `InvalidOption` for a broken ignore file; `Io`.
    pub(super) fn within(outer: &Rc<Self>, folder: &Path) -> Result<Rc<Self>> {
        let mut rules = Rc::clone(outer);
        if is_repository(folder) {
            // Ignore files of an outer repository do not apply in a repository inside of it.
            let excluded = load(folder, &exclude_file(folder)?)?;
            Rc::make_mut(&mut rules).git = excluded.into_iter().map(Rc::new).collect();
        }
        if let Some(own) = load(folder, &folder.join(".gitignore"))? {
            Rc::make_mut(&mut rules).git.push(Rc::new(own));
        }
        if let Some(own) = load(folder, &folder.join(".mcpmignore"))? {
            Rc::make_mut(&mut rules).mcpm.push(Rc::new(own));
        }
        Ok(rules)
    }

    /// Tells whether a file or folder is ignored: by the last pattern that matches, in the innermost file with one.
    pub(super) fn ignores(&self, path: &Path, is_folder: bool) -> bool {
        [&self.git, &self.mcpm].into_iter().any(|files| {
            let mut found = files.iter().rev().map(|patterns| patterns.matched(path, is_folder));
            found.find(|found| !found.is_none()).is_some_and(|found| found.is_ignore())
        })
    }
}

fn is_repository(folder: &Path) -> bool {
    folder.join(".git").exists()
}

/// Returns the path of the ignore file in a repository's `.git` folder.
fn exclude_file(repository: &Path) -> Result<PathBuf> {
    let mut git = repository.join(".git");
    // In a worktree and in a submodule, `.git` is a file that names the folder.
    if git.is_file()
        && let Some(text) = read(&git)?
        && let Some(folder) = text.strip_prefix("gitdir:")
    {
        git = repository.join(folder.trim());
    }
    // A worktree uses the ignore file of the main worktree.
    if git.is_dir()
        && let Some(common) = read(&git.join("commondir"))?
    {
        git = git.join(common.trim());
    }
    Ok(git.join("info").join("exclude"))
}

/// The patterns of a `.dockerignore`, and whether each re-includes. Unlike those of Git, they are relative to the
/// root, and the last one that matches a path or a parent folder decides.
struct DockerIgnore(Vec<(bool, Gitignore)>);

impl DockerIgnore {
    fn load(root: &Path) -> Result<Self> {
        let file = root.join(".dockerignore");
        let text = read(&file)?.unwrap_or_default();
        let mut patterns = Vec::new();
        for (number, line) in numbered_lines(&text) {
            if line.starts_with('#') {
                continue;
            }
            let line = line.trim();
            let pattern = line.strip_prefix('!');
            let lets_in = pattern.is_some();
            let pattern = pattern.unwrap_or(line).trim().trim_start_matches("./").trim_matches('/');
            if pattern.is_empty() || pattern == "." {
                continue;
            }
            if patterns.len() == MAX_DOCKERIGNORE_PATTERNS {
                let what = format!("has more than {MAX_DOCKERIGNORE_PATTERNS} patterns");
                return Err(invalid(&file, &what));
            }
            // Patterns and paths are both relative to the root.
            let mut builder = GitignoreBuilder::new("");
            let built = builder.add_line(None, &format!("/{pattern}")).and_then(|builder| builder.build());
            patterns.push((lets_in, built.map_err(|error| broken(&file, number, error))?));
        }
        Ok(Self(patterns))
    }

    fn ignores(&self, path: &Path) -> bool {
        let matches = |pattern: &Gitignore| pattern.matched_path_or_any_parents(path, false).is_ignore();
        self.0.iter().rev().find(|(_, pattern)| matches(pattern)).is_some_and(|(lets_in, _)| !lets_in)
    }
}

/// Reads a file with patterns of Git, which are relative to `folder`; `None` if there is none.
fn load(folder: &Path, file: &Path) -> Result<Option<Gitignore>> {
    let Some(text) = read(file)? else { return Ok(None) };
    let mut builder = GitignoreBuilder::new(folder);
    for (number, line) in numbered_lines(&text) {
        builder.add_line(None, line).map_err(|error| broken(file, number, error))?;
    }
    let built = builder.build();
    built.map(Some).map_err(|error| invalid(file, "cannot be used as an ignore file").source(error))
}

/// Reads a text file completely; `None` if there is none.
fn read(file: &Path) -> Result<Option<String>> {
    let Some(content) = regular_file::read_if_present(file, MAX_IGNORE_FILE_BYTES)? else { return Ok(None) };
    let text = String::from_utf8(content);
    text.map(Some).map_err(|error| invalid(file, "is not UTF-8").source(error).hint("save it as UTF-8"))
}

fn numbered_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.trim_start_matches('\u{feff}').lines().enumerate().map(|(at, line)| (at + 1, line))
}

fn broken(file: &Path, line: usize, error: ignore::Error) -> Error {
    let message = format!("line {line} of `{}` is not a valid ignore pattern", shown(file));
    Error::new(ErrorKind::InvalidOption, message).source(error)
}
