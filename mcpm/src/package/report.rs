//! Parses the report of a build about the installed package, and selects the command that starts the server.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::PackageReference;
use crate::{Error, ErrorKind, Result, printable::Printable as _};

/// The report. It is untrusted, since it comes from the package.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InstallReport {
    /// The name of a local project.
    #[serde(default)]
    pub(super) name: Option<String>,
    /// The installed version.
    pub(super) version: String,
    /// The package's own commands, in the order of their names.
    pub(super) commands: Vec<PackageCommand>,
}

/// A command of a package.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PackageCommand {
    pub(super) name: String,
    /// Its path in the image.
    pub(super) path: String,
    /// The file that the path resolves to. Two names of the same program have the same file.
    file: String,
}

impl InstallReport {
    /// Parses the line that begins with the word of the build.
    pub(super) fn read(line: &str, word: &str) -> Option<Self> {
        let report: Self = serde_json::from_str(line.strip_prefix(word)?.trim()).ok()?;
        let is_plain = |text: &str| text.len() <= 512 && !text.contains(char::is_control);
        let commands_are_plain = report.commands.iter().all(|command| {
            is_plain(&command.name) && is_plain(&command.path) && command.path.starts_with("/app/")
        });
        (is_plain(&report.version) && commands_are_plain).then_some(report)
    }

    /// Selects the requested command, else the only one, else the one with the package's name.
    ///
    /// # Errors
    /// `InvalidOption` names the available ones.
    pub(super) fn choose(
        &self,
        package: &PackageReference,
        requested: Option<&str>,
    ) -> Result<&PackageCommand> {
        let list = || {
            let names: Vec<_> = self.commands.iter().map(|command| format!("`{}`", command.name)).collect();
            names.join(", ")
        };
        let named = |name: &str| self.commands.iter().find(|command| names_match(&command.name, name));
        if let Some(requested) = requested {
            return self.commands.iter().find(|command| command.name == requested).ok_or_else(|| {
                let message = format!("`{package}` has no command `{}`", requested.printable());
                let error = Error::new(ErrorKind::InvalidOption, message);
                if self.commands.is_empty() { error } else { error.hint(format!("it has {}", list())) }
            });
        }
        let files: BTreeSet<&str> = self.commands.iter().map(|command| command.file.as_str()).collect();
        let like_package = package.name().or(self.name.as_deref()).and_then(|name| {
            // The scope of npm and the host of Go are not part of a command's name.
            named(name).or_else(|| named(name.rsplit('/').next()?))
        });
        match (self.commands.first(), like_package) {
            (_, Some(command)) => Ok(command),
            (Some(command), None) if files.len() == 1 => Ok(command),
            (None, None) => Err(Error::new(ErrorKind::InvalidOption, format!("`{package}` has no command"))
                .hint(match package.project() {
                    None => "it may be a library; use the package that contains the server",
                    Some(_) => "declare a command in the project, or use the path of the script that starts the server",
                })),
            (Some(_), None) => {
                let message = format!("`{package}` has several commands: {}", list());
                Err(Error::new(ErrorKind::InvalidOption, message).hint("select one with `package_command`"))
            }
        }
    }
}

/// Python's index does not distinguish `.`, `_` and `-`.
fn names_match(one: &str, other: &str) -> bool {
    let plain = |name: &str| name.to_ascii_lowercase().replace(['.', '_'], "-");
    plain(one) == plain(other)
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
