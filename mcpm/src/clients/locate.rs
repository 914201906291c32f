//! Finds the configuration files of clients, and which clients are installed.

use std::path::{Path, PathBuf};

use super::table::{CLIENTS, ClientFormat};
use crate::{Environment, Error, ErrorKind, Result, environment::Platform};

/// Returns the client with that id.
pub(super) fn client(id: &str) -> Result<&'static ClientFormat> {
    CLIENTS.iter().find(|client| client.id == id).ok_or_else(|| {
        let known: Vec<_> = CLIENTS.iter().map(|client| client.id).collect();
        Error::new(ErrorKind::InvalidOption, format!("`{id}` is not a supported client"))
            .hint(format!("supported clients: {}", known.join(", ")))
    })
}

impl ClientFormat {
    /// Returns the user's configuration file, which need not exist; `None` without a home folder.
    pub(super) fn user_file(&self, environment: &Environment) -> Option<PathBuf> {
        if let Some((variable, file)) = self.variable
            && let Some(folder) = environment.variables.get(variable).filter(|folder| !folder.is_empty())
        {
            return Some(environment.working_dir.join(folder).join(file));
        }
        let files = match Platform::CURRENT {
            Platform::Linux => self.linux,
            Platform::MacOs => self.macos,
            Platform::Windows => self.windows,
        };
        let files: Vec<PathBuf> = files.iter().filter_map(|file| expand(file, environment)).collect();
        let has_folder = |file: &&PathBuf| file.parent().is_some_and(Path::is_dir);
        let existing = files.iter().find(|file| file.exists()).or_else(|| files.iter().find(has_folder));
        existing.or(files.first()).cloned()
    }

    /// Returns the configuration file of a project.
    ///
    /// # Errors
    /// `InvalidOption` when the client has none; `NotFound` when there is no such folder.
    pub(super) fn project_file(&self, folder: &Path) -> Result<PathBuf> {
        let Some(first) = self.project.first() else {
            let message = format!("{} does not read configuration files from project folders", self.name);
            return Err(Error::new(ErrorKind::InvalidOption, message));
        };
        if !folder.is_dir() {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("there is no folder `{}`", folder.display()),
            ));
        }
        let existing = self.project.iter().map(|file| folder.join(file)).find(|file| file.exists());
        Ok(existing.unwrap_or_else(|| folder.join(first)))
    }

    /// Whether the client's folder or program was found.
    pub(super) fn is_installed(&self, environment: &Environment) -> bool {
        let has_folder = || {
            let file = self.user_file(environment);
            let folder = file.as_deref().and_then(Path::parent);
            folder.is_some_and(|folder| Some(folder) != environment.engine.home.as_deref() && folder.is_dir())
        };
        let has_sign =
            || self.signs.iter().filter_map(|sign| expand(sign, environment)).any(|sign| sign.exists());
        let has_program = || self.programs.iter().any(|program| is_on_path(program, environment));
        has_folder() || has_sign() || has_program()
    }
}

fn expand(template: &str, environment: &Environment) -> Option<PathBuf> {
    let home = environment.engine.home.as_deref()?;
    let (base, rest) = template.split_once('/')?;
    let base = match base {
        "CONFIG" => environment.engine.config_home.clone()?,
        "SUPPORT" => home.join("Library/Application Support"),
        "APPDATA" => {
            let roaming = environment.variables.get("APPDATA").map(PathBuf::from);
            roaming.unwrap_or_else(|| home.join("AppData/Roaming"))
        }
        _ => home.to_owned(),
    };
    Some(base.join(rest))
}

fn is_on_path(program: &str, environment: &Environment) -> bool {
    let Some(path) = environment.variables.get("PATH") else { return false };
    let suffixes: &[&str] = if cfg!(windows) { &[".exe", ".cmd"] } else { &[""] };
    let names: Vec<String> = suffixes.iter().map(|suffix| format!("{program}{suffix}")).collect();
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .any(|folder| names.iter().any(|name| folder.join(name).is_file()))
}
