//! Derives the capabilities of an engine from its kind, its address and its `/info` response.

use serde::Deserialize;

use super::endpoint::EngineEndpoint;
use crate::{platform::linux_release, runtime::EngineName};

/// The parts of an engine's `/info` response that are used.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct SystemInfo {
    kernel_version: String,
    architecture: String,
    logging_driver: String,
    init_commit: Commit,
    security_options: Option<Vec<String>>,
    /// Only Podman sets this field; Docker reports a security option instead.
    rootless: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Commit {
    #[serde(rename = "ID")]
    id: String,
}

impl SystemInfo {
    /// Returns the architecture under Rust's name for it. Docker reports the kernel's name, Podman that of Go.
    pub(super) fn architecture(&self) -> &str {
        match self.architecture.as_str() {
            "amd64" => "x86_64",
            "arm64" => "aarch64",
            other => other,
        }
    }

    pub(super) fn is_rootless(&self) -> bool {
        self.rootless || self.has_security_option("rootless")
    }

    fn has_security_option(&self, security: &str) -> bool {
        self.security_options.iter().flatten().any(|option| option.contains(security))
    }
}

/// The capabilities of an engine that requests depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EngineCapabilities {
    /// Whether the engine has the init program that forwards signals and reaps processes.
    pub(super) init: bool,
    /// The log driver, if it is one whose size can be limited.
    pub(super) bounded_log_driver: Option<String>,
    /// Whether the files of the image are copied into a `tmpfs` by default.
    pub(super) copies_image_into_tmpfs: bool,
    /// Whether the engine labels containers and files for SELinux.
    pub(super) selinux: bool,
    /// Whether containers run on the kernel that this process runs on.
    pub(super) same_kernel: bool,
}

impl EngineCapabilities {
    pub(super) fn detect(name: EngineName, endpoint: &EngineEndpoint, info: &SystemInfo) -> Self {
        let log_driver = match name {
            // Podman does not report its default log driver.
            EngineName::Podman => "k8s-file",
            EngineName::Docker | EngineName::Builtin => info.logging_driver.as_str(),
        };
        let is_bounded = matches!(log_driver, "json-file" | "local" | "k8s-file");
        Self {
            // Docker reports this if it cannot run the program.
            init: info.init_commit.id != "N/A",
            bounded_log_driver: is_bounded.then(|| log_driver.to_owned()),
            copies_image_into_tmpfs: name == EngineName::Podman,
            selinux: info.has_security_option("selinux"),
            same_kernel: matches!(endpoint, EngineEndpoint::Unix(_)) && runs_on_this_kernel(info),
        }
    }
}

/// Whether the engine runs on the kernel of this machine. An engine in a virtual machine may have its socket on this
/// machine, but it runs on another kernel.
fn runs_on_this_kernel(info: &SystemInfo) -> bool {
    linux_release().is_some_and(|ours| ours == info.kernel_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_kernel_needs_a_unix_socket_and_this_kernel() {
        let socket = EngineEndpoint::Unix("/s".into());
        let tcp = EngineEndpoint::Tcp("127.0.0.1:1".to_owned());
        let kernel = rustix::system::uname().release().to_str().unwrap().to_owned();
        let here = SystemInfo { kernel_version: kernel, ..SystemInfo::default() };
        let in_a_machine =
            SystemInfo { kernel_version: "6.6.6-linuxkit".to_owned(), ..SystemInfo::default() };
        let near =
            |endpoint, info| EngineCapabilities::detect(EngineName::Docker, endpoint, info).same_kernel;
        assert_eq!(near(&socket, &here), cfg!(target_os = "linux"));
        assert!(
            !near(&tcp, &here) && !near(&socket, &in_a_machine) && !near(&socket, &SystemInfo::default())
        );
    }

    #[test]
    fn missing_capabilities_are_not_requested() {
        let socket = EngineEndpoint::Unix("/s".into());
        let json = r#"{"InitCommit":{"ID":"N/A","Expected":"x"},"LoggingDriver":"journald"}"#;
        let info: SystemInfo = serde_json::from_str(json).unwrap();
        let docker = EngineCapabilities::detect(EngineName::Docker, &socket, &info);
        assert_eq!((docker.init, docker.bounded_log_driver.as_deref()), (false, None));
        assert_eq!(
            EngineCapabilities::detect(EngineName::Podman, &socket, &info).bounded_log_driver.as_deref(),
            Some("k8s-file")
        );
    }

    #[test]
    fn detects_rootless_mode_of_both_engines() {
        for (json, rootless) in [
            (r#"{"SecurityOptions":["name=seccomp,profile=default","name=rootless"]}"#, true),
            (r#"{"SecurityOptions":["name=seccomp,profile=default"],"Rootless":true}"#, true),
            (r#"{"SecurityOptions":null}"#, false),
        ] {
            assert_eq!(serde_json::from_str::<SystemInfo>(json).unwrap().is_rootless(), rootless, "{json}");
        }
    }
}
