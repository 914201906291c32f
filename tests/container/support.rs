//! What the runtime tests share: an engine, an image with a shell in it, and containers that are cleaned up.

use std::{
    collections::BTreeMap,
    ops::Deref,
    path::Path,
    process::{Command, Output},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt;
use mcpm::{
    image::credentials::CredentialStore,
    runtime::{
        Attachment, Confinement, ContainerId, ContainerSpec, LogChunk, LogStream, Network, Runtime,
        docker::{Docker, EngineEndpoint},
        labels,
    },
};
use mcpm_tests::harness::testbed;

const SHELL_IMAGE: &str = "mcpm-rt/shell:1";
/// How long anything but a stop may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Where the engine under test is: `MCPM_TEST_ENGINE`, or Docker's usual socket.
pub(crate) fn endpoint() -> String {
    std::env::var("MCPM_TEST_ENGINE").unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned())
}

/// Runs the `docker` command against the engine under test.
pub(crate) fn docker(args: &[&str]) -> Output {
    let output = Command::new("docker").arg("--host").arg(endpoint()).args(args).output().unwrap();
    assert!(output.status.success(), "docker {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Returns a name that no other test and no other run uses.
pub(crate) fn unique(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("mcpm-rt-{}-{what}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The name of an image whose entry point is a shell's `-c`. Made once for an engine: change the tag with it.
pub(crate) fn shell_image() -> &'static str {
    static IMAGE: OnceLock<&'static str> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let present = ["--host", &endpoint(), "image", "inspect", SHELL_IMAGE];
        if Command::new("docker").args(present).output().unwrap().status.success() {
            return SHELL_IMAGE;
        }
        let root = tempfile::tempdir().unwrap();
        for folder in ["tmp", "data", "proc"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        std::fs::copy(testbed::path("MCPM_TEST_BUSYBOX"), root.path().join("busybox")).unwrap();
        let archive = tempfile::NamedTempFile::new().unwrap();
        let tar =
            Command::new("tar").arg("-cf").arg(archive.path()).arg("-C").arg(root.path()).arg(".").status();
        assert!(tar.unwrap().success());
        let archive = archive.path().to_str().unwrap();
        let changes = [
            "ENTRYPOINT [\"/busybox\", \"sh\", \"-c\"]",
            "CMD [\"true\"]",
            "EXPOSE 8080/tcp",
            "EXPOSE 53/udp",
            "EXPOSE 80",
        ];
        let mut args = vec!["import"];
        changes.iter().for_each(|change| args.extend(["--change", change]));
        docker(&[&args[..], &[archive, SHELL_IMAGE]].concat());
        SHELL_IMAGE
    })
}

/// Returns what starts `script` in the shell.
pub(crate) fn shell(name: &str, script: &str) -> ContainerSpec {
    ContainerSpec {
        name: name.to_owned(),
        image: shell_image().to_owned(),
        args: vec![script.to_owned()],
        env: BTreeMap::new(),
        labels: BTreeMap::from([(labels::MANAGED.to_owned(), "true".to_owned())]),
        mounts: Vec::new(),
        overlays: Vec::new(),
        network: Network::None,
        ports: Vec::new(),
        stdin: true,
        pids_limit: 256,
        confinement: Confinement::default(),
        entry: None,
    }
}

/// The engine under test; removes what it created when the test ends, however it ends.
pub(crate) struct Engine {
    runtime: Docker,
    created: std::sync::Mutex<Vec<String>>,
}

impl Engine {
    pub(crate) async fn connect() -> Self {
        let endpoint = EngineEndpoint::parse(&endpoint()).unwrap();
        let runtime = Docker::connect(&endpoint, CredentialStore::default()).await.unwrap();
        Self { runtime, created: std::sync::Mutex::default() }
    }

    /// Creates a container that is removed at the end.
    pub(crate) async fn create(&self, spec: &ContainerSpec) -> ContainerId {
        let id = self.runtime.create(spec).await.unwrap();
        self.clean_up(&spec.name);
        id
    }

    /// Creates and starts a container that is removed at the end.
    pub(crate) async fn run(&self, what: &str, script: &str) -> ContainerId {
        let id = self.create(&shell(&unique(what), script)).await;
        self.runtime.start(&id).await.unwrap();
        id
    }

    /// Removes the container of that name at the end.
    pub(crate) fn clean_up(&self, name: &str) {
        self.created.lock().unwrap().push(name.to_owned());
    }

    /// Returns everything a container wrote, as text.
    pub(crate) async fn log(&self, id: &ContainerId, options: mcpm::runtime::LogOptions) -> (String, String) {
        let chunks = self.runtime.logs(id, options).await.unwrap();
        let chunks: Vec<_> = tokio::time::timeout(LIMIT, chunks.collect()).await.unwrap();
        let text = |stream: LogStream| {
            let chunks = chunks.iter().map(|chunk| chunk.as_ref().unwrap());
            let bytes = chunks.filter(|chunk| chunk.stream == stream).flat_map(|chunk| chunk.bytes.to_vec());
            String::from_utf8(bytes.collect()).unwrap()
        };
        (text(LogStream::Stdout), text(LogStream::Stderr))
    }
}

impl Deref for Engine {
    type Target = Docker;

    fn deref(&self) -> &Docker {
        &self.runtime
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        for name in self.created.lock().unwrap().iter() {
            let _ = Command::new("docker").args(["--host", &endpoint(), "rm", "-fv", name]).output();
        }
    }
}

/// Reads from one stream of an attachment until a line is complete.
pub(crate) async fn read_line(attachment: &mut Attachment, stream: LogStream) -> String {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let chunk: LogChunk =
            tokio::time::timeout(LIMIT, attachment.output.next()).await.unwrap().unwrap().unwrap();
        if chunk.stream == stream {
            line.extend_from_slice(&chunk.bytes);
        }
    }
    String::from_utf8(line).unwrap()
}

/// Tells whether the engine has a container of that name, ours or not.
pub(crate) fn exists(name: &str) -> bool {
    let filter = format!("name=^/?{name}$");
    !docker(&["ps", "-aq", "--filter", &filter]).stdout.is_empty()
}

/// Returns the name of a path as text.
pub(crate) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
