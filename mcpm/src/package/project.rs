//! Finds the project that a local path belongs to, and selects the files for its build.
//!
//! Links that are absolute or lead out of the project are excluded, and so are the files that `exclusions` rejects.

use std::{
    fs, io,
    path::{Path, PathBuf},
    rc::Rc,
};

use super::{
    Ecosystem,
    context::{BuildContext, MAX_CONTEXT_BYTES},
    exclusions::{Exclusions, FolderRules},
    local::{
        cannot_read, go_module, invalid, manifest, not_a_project, not_a_script, project_of_script, shown,
    },
    reference::script_ecosystem,
    regular_file,
};
use crate::Result;

/// The most files and folders in the folders of a project that are not excluded.
const MAX_PROJECT_ENTRIES: usize = 100_000;
/// Files that identify a user's home folder, which is not a project even if it contains a manifest.
const HOME_FILES: [&str; 3] = [".ssh", ".bashrc", ".profile"];
/// Excluded files that a notice names.
const MAX_NAMED_FILES: usize = 5;

/// A local project, and the program in it that is started; or a standalone script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Project {
    ecosystem: Ecosystem,
    /// Where the manifest is; for a standalone script, its folder.
    root: PathBuf,
    /// The folder of a Go program below the root, as Go names it: `.` or `./cmd/server`; for a script, its path; for
    /// another project, `.`.
    pub(super) package: String,
    pub(super) is_script: bool,
    /// Whether the script belongs to no project.
    is_standalone: bool,
}

/// The files and links of a project, in the order of their names.
#[derive(Default)]
struct ProjectFiles {
    included: Vec<PathBuf>,
    /// Excluded files and folders that may contain secrets, although no pattern matches them.
    secrets: Vec<PathBuf>,
}

impl Project {
    /// Finds the module that a folder belongs to, or the project of a folder or a script.
    ///
    /// # Errors
    /// `NotFound` when there is no such path, `InvalidOption` when the path is neither a project nor a script.
    pub(super) fn find(ecosystem: Ecosystem, given: &Path) -> Result<Self> {
        let failed = |error| cannot_read(given, error);
        let path = fs::canonicalize(given).map_err(failed)?;
        let is_script = path.is_file() && script_ecosystem(&path) == Some(ecosystem);
        if !is_script && !path.is_dir() {
            return Err(not_a_script(given, Some(ecosystem)));
        }
        let root = match ecosystem {
            Ecosystem::Go => go_module(&path),
            // Dependencies that a script names itself take precedence over its project.
            Ecosystem::Python if is_script && has_inline_metadata(&path).map_err(failed)? => None,
            _ if is_script => project_of_script(&path, ecosystem),
            _ => Some(path.as_path()).filter(|folder| folder.join(manifest(ecosystem)).is_file()),
        };
        let is_standalone = root.is_none() && is_script;
        let root = if is_standalone { path.parent() } else { root };
        let root = root.ok_or_else(|| not_a_project(given, Some(ecosystem)))?;
        if !is_standalone && HOME_FILES.iter().any(|name| root.join(name).exists()) {
            let what = "is a home folder, with files that do not belong in an image";
            return Err(invalid(root, what).hint("move the project to a folder of its own"));
        }
        let below = path.strip_prefix(root).unwrap_or(Path::new(""));
        let package = match below.to_str() {
            Some("") => ".".to_owned(),
            Some(below) if is_script => below.to_owned(),
            Some(below) => format!("./{below}"),
            None => return Err(invalid(given, "has a name that is not UTF-8")),
        };
        Ok(Self { ecosystem, root: root.to_owned(), package, is_script, is_standalone })
    }

    /// Adds the project's files below a folder of the context, and returns notices about files that were excluded as
    /// possible secrets although no ignore file matches them. The global ignore file applies to all projects of the
    /// user.
    ///
    /// # Errors
    /// `Io` when a file cannot be read, `InvalidOption` for a broken ignore file or a project that is too large.
    pub(super) fn pack(
        &self,
        context: &mut BuildContext,
        into: &str,
        global_ignore_file: Option<&Path>,
    ) -> Result<Vec<String>> {
        let files = if self.is_standalone {
            ProjectFiles { included: vec![self.root.join(&self.package)], ..ProjectFiles::default() }
        } else {
            self.files(global_ignore_file)?
        };
        let mut outside = Vec::new();
        for path in files.included {
            let below = path.strip_prefix(&self.root).unwrap_or(&path);
            let place = Path::new(into).join(below);
            let failed = |error| cannot_read(&path, error);
            let found = fs::symlink_metadata(&path).map_err(failed)?;
            if found.is_file() {
                let content = regular_file::read(&path, MAX_CONTEXT_BYTES).map_err(failed)?;
                context.add_file(&place, &content, is_executable(&found))?;
            } else if found.is_symlink() {
                let target = fs::read_link(&path).map_err(failed)?;
                let stays = target.is_relative()
                    && fs::canonicalize(&path).is_ok_and(|target| target.starts_with(&self.root));
                if stays {
                    context.add_symlink(&place, &target)?;
                } else {
                    outside.push(below.to_owned());
                }
            }
        }
        let secrets = notice("files that may contain secrets are excluded", &files.secrets);
        let outside = notice("links to targets outside the project are excluded", &outside);
        Ok(secrets.into_iter().chain(outside).chain(self.requirements_notice()?).collect())
    }

    /// Returns a notice if a standalone script has a list of packages that is not read.
    fn requirements_notice(&self) -> Result<Option<String>> {
        let script = self.root.join(&self.package);
        let is_ignored = self.is_standalone
            && self.ecosystem == Ecosystem::Python
            && self.root.join("requirements.txt").is_file()
            && !has_inline_metadata(&script).map_err(|error| cannot_read(&script, error))?;
        let message = "the packages in `requirements.txt` are not installed: name them in the script's inline metadata, \
                       or set `with_package`";
        Ok(is_ignored.then(|| message.to_owned()))
    }

    /// Returns the content of a file in the root, if it exists. Links are not followed, since they may lead out of the
    /// project.
    ///
    /// # Errors
    /// `InvalidOption` if it is not a file, `Io` when it cannot be read.
    pub(super) fn root_file(&self, name: &str) -> Result<Option<Vec<u8>>> {
        regular_file::read_if_present(&self.root.join(name), MAX_CONTEXT_BYTES)
    }

    /// Finds the files and links that are not excluded.
    fn files(&self, global_ignore_file: Option<&Path>) -> Result<ProjectFiles> {
        let exclusions = Exclusions::new(&self.root, self.ecosystem, global_ignore_file)?;
        let mut files = ProjectFiles::default();
        let mut entries = 0;
        let mut pending = vec![(self.root.clone(), FolderRules::above(&self.root)?)];
        while let Some((folder, outer)) = pending.pop() {
            let failed = |error: io::Error| cannot_read(&folder, error);
            let rules = FolderRules::within(&outer, &folder)?;
            for entry in fs::read_dir(&folder).map_err(failed)? {
                entries += 1;
                if entries > MAX_PROJECT_ENTRIES {
                    let what = format!("has more than {MAX_PROJECT_ENTRIES} files and folders");
                    return Err(invalid(&self.root, &what)
                        .hint("list folders that the build does not need in `.mcpmignore`"));
                }
                let entry = entry.map_err(failed)?;
                let (path, is_folder) = (entry.path(), entry.file_type().map_err(failed)?.is_dir());
                if exclusions.skips(&path, is_folder) || rules.ignores(&path, is_folder) {
                    continue;
                }
                let below = path.strip_prefix(&self.root).unwrap_or(&path);
                let docker_ignores = exclusions.docker_ignores(below);
                if exclusions.may_contain_secrets(&path, is_folder) {
                    if !docker_ignores {
                        files.secrets.push(below.to_owned());
                    }
                } else if is_folder {
                    // A later pattern of `.dockerignore` may re-include what is in it.
                    pending.push((path, Rc::clone(&rules)));
                } else if !docker_ignores {
                    files.included.push(path);
                }
            }
        }
        files.included.sort();
        files.secrets.sort();
        Ok(files)
    }
}

/// Returns a notice about paths, which names the first of them.
fn notice(text: &str, paths: &[PathBuf]) -> Option<String> {
    if paths.is_empty() {
        return None;
    }
    let named: Vec<_> = paths.iter().take(MAX_NAMED_FILES).map(|path| format!("`{}`", shown(path))).collect();
    let others = paths.len() - named.len();
    let more = if others == 0 { String::new() } else { format!(" and {others} more") };
    Some(format!("{text}: {}{more}", named.join(", ")))
}

/// Tells whether a script of Python names its dependencies itself (PEP 723).
fn has_inline_metadata(script: &Path) -> io::Result<bool> {
    let content = regular_file::read(script, MAX_CONTEXT_BYTES)?;
    Ok(content.split(|byte| *byte == b'\n').any(|line| line.trim_ascii_end() == b"# /// script"))
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
