//! Finds out what a local path is: a script, or a project of one of the ecosystems.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{Ecosystem, PackageReference, reference::script_ecosystem};
use crate::{Error, ErrorKind, Result};

/// The file that makes a folder a project.
pub(super) const fn manifest(ecosystem: Ecosystem) -> &'static str {
    match ecosystem {
        Ecosystem::Python => "pyproject.toml",
        Ecosystem::Node => "package.json",
        Ecosystem::Go => "go.mod",
    }
}

/// Returns the reference of a script or a project; a relative path is below `folder`.
///
/// # Errors
/// `NotFound`; `Io`; `InvalidOption` for what is neither, and for a folder that has projects of several ecosystems.
pub(crate) fn reference(path: &Path, folder: &Path) -> Result<PackageReference> {
    let shown = path.display().to_string().escape_debug().to_string();
    let full = folder.join(path);
    let found = fs::metadata(&full).map_err(|error| {
        let kind = if error.kind() == io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Io };
        Error::new(kind, format!("cannot read `{shown}`")).source(error)
    })?;
    let unknown = |what: &str, hint: &str| {
        Err(Error::new(ErrorKind::InvalidOption, format!("`{shown}` {what}")).hint(hint.to_owned()))
    };
    let ecosystem = if found.is_dir() {
        match ecosystems(&full)[..] {
            [one] => one,
            [] => {
                return unknown(
                    "is not a project: it has no `pyproject.toml`, `package.json` or `go.mod`",
                    "name the script that starts the server, such as `./server.py`",
                );
            }
            _ => {
                return unknown(
                    "has projects of several languages",
                    "put `uvx://`, `npx://` or `go://` before the path",
                );
            }
        }
    } else {
        match script_ecosystem(path) {
            Some(ecosystem) => ecosystem,
            None => {
                return unknown(
                    "is neither a script nor a folder with a project",
                    "scripts end in `.py`, `.js`, `.mjs`, `.cjs`, `.ts`, `.mts` or `.cts`",
                );
            }
        }
    };
    PackageReference::parse(&format!("{}://{}", ecosystem.scheme(), path.display()))
        .unwrap_or_else(|| Err(Error::new(ErrorKind::Internal, "a local path is not a package")))
        .map(|package| package.resolved_against(folder))
}

/// Returns the ecosystems whose project a folder is; a folder below a Go module is one if it has Go files.
fn ecosystems(folder: &Path) -> Vec<Ecosystem> {
    let has = |ecosystem: &Ecosystem| folder.join(manifest(*ecosystem)).is_file();
    let mut found: Vec<_> =
        [Ecosystem::Python, Ecosystem::Node, Ecosystem::Go].into_iter().filter(has).collect();
    if found.is_empty() {
        let mut parents = folder.ancestors().skip(1);
        let is_go = |entry: fs::DirEntry| entry.path().extension().is_some_and(|extension| extension == "go");
        let has_go = || fs::read_dir(folder).is_ok_and(|entries| entries.flatten().any(is_go));
        if parents.any(|parent| parent.join(manifest(Ecosystem::Go)).is_file()) && has_go() {
            found.push(Ecosystem::Go);
        }
    }
    found
}

/// Returns the folder of the project that a script belongs to: its own, or, in a Git repository, one above it.
pub(super) fn project_of_script(script: &Path, ecosystem: Ecosystem) -> Option<PathBuf> {
    let folders = script.ancestors().skip(1);
    let repository = folders.clone().find(|folder| folder.join(".git").exists());
    for folder in folders {
        if folder.join(manifest(ecosystem)).is_file() {
            return Some(folder.to_owned());
        }
        if repository.is_none_or(|repository| repository == folder) {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_what_its_name_and_its_files_say() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for file in [
            "server.py",
            "a b/server.mjs",
            "notes.txt",
            "python/pyproject.toml",
            "node/package.json",
            "module/go.mod",
            "module/cmd/server/main.go",
            "module/docs/page.md",
            "both/package.json",
            "both/pyproject.toml",
        ] {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), "").unwrap();
        }
        let form = |path: &str| match reference(Path::new(path), root) {
            Ok(package) => package.to_string().replace(&root.display().to_string(), ""),
            Err(error) => format!("{} {}", error.kind(), error.next_step().unwrap_or_default()),
        };
        for (path, expected) in [
            ("./server.py", "uvx:///server.py"),
            ("./a b/../a b/server.mjs", "npx:///a b/server.mjs"),
            ("./python", "uvx:///python"),
            ("./node/", "npx:///node"),
            ("./module", "go:///module"),
            ("./module/cmd/server", "go:///module/cmd/server"),
            ("./absent.py", "not_found "),
            ("./both", "invalid_option put `uvx://`, `npx://` or `go://` before the path"),
        ] {
            assert_eq!(form(path), expected, "{path}");
        }
        for path in ["./notes.txt", "./module/docs", "."] {
            assert!(form(path).starts_with("invalid_option "), "{path}: {}", form(path));
        }
    }

    #[test]
    fn a_script_belongs_to_the_project_of_its_folder_or_its_repository() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("repository/src")).unwrap();
        let script = root.join("repository/src/server.js");
        let project = || project_of_script(&script, Ecosystem::Node);
        fs::write(root.join("repository/package.json"), "{}").unwrap();
        fs::write(root.join("package.json"), "{}").unwrap();
        assert_eq!(project(), None);
        fs::create_dir(root.join("repository/.git")).unwrap();
        assert_eq!(project(), Some(root.join("repository")));
        fs::remove_file(root.join("repository/package.json")).unwrap();
        assert_eq!(project(), None);
        fs::write(root.join("repository/src/package.json"), "{}").unwrap();
        assert_eq!(project(), Some(root.join("repository/src")));
    }
}
