//! Adapts clap's completion, so that bash and PowerShell never run a part of a completed file name as a command, and
//! zsh can load the script from a folder of functions.

use std::{
    ffi::OsString,
    io::{self, Write},
    path::Path,
};

use clap::Command;
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};

/// All shells. Elvish and fish quote inserted names by themselves.
pub(crate) const ALL: Shells<'static> =
    Shells(&[&Adapted(&Bash), &Elvish, &Fish, &Adapted(&Powershell), &Adapted(&Zsh)]);

/// Replacements in the script of bash.
const BASH_CHANGES: [(&str, &str); 2] = [
    // The word is as the user typed it, so it may have backslashes before special characters.
    (r#"words[COMP_CWORD]="$2""#, r#"words[COMP_CWORD]="${2//\\/}""#),
    // Readline quotes only file names. It also adds `/` to a word that is the name of a folder, so words that need no
    // quotes are not declared as file names. Bash 3 has no `compopt`.
    (
        "\n    fi\n}\n",
        r#"
    fi
    if [[ "${COMPREPLY[*]}" == *[^[:alnum:]${IFS}_./:@+=,~-]* ]]; then
        compopt -o filenames 2> /dev/null || COMPREPLY=()
    fi
}
"#,
    ),
];

/// If the script is in a folder of functions, zsh loads it at the first completion.
const ZSH_END: &str = "\nif [ \"$funcstack[1]\" = _mcpm ]; then _clap_dynamic_completer_mcpm \"$@\"; fi\n";

/// A shell of clap with changes.
struct Adapted(&'static dyn EnvCompleter);

impl EnvCompleter for Adapted {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn is(&self, name: &str) -> bool {
        self.0.is(name)
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        bin: &str,
        completer: &str,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        let mut script = Vec::new();
        self.0.write_registration(var, name, bin, completer, &mut script)?;
        let mut script = String::from_utf8(script).map_err(io::Error::other)?;
        match self.name() {
            "bash" => {
                for (old, new) in BASH_CHANGES {
                    if !script.contains(old) {
                        return Err(io::Error::other(
                            "the completion script for bash is not the expected one",
                        ));
                    }
                    script = script.replace(old, new);
                }
            }
            "zsh" => script += ZSH_END,
            _ => {}
        }
        buf.write_all(script.as_bytes())
    }

    fn write_complete(
        &self,
        cmd: &mut Command,
        args: Vec<OsString>,
        current_dir: Option<&Path>,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        if self.name() != "powershell" {
            return self.0.write_complete(cmd, args, current_dir, buf);
        }
        // The script of this shell quotes nothing.
        let mut found = Vec::new();
        self.0.write_complete(cmd, args, current_dir, &mut found)?;
        for line in String::from_utf8_lossy(&found).lines() {
            let word = line.split('\t').next().unwrap_or_default();
            if word.chars().all(|c| c.is_alphanumeric() || r"_-./\:+=~@".contains(c)) {
                writeln!(buf, "{line}")?;
            }
        }
        Ok(())
    }
}
