//! Determines whether a local path is a script, a bundle, or a project of one of the ecosystems.

use std::{fs, io, path::Path};

use super::{Ecosystem, PackageReference, reference::script_ecosystem};
use crate::{
    Error, ErrorKind, Result, config_file::read_error_kind, platform::is_own_file, printable::Printable as _,
};

/// The file that makes a folder a project.
pub(super) const fn manifest(ecosystem: Ecosystem) -> &'static str {
    match ecosystem {
        Ecosystem::Python => "pyproject.toml",
        Ecosystem::Node => "package.json",
        Ecosystem::Go => "go.mod",
        Ecosystem::Bundle => "manifest.json",
    }
}

/// Returns the reference of a script or a project; a relative path is below `folder`. Links are followed once, here.
///
/// # Errors
/// `NotFound`; `Io`; `InvalidOption` for a path that is neither, and for a folder that has projects of several
/// ecosystems.
pub(crate) fn reference(path: &Path, folder: &Path) -> Result<PackageReference> {
    let full = fs::canonicalize(folder.join(path)).map_err(|error| cannot_read(path, error))?;
    let ecosystem = if full.is_dir() {
        match ecosystems(&full)[..] {
            [one] => one,
            [] => return Err(not_a_project(path, None)),
            _ => {
                return Err(invalid(path, "has projects of several languages")
                    .hint("put `uvx://`, `npx://` or `go://` before the path"));
            }
        }
    } else {
        script_ecosystem(&full).ok_or_else(|| not_a_script(path, None))?
    };
    let full = full.to_str().ok_or_else(|| invalid(path, "has a path that is not UTF-8"))?;
    PackageReference::parse(&format!("{}://{full}", ecosystem.scheme()))
        .unwrap_or_else(|| Err(Error::new(ErrorKind::Internal, "a local path is not a package")))
}

/// The error for a path that cannot be read.
pub(super) fn cannot_read(path: &Path, error: io::Error) -> Error {
    Error::new(read_error_kind(&error), format!("cannot read `{}`", shown(path))).source(error)
}

/// The error for a folder that is not a project of an ecosystem, or of any.
pub(super) fn not_a_project(folder: &Path, ecosystem: Option<Ecosystem>) -> Error {
    let (missing, hint) = match ecosystem {
        Some(Ecosystem::Go) => (
            "there is no `go.mod` in it or in a parent folder that you own",
            "create a module with `go mod init`",
        ),
        Some(Ecosystem::Bundle) => ("it is a folder", "use the file of a bundle, which ends in `.mcpb`"),
        Some(Ecosystem::Python) => {
            ("it has no `pyproject.toml`", "use the path of the script that starts the server")
        }
        Some(Ecosystem::Node) => {
            ("it has no `package.json`", "use the path of the script that starts the server")
        }
        None => (
            "it has no `pyproject.toml`, `package.json` or `go.mod`",
            "use the path of the script that starts the server, such as `./server.py`",
        ),
    };
    invalid(folder, &format!("is not a project: {missing}")).hint(hint)
}

/// The error for a file that is not a script of an ecosystem, or of any.
pub(super) fn not_a_script(file: &Path, ecosystem: Option<Ecosystem>) -> Error {
    let (what, hint) = match ecosystem {
        Some(Ecosystem::Go) => {
            ("is not a folder", "use the folder that contains the program's `main` package")
        }
        Some(Ecosystem::Bundle) => ("is not a bundle", "use the file of a bundle, which ends in `.mcpb`"),
        Some(Ecosystem::Python) => (
            "is neither a Python script nor a folder",
            "use the folder of a project, or a script that ends in `.py`",
        ),
        Some(Ecosystem::Node) => (
            "is neither a Node.js script nor a folder",
            "use the folder of a project, or a script such as `server.js` or `server.ts`",
        ),
        None => (
            "is neither a script, nor a bundle, nor a folder with a project",
            "scripts end in `.py`, `.js`, `.mjs`, `.cjs`, `.ts`, `.mts` or `.cts`, and bundles in `.mcpb` or `.dxt`",
        ),
    };
    invalid(file, what).hint(hint)
}

/// The error for a path that cannot be used.
pub(super) fn invalid(path: &Path, what: &str) -> Error {
    Error::new(ErrorKind::InvalidOption, format!("`{}` {what}", shown(path)))
}

/// Returns a path for a message. Its name may contain control characters.
pub(super) fn shown(path: &Path) -> String {
    path.display().to_string().printable()
}

/// Returns the ecosystems whose project a folder is; a folder below a Go module is one if it has Go files.
fn ecosystems(folder: &Path) -> Vec<Ecosystem> {
    let has = |ecosystem: &Ecosystem| folder.join(manifest(*ecosystem)).is_file();
    let mut found: Vec<_> =
        [Ecosystem::Python, Ecosystem::Node, Ecosystem::Go].into_iter().filter(has).collect();
    if found.is_empty() {
        let is_go = |entry: fs::DirEntry| entry.path().extension().is_some_and(|extension| extension == "go");
        let has_go = || fs::read_dir(folder).is_ok_and(|entries| entries.flatten().any(is_go));
        if go_module(folder).is_some() && has_go() {
            found.push(Ecosystem::Go);
        }
    }
    found
}

/// Returns the Go module that a folder belongs to: itself, or a folder above it that the user owns.
pub(super) fn go_module(folder: &Path) -> Option<&Path> {
    let manifest = manifest(Ecosystem::Go);
    let is_module =
        |above: &&Path| above.join(manifest).is_file() && (*above == folder || is_own(above, manifest));
    folder.ancestors().find(is_module)
}

/// Returns the folder of the project that a script belongs to: the script's own folder or, in a Git repository that the
/// user owns, a folder above it that the user owns.
#[cfg(any(feature = "containers", test))]
pub(super) fn project_of_script(script: &Path, ecosystem: Ecosystem) -> Option<&Path> {
    let manifest = manifest(ecosystem);
    let folder = script.parent()?;
    if folder.join(manifest).is_file() {
        return Some(folder);
    }
    let repository = folder.ancestors().find(|above| above.join(".git").exists())?;
    if !is_own(repository, ".git") {
        return None;
    }
    let mut above = folder.ancestors().skip(1).take_while(|above| above.starts_with(repository));
    above.find(|above| above.join(manifest).is_file() && is_own(above, manifest))
}

/// Tells whether the user owns a folder and a file or a folder in it. In a shared folder, such as `/tmp`, another user
/// could otherwise make the script part of a project whose build that user controls.
fn is_own(folder: &Path, name: &str) -> bool {
    let of_user = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| is_own_file(&found));
    of_user(folder) && of_user(&folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_what_its_name_and_its_files_say() {
        let folder = tempfile::tempdir().unwrap();
        let root = &fs::canonicalize(folder.path()).unwrap();
        for file in [
            "server.py",
            "notes.mcpb",
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
            ("./notes.mcpb", "mcpb:///notes.mcpb"),
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
        // The system goes from the target of a link to the folder above it.
        std::os::unix::fs::symlink(root.join("module/cmd"), root.join("link")).unwrap();
        fs::write(root.join("module/server.py"), "").unwrap();
        for path in ["./link/../server.py", "uvx://./link/../server.py"] {
            let package = match PackageReference::parse(path) {
                Some(package) => package.unwrap().resolved_against(root),
                None => reference(Path::new(path), root).unwrap(),
            };
            assert_eq!(package.project(), Some(&*root.join("module/server.py")), "{path}");
        }
    }

    #[test]
    fn a_script_belongs_to_the_project_of_its_folder_or_its_repository() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("repository/src")).unwrap();
        let script = root.join("repository/src/server.js");
        let project = || project_of_script(&script, Ecosystem::Node).map(Path::to_owned);
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

    #[test]
    fn a_folder_of_another_user_makes_nothing_a_project() {
        use std::os::unix::fs::lchown;

        // Only this user can give files away.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::create_dir_all(root.join("own")).unwrap();
        fs::write(root.join("pyproject.toml"), "").unwrap();
        fs::write(root.join("go.mod"), "").unwrap();
        let script = root.join("own/server.py");
        let found = || {
            (project_of_script(&script, Ecosystem::Python).is_some(), go_module(&root.join("own")).is_some())
        };
        assert_eq!(found(), (true, true));
        for (given, expected) in [
            (".git", (false, true)),
            ("pyproject.toml", (false, true)),
            ("go.mod", (true, false)),
            ("", (false, false)),
        ] {
            let path = root.join(given);
            lchown(&path, Some(12345), None).unwrap();
            assert_eq!(found(), expected, "{given}");
            lchown(&path, Some(0), None).unwrap();
        }
    }
}
