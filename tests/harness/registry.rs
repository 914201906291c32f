//! Starts a real image registry that requires a login, on a loopback address. The registry ends with its test.

use std::{
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use super::{poll, testbed};

/// The user `mcpm` with the password `secret`, in the format of `htpasswd -nbB`.
const USERS: &str = "mcpm:$2y$05$lxFeZhi0O2y8FUgVWFfEzuyroAqCx2zZYVMkN7UGSsZjU/f/llYee\n";
/// The same login, in the format of `docker login`.
const ENCODED: &str = "bWNwbTpzZWNyZXQ=";
/// The same login, for programs.
pub const LOGIN: &str = "mcpm:secret";

/// A running registry.
#[derive(Debug)]
pub struct ImageRegistry {
    process: Child,
    address: String,
    folder: tempfile::TempDir,
}

impl ImageRegistry {
    /// Starts a registry.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = std::env::var("MCPM_TEST_REGISTRY_PORT").unwrap_or_else(|_| "0".to_owned());
        let listener = TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let address = format!("127.0.0.1:{port}");
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("users"), USERS).unwrap();
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
             http: {{addr: \"{address}\"}}\nauth: {{htpasswd: {{realm: test, path: {}}}}}\n",
            path("data"),
            path("users"),
        );
        std::fs::write(path("config.yml"), config).unwrap();
        std::fs::create_dir(path("login")).unwrap();
        let mut command = Command::new(testbed::path("MCPM_TEST_REGISTRY_PROGRAM"));
        command.arg("serve").arg(path("config.yml")).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().unwrap();
        poll::wait_until_listening("the registry", ([127, 0, 0, 1], port).into());
        let registry = Self { process, address: address.clone(), folder };
        registry.log_in(&[&address]);
        registry
    }

    /// Its host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The folder with the credentials, for `DOCKER_CONFIG`.
    pub fn login(&self) -> PathBuf {
        self.folder.path().join("login")
    }

    /// Stores the credentials for these addresses.
    ///
    /// # Panics
    /// If they cannot be written.
    pub fn log_in(&self, addresses: &[&str]) {
        let logins: Vec<_> =
            addresses.iter().map(|address| format!(r#""{address}": {{"auth": "{ENCODED}"}}"#)).collect();
        let config = format!(r#"{{"auths": {{{}}}}}"#, logins.join(", "));
        std::fs::write(self.login().join("config.json"), config).unwrap();
    }
}

impl Drop for ImageRegistry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
