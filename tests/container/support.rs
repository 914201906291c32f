//! Provides the shared parts of the runtime tests: a runtime, an image that contains a shell, and containers that are
//! removed at the end.

use std::{
    collections::BTreeMap,
    fs,
    ops::Deref,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt;
use mcpm::{
    Environment,
    environment::EngineSettings,
    image::{ImageReference, credentials::CredentialStore, store::ImageStore},
    runtime::{
        Attachment, Confinement, ContainerId, ContainerSpec, EngineName, LogChunk, LogStream, Network,
        Runtime, builtin,
        docker::{Docker, EngineEndpoint},
        labels,
    },
};
use mcpm_tests::harness::{
    runtimes::{TestRuntime, run_as_ordinary_user},
    testbed,
};
use tempfile::TempDir;

pub(crate) const SHELL_IMAGE: &str = "mcpm-rt/shell:1";
/// The variable with the archive of that image, for a test that runs as an ordinary user.
const SHELL_ARCHIVE: &str = "MCPM_TEST_SHELL_ARCHIVE";
/// Time limit for anything but a stop on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The address of the engine under test: `MCPM_TEST_ENGINE`, or Docker's usual socket.
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

/// The name of an image whose entry point is the shell with `-c`. An engine builds it only once, so change the tag
/// together with the image.
pub(crate) fn shell_image() -> &'static str {
    static IMAGE: OnceLock<&'static str> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let present = ["--host", &endpoint(), "image", "inspect", SHELL_IMAGE];
        if Command::new("docker").args(present).output().unwrap().status.success() {
            return SHELL_IMAGE;
        }
        let root = tempfile::tempdir().unwrap();
        for folder in ["tmp", "data", "proc"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        fs::copy(testbed::path("MCPM_TEST_BUSYBOX"), root.path().join("busybox")).unwrap();
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

/// Returns the command that runs `script` in the shell.
pub(crate) fn shell(name: &str, script: &str) -> ContainerSpec {
    ContainerSpec {
        name: name.to_owned(),
        image: SHELL_IMAGE.to_owned(),
        args: vec![script.to_owned()],
        env: BTreeMap::new(),
        labels: BTreeMap::from([(labels::MANAGED.to_owned(), "true".to_owned())]),
        mounts: Vec::new(),
        overlays: Vec::new(),
        network: Network::None,
        ports: Vec::new(),
        stdin: true,
        unlogged: false,
        pids_limit: 256,
        confinement: Confinement::default(),
        entry: None,
    }
}

/// An archive of the image that contains a shell, which an ordinary user may read: the file that `SHELL_ARCHIVE` names,
/// or an archive that the engine writes.
struct ShellArchive {
    path: PathBuf,
    _folder: Option<TempDir>,
}

impl ShellArchive {
    fn new() -> Self {
        if let Some(path) = std::env::var_os(SHELL_ARCHIVE) {
            return Self { path: path.into(), _folder: None };
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shell.tar");
        docker(&["save", "--output", &text(&path), shell_image()]);
        for (path, mode) in [(folder.path(), 0o755), (&path, 0o644)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        Self { path, _folder: Some(folder) }
    }
}

/// Runs a test with a runtime, as the user of that runtime.
pub(crate) fn run(kind: TestRuntime, test: &str, body: impl AsyncFnOnce(&Engine)) {
    if kind.changes_user() {
        let archive = ShellArchive::new();
        return run_as_ordinary_user(
            test,
            &[(SHELL_ARCHIVE, &text(&archive.path)), ("HOME", "/nonexistent")],
        );
    }
    let tasks = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tasks.block_on(async {
        let engine = Engine::connect(kind).await;
        body(&engine).await;
        engine.remove_all().await;
    });
}

/// The runtime under test. It removes everything that it created when the test ends, even if the test fails.
pub(crate) struct Engine {
    runtime: Arc<dyn Runtime>,
    name: EngineName,
    created: Mutex<Vec<String>>,
    /// The images and the containers of the built-in runtime.
    folder: Option<TempDir>,
}

impl Engine {
    async fn connect(kind: TestRuntime) -> Self {
        let (runtime, folder): (Arc<dyn Runtime>, _) = match kind {
            TestRuntime::Engine => {
                shell_image();
                let endpoint = EngineEndpoint::parse(&endpoint()).unwrap();
                (Arc::new(Docker::connect(&endpoint, CredentialStore::default()).await.unwrap()), None)
            }
            TestRuntime::Builtin | TestRuntime::BuiltinAsUser => {
                let folder = tempfile::tempdir().unwrap();
                image_store_in(folder.path()).load(&ShellArchive::new().path).unwrap();
                (builtin_in(folder.path(), EngineSettings::default()), Some(folder))
            }
        };
        let name = runtime.engine().await.unwrap().name;
        Self { runtime, name, created: Mutex::default(), folder }
    }

    pub(crate) fn runtime(&self) -> &dyn Runtime {
        &*self.runtime
    }

    pub(crate) fn is_builtin(&self) -> bool {
        self.name == EngineName::Builtin
    }

    pub(crate) fn is_docker(&self) -> bool {
        self.name == EngineName::Docker
    }

    /// Gives the image that contains the shell another name.
    pub(crate) fn tag(&self, name: &str) {
        let Some(folder) = &self.folder else {
            docker(&["tag", SHELL_IMAGE, name]);
            return;
        };
        let images = image_store_in(folder.path());
        let image = images.find(&ImageReference::parse(SHELL_IMAGE).unwrap()).unwrap().unwrap();
        images.tag(&image.id, &ImageReference::parse(name).unwrap()).unwrap();
    }

    /// Removes its containers, and waits until they are gone.
    async fn remove_all(&self) {
        let created = std::mem::take(&mut *self.created.lock().unwrap());
        for name in created {
            if self.is_builtin() {
                self.runtime.remove(&ContainerId(name)).await.unwrap();
            } else {
                remove_by_command(&name);
            }
        }
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

    /// Returns the complete output of a container as text.
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

/// Returns the built-in runtime with a folder for its images and containers.
pub(crate) fn builtin_in(folder: &Path, engine: EngineSettings) -> Arc<dyn Runtime> {
    let environment = Environment {
        state_dir: folder.join("state"),
        cache_dir: folder.join("cache"),
        engine,
        ..Environment::from_process()
    };
    builtin::open(&environment).unwrap()
}

/// Returns the images of the built-in runtime in a folder.
pub(crate) fn image_store_in(folder: &Path) -> ImageStore {
    ImageStore::open(&folder.join("cache/images")).unwrap()
}

/// Removes a container with the `docker` command, if it exists.
fn remove_by_command(name: &str) {
    let _ = Command::new("docker").args(["--host", &endpoint(), "rm", "-fv", name]).output();
}

impl Deref for Engine {
    type Target = dyn Runtime;

    fn deref(&self) -> &Self::Target {
        &*self.runtime
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if !self.is_builtin() {
            self.created.lock().unwrap().iter().for_each(|name| remove_by_command(name));
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

/// Returns the name of a path as text.
pub(crate) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
