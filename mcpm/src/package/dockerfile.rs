//! Renders the Dockerfile of a package, with a prepared stage, an install stage, and a final stage.
//!
//! User input is passed to fixed scripts in the exec form of `RUN`, so no shell parses it. The Dockerfile uses no
//! mounts and no here-documents, so the classic builder of every engine can build it.

use std::fmt::Write as _;

use super::{Ecosystem, certificates};
use crate::{image::ImageReference, runtime::labels};

/// The variable with the word that marks the report in the build's output.
pub(super) const REPORT_ARG: &str = "MCPM_REPORT";
/// The variable with the id of the build.
pub(super) const BUILD_ARG: &str = "MCPM_BUILD";
/// The user and the group that servers run as.
const USER: &str = "65532:65532";

/// The source that is installed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    /// A package of an index.
    Index {
        /// The requirement, in the syntax of the ecosystem's tool.
        requirement: &'a str,
        /// The package's name.
        name: &'a str,
    },
    /// A local project; for Go, the folder of the program in it.
    Project(&'a str),
    /// A local script: its path below the root of its project.
    Script(&'a str),
    /// A script of a bundle, whose packages are installed: its path below the bundle.
    BundleScript(&'a str),
    /// A bundle that has all its packages.
    Bundle {
        /// The program and its first arguments.
        command: &'a [String],
        /// The version of the server.
        version: &'a str,
    },
}

/// The inputs of a Dockerfile.
#[derive(Debug)]
pub(super) struct DockerfileSpec<'a> {
    pub(super) ecosystem: Ecosystem,
    /// The image that the package is installed in.
    pub(super) builder: &'a ImageReference,
    /// The image that the server runs in, if it is not the builder's; `None` for the builder's image, and for a Go
    /// program without a base image.
    pub(super) runtime: Option<&'a ImageReference>,
    pub(super) source: Source<'a>,
    /// The requirements of packages that are installed with it.
    pub(super) with: &'a [String],
    pub(super) packages: &'a [String],
    pub(super) has_certificates: bool,
    /// Build arguments in addition to those for proxies.
    pub(super) args: Vec<&'a str>,
}

impl DockerfileSpec<'_> {
    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        self.write_base_stage(&mut text, self.builder, "ready");
        text.push_str("FROM ready AS builder\n");
        for arg in &self.args {
            let _ = writeln!(text, "ARG {arg}");
        }
        match (self.source, self.ecosystem) {
            (Source::Bundle { command, version }, _) => self.bundle(&mut text, command, version),
            (_, Ecosystem::Python) => self.python(&mut text),
            (_, Ecosystem::Node) => self.node(&mut text),
            (_, Ecosystem::Go) => self.go(&mut text),
            // Other sources of this ecosystem do not exist.
            (_, Ecosystem::Bundle) => {}
        }
        self.write_final_stage(&mut text);
        text
    }

    /// The base with certificates, packages and the server's user.
    fn write_base_stage(&self, text: &mut String, base: &ImageReference, name: &str) {
        let _ = writeln!(text, "FROM {base} AS {name}\nUSER 0:0\nCOPY prepare.sh /mcpm/");
        if self.has_certificates {
            let _ = writeln!(text, "COPY ca /mcpm/ca");
        }
        let mut command = vec!["/bin/sh", "/mcpm/prepare.sh"];
        command.extend(self.packages.iter().map(String::as_str));
        run(text, &command);
        if self.has_certificates {
            self.write_ca_variables(text);
        }
        // This comes after the steps that builds share, so that the layers of those steps are reused.
        let _ = writeln!(text, "ARG {BUILD_ARG}\nLABEL {}=\"${BUILD_ARG}\"\n", labels::BUILD);
    }

    /// Sets the variables of the certificates.
    fn write_ca_variables(&self, text: &mut String) {
        let variables: Vec<_> =
            certificates::CA_VARIABLES.iter().map(|(name, path)| format!("{name}={path}")).collect();
        let _ = writeln!(text, "ENV {}", variables.join(" "));
    }

    /// Makes the command of a bundle the server's command. Nothing is installed.
    fn bundle(&self, text: &mut String, command: &[String], version: &str) {
        text.push_str("COPY bundle.sh launcher.sh /mcpm/\nCOPY src /app/src\n");
        let script = ["/bin/sh", "/mcpm/bundle.sh"];
        run(text, &script.into_iter().chain(command.iter().map(String::as_str)).collect::<Vec<_>>());
        let server = "/app/bin/server";
        let command = serde_json::json!({"name": "server", "path": server, "file": server});
        let report = serde_json::json!({"version": version, "commands": [command]}).to_string();
        self.write_report_step(text, &[script[0], script[1], "--report", &report]);
    }

    fn python(&self, text: &mut String) {
        if self.has_certificates {
            let _ = writeln!(text, "ENV PIP_CERT={}", certificates::CA_BUNDLE_FILE);
        }
        text.push_str("COPY python.sh launcher.sh report.py uv.py /mcpm/\n");
        let reported = self.install(text, "/mcpm/python.sh", "/mcpm/src");
        self.write_report_step(text, &[&["/app/venv/bin/python", "/mcpm/report.py"], &reported[..]].concat());
    }

    fn node(&self, text: &mut String) {
        text.push_str("COPY node.sh launcher.sh report.js /mcpm/\n");
        let reported = self.install(text, "/mcpm/node.sh", "/app/src");
        self.write_report_step(text, &[&["node", "/mcpm/report.js"], &reported[..]].concat());
    }

    /// Runs the script that installs the source, and returns the command that reports the installation. The files of a
    /// project are copied to `project`; those of a script become a part of the image.
    fn install(&self, text: &mut String, script: &str, project: &str) -> Vec<&str> {
        let (folder, args, reported) = match self.source {
            Source::Index { requirement, name } => (None, vec![requirement], vec![name]),
            Source::Project(_) => (Some(project), vec!["--project"], vec!["--project"]),
            Source::Script(path) => (Some("/app/src"), vec!["--script", path], vec!["--script", path]),
            Source::BundleScript(path) => (Some("/app/src"), vec!["--bundle", path], vec!["--script", path]),
            Source::Bundle { .. } => (None, Vec::new(), Vec::new()),
        };
        if let Some(folder) = folder {
            let _ = writeln!(text, "COPY src {folder}");
        }
        let with = self.with.iter().map(String::as_str);
        run(text, &["/bin/sh", script].into_iter().chain(args).chain(with).collect::<Vec<_>>());
        reported
    }

    fn go(&self, text: &mut String) {
        text.push_str("COPY go.sh go_root.sh report_go.sh /mcpm/\n");
        match self.source {
            Source::Index { requirement, .. } => {
                run(text, &["/bin/sh", "/mcpm/go.sh", "module", requirement]);
            }
            Source::Project(folder) | Source::Script(folder) => {
                text.push_str("COPY module /mcpm/src\n");
                run(text, &["/bin/sh", "/mcpm/go.sh", "modules"]);
                text.push_str("COPY src /mcpm/src\n");
                run(text, &["/bin/sh", "/mcpm/go.sh", "project", folder]);
            }
            Source::BundleScript(_) | Source::Bundle { .. } => {}
        }
        run(text, &["/bin/sh", "/mcpm/go_root.sh"]);
        self.write_report_step(text, &["/bin/sh", "/mcpm/report_go.sh"]);
    }

    /// Reports what was installed. It runs in every build, since engines do not repeat the output of cached steps.
    fn write_report_step(&self, text: &mut String, command: &[&str]) {
        let _ = writeln!(text, "ARG {REPORT_ARG}");
        run(text, command);
        text.push('\n');
    }

    /// The final stage.
    fn write_final_stage(&self, text: &mut String) {
        match (self.ecosystem, self.runtime) {
            (Ecosystem::Go, None) => {
                text.push_str("FROM scratch\nCOPY --from=builder /mcpm/root/ /\nENV PATH=/app/bin\n");
                if self.has_certificates {
                    self.write_ca_variables(text);
                }
            }
            (Ecosystem::Go, Some(runtime)) if runtime != self.builder => {
                self.write_base_stage(text, runtime, "runtime");
                text.push_str("FROM runtime\nCOPY --from=builder /app /app\nENV PATH=/app/bin:$PATH\n");
            }
            (Ecosystem::Go, Some(_)) => {
                text.push_str("FROM ready\nCOPY --from=builder /app /app\nENV PATH=/app/bin:$PATH\n");
            }
            (Ecosystem::Bundle, _) => text.push_str("FROM ready\nCOPY --from=builder /app /app\n"),
            (Ecosystem::Python, _) => {
                text.push_str("FROM ready\nCOPY --from=builder /app /app\nENV PATH=/app/venv/bin:$PATH\n");
            }
            (Ecosystem::Node, _) => {
                text.push_str(
                    "FROM ready\nCOPY --from=builder /app /app\nENV PATH=/app/node_modules/.bin:$PATH\n",
                );
            }
        }
        let _ = writeln!(text, "ENV HOME=/home/mcpm\nHEALTHCHECK NONE\nUSER {USER}\nWORKDIR /home/mcpm");
    }
}

/// Returns the Dockerfile of the second step, which sets the entry point.
pub(super) fn entrypoint_dockerfile(image: &str, command: &str) -> String {
    format!("FROM {image}\nENTRYPOINT {}\nCMD []\n", json(&[command]))
}

/// Returns a command in exec form.
fn run(text: &mut String, command: &[&str]) {
    let _ = writeln!(text, "RUN {}", json(command));
}

fn json(words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|word| serde_json::Value::from(*word).to_string()).collect();
    format!("[{}]", words.join(", "))
}
