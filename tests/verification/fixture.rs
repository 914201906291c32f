//! Provides a registry, a signer, and workloads that require signed images.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use mcpm::{
    Environment, Error, Workload,
    environment::EngineSettings,
    workload::{EventStream, WorkloadEvent, WorkloadSpec},
};
use mcpm_tests::harness::{
    registry::{ImageRegistry, LOGIN},
    testbed,
};

pub(crate) const SMALL: &str = "mcpm-test/quick-exit:1";
pub(crate) const OTHER: &str = "mcpm-test/silent:1";
pub(crate) const SERVER: &str = "mcpm-test/everything:1";

pub(crate) struct SigningFixture {
    pub(crate) registry: ImageRegistry,
    pub(crate) folder: tempfile::TempDir,
    front: Option<(Child, String)>,
    /// The engine's names of the pushed images.
    names: std::sync::Mutex<Vec<String>>,
}

/// The outcome of a workload.
pub(crate) struct ResolveOutcome {
    pub(crate) result: Result<WorkloadSpec, Error>,
    pub(crate) warnings: Vec<String>,
}

impl ResolveOutcome {
    /// The result of the verification, and the image that runs.
    pub(crate) fn spec(&self) -> &WorkloadSpec {
        self.result.as_ref().unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn image(&self) -> &str {
        &self.spec().container().unwrap().image
    }

    pub(crate) fn error(&self) -> &Error {
        self.result.as_ref().expect_err("it was not refused")
    }
}

impl SigningFixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bench = Self {
            registry: ImageRegistry::start(),
            folder,
            front: None,
            names: std::sync::Mutex::default(),
        };
        bench.signer(&["make", &bench.path("")]);
        bench
    }

    /// Puts a proxy that supports the referrers API in front of the registry; from then on, image names contain its
    /// address.
    pub(crate) fn with_referrers(mut self) -> Self {
        let url = format!("http://{}", self.registry.address());
        let mut command = Command::new(testbed::path("MCPM_TEST_SIGNER"));
        let mut process = command.args(["referrers", &url]).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let address = address.trim().to_owned();
        self.registry.log_in(&[self.registry.address(), &address]);
        self.front = Some((process, address));
        self
    }

    /// Returns a path in the folder.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn signer(&self, args: &[&str]) {
        let output = Command::new(testbed::path("MCPM_TEST_SIGNER")).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn docker(&self, args: &[&str]) -> String {
        let login = self.registry.login().display().to_string();
        let output = Command::new("docker").args(["--config", &login]).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Pushes a local image under this name, and returns the full name and the digest.
    pub(crate) fn push(&self, local: &str, name: &str) -> (String, String) {
        let full = format!("{}/{name}", self.registry.address());
        self.docker(&["tag", local, &full]);
        let said = self.docker(&["push", &full]);
        let digest = said.split_whitespace().find(|word| word.starts_with("sha256:")).unwrap().to_owned();
        let repository = name.split(':').next().unwrap();
        let front = self.front.as_ref().map(|(_, address)| address.as_str());
        let mut names = self.names.lock().unwrap();
        names.push(full.clone());
        for address in front.into_iter().chain([self.registry.address()]) {
            names.push(format!("{address}/{repository}@{digest}"));
        }
        (front.map_or(full, |address| format!("{address}/{name}")), digest)
    }

    /// Removes an image of that name from the engine at the end.
    pub(crate) fn remove_at_end(&self, name: String) {
        self.names.lock().unwrap().push(name);
    }

    /// Signs an image in a repository; `how` contains the signer's arguments.
    pub(crate) fn sign(&self, repository: &str, digest: &str, how: &[&str]) {
        let folder = self.path("");
        let mut args = vec!["sign", &folder, "--registry", self.registry.address(), "--login", LOGIN];
        args.extend(["--repository", repository, "--digest", digest]);
        args.extend(how);
        self.signer(&args);
    }

    pub(crate) fn environment(&self) -> Environment {
        let process = Environment::from_process();
        Environment {
            state_dir: self.folder.path().join("state"),
            config_dir: self.folder.path().join("config"),
            cache_dir: self.folder.path().join("cache"),
            engine: EngineSettings {
                docker_config_dir: Some(self.registry.login()),
                ..process.engine.clone()
            },
            ..process
        }
    }

    pub(crate) fn workload(&self, server: &str, options: &[(&str, &str)]) -> Result<Workload, Error> {
        let mut builder = Workload::builder(server).environment(self.environment());
        for (name, text) in options {
            builder = builder.set(name, text)?;
        }
        builder.build()
    }

    /// Resolves the image that would run, and fetches everything for that.
    pub(crate) async fn resolve(&self, server: &str, options: &[(&str, &str)]) -> ResolveOutcome {
        let workload = match self.workload(server, options) {
            Ok(workload) => workload,
            Err(error) => return ResolveOutcome { result: Err(error), warnings: Vec::new() },
        };
        let events = workload.events();
        let result = Box::pin(workload.resolve()).await;
        drop(workload);
        ResolveOutcome { result, warnings: warnings(events).await }
    }
}

/// The warnings until all senders were dropped.
async fn warnings(mut events: EventStream) -> Vec<String> {
    let mut warnings = Vec::new();
    while let Some(event) = events.next().await {
        if let WorkloadEvent::Warning { message } = event {
            warnings.push(message);
        }
    }
    warnings
}

impl Drop for SigningFixture {
    fn drop(&mut self) {
        if let Some((process, _)) = &mut self.front {
            let _ = process.kill();
            let _ = process.wait();
        }
        for name in self.names.lock().unwrap().iter() {
            let _ = Command::new("docker").args(["rmi", name]).output();
        }
    }
}
