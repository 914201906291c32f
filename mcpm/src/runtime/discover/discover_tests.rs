//! Tests of finding an engine.

use std::{fs, path::Path};

use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixListener,
};

use super::*;
use crate::testing::with_timeout;
/// Responds like an engine of that name, for as long as the test runs.
fn serve(socket: &Path, name: &'static str, api: &'static str) {
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let listener = UnixListener::bind(socket).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut lines = BufReader::new(&mut stream).lines();
            let request = lines.next_line().await.unwrap().unwrap_or_default();
            while lines.next_line().await.unwrap().is_some_and(|line| !line.is_empty()) {}
            let body = if request.contains("/version ") {
                format!(
                    r#"{{"Version":"1","ApiVersion":"{api}","Components":[{{"Name":"{name}","Version":"1"}}]}}"#
                )
            } else {
                "{}".to_owned()
            };
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
            let answer = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
}

/// An environment with only this folder.
struct Machine {
    folder: TempDir,
    settings: EngineSettings,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let docker_config_dir = Some(folder.path().join("config"));
        fs::create_dir(folder.path().join("config")).unwrap();
        Self { folder, settings: EngineSettings { docker_config_dir, ..EngineSettings::default() } }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn address(&self, name: &str) -> String {
        format!("unix://{}", self.path(name).display())
    }

    fn context(&self, name: &str, address: &str, current: bool) -> &Self {
        let meta = self.path("config/contexts/meta").join(format!("digest-of-{name}"));
        fs::create_dir_all(&meta).unwrap();
        let text =
            format!(r#"{{"Name":"{name}","Metadata":{{}},"Endpoints":{{"docker":{{"Host":"{address}"}}}}}}"#);
        fs::write(meta.join("meta.json"), text).unwrap();
        if current {
            fs::write(
                self.path("config/config.json"),
                format!(r#"{{"auths":{{}},"currentContext":"{name}"}}"#),
            )
            .unwrap();
        }
        self
    }

    async fn search(&self, wanted: Option<EngineName>, sockets: &[&str]) -> Result<String> {
        let sockets: Vec<_> = sockets.iter().map(|name| self.path(name)).collect();
        let found = search(&self.settings, wanted, &sockets).await?;
        let endpoint = found.endpoint().to_string();
        Ok(endpoint.strip_prefix(&self.address("")).unwrap_or(&endpoint).to_owned())
    }
}

#[tokio::test]
async fn settings_come_before_sockets_and_docker_host_before_the_context() {
    let mut machine = Machine::new();
    for name in ["host", "current", "named", "container", "known"] {
        serve(&machine.path(name), "Engine", "1.41");
    }
    assert_eq!(machine.search(None, &["missing", "known"]).await.unwrap(), "known");
    machine.settings.container_host = Some(machine.address("container"));
    assert_eq!(machine.search(None, &["known"]).await.unwrap(), "container");
    machine.context("current", &machine.address("current"), true).context(
        "named",
        &machine.address("named"),
        false,
    );
    assert_eq!(machine.search(None, &["known"]).await.unwrap(), "current");
    machine.settings.docker_context = Some("named".to_owned());
    assert_eq!(machine.search(None, &["known"]).await.unwrap(), "named");
    machine.settings.docker_host = Some(machine.address("host"));
    assert_eq!(machine.search(None, &["known"]).await.unwrap(), "host");
}

#[tokio::test]
async fn the_default_context_selects_no_engine() {
    let mut machine = Machine::new();
    serve(&machine.path("known"), "Engine", "1.41");
    machine.context("current", "unix:///missing", true);
    machine.settings.docker_context = Some("default".to_owned());
    assert_eq!(machine.search(None, &["known"]).await.unwrap(), "known");
}

#[tokio::test]
async fn an_engine_that_was_set_is_never_replaced() {
    let mut machine = Machine::new();
    serve(&machine.path("known"), "Engine", "1.41");
    machine.settings.docker_host = Some(machine.address("missing"));
    let error = machine.search(None, &["known"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable);
    let text = error.to_string();
    assert!(text.contains("DOCKER_HOST") && text.contains("missing") && text.contains("no socket"), "{text}");

    machine.settings.docker_host = None;
    machine.context("work", &machine.address("missing"), true);
    let text = machine.search(None, &["known"]).await.unwrap_err().to_string();
    assert!(text.contains("currentContext in ") && text.contains("no socket"), "{text}");

    machine.settings.docker_context = Some("nowhere".to_owned());
    let text = machine.search(None, &["known"]).await.unwrap_err().to_string();
    assert!(text.contains("`nowhere`") && text.contains("does not exist"), "{text}");
}

#[tokio::test]
async fn unsupported_endpoints_are_rejected_without_fallback() {
    let mut machine = Machine::new();
    serve(&machine.path("known"), "Engine", "1.41");
    machine.context("tls", "tcp://engine.example:1234", true);
    fs::create_dir_all(machine.path("config/contexts/tls/digest-of-tls")).unwrap();
    assert_eq!(machine.search(None, &["known"]).await.unwrap_err().kind(), ErrorKind::Unsupported);
    machine.settings.docker_host = Some("ssh://engine.example".to_owned());
    let error = machine.search(None, &["known"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("set by: DOCKER_HOST"), "{error}");
    machine.settings.docker_host = Some("tcp://127.0.0.1:1".to_owned());
    machine.settings.docker_tls_verify = true;
    assert_eq!(machine.search(None, &["known"]).await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn the_wanted_engine_is_the_only_one_taken() {
    let mut machine = Machine::new();
    serve(&machine.path("docker"), "Engine", "1.41");
    serve(&machine.path("podman"), "Podman Engine", "1.41");
    let both = ["docker", "podman"];
    assert_eq!(machine.search(Some(EngineName::Podman), &both).await.unwrap(), "podman");
    assert_eq!(machine.search(Some(EngineName::Docker), &both).await.unwrap(), "docker");
    machine.settings.docker_host = Some(machine.address("missing"));
    assert_eq!(machine.search(Some(EngineName::Podman), &both).await.unwrap(), "podman");
    machine.settings.docker_host = Some(machine.address("podman"));
    let text = machine.search(Some(EngineName::Docker), &both).await.unwrap_err().to_string();
    assert!(text.contains("it is podman, not docker"), "{text}");
}

#[tokio::test]
async fn every_place_is_named_with_its_reason_on_one_line() {
    let machine = Machine::new();
    serve(&machine.path("old"), "Engine", "1.40");
    drop(std::os::unix::net::UnixListener::bind(machine.path("dead")).unwrap());
    let silent = UnixListener::bind(machine.path("silent")).unwrap();
    let places = ["missing", "old", "dead", "silent"];
    let error = with_timeout(machine.search(None, &places)).await.unwrap_err();
    drop(silent);
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable);
    let text = error.to_string();
    for (name, why) in [
        ("missing", "no socket there"),
        ("old", "it supports API versions up to 1.40 only"),
        ("dead", "connection refused"),
        ("silent", "no response in time"),
    ] {
        assert!(text.contains(&format!("`{}`: {why}", machine.address(name))), "{why} is missing in {text}");
    }
    assert!(!text.contains('\n'));
}

#[tokio::test]
async fn the_hint_does_not_name_an_engine_that_is_not_installed() {
    let machine = Machine::new();
    let text = machine.search(None, &["a", "b"]).await.unwrap_err().to_string();
    assert!(text.ends_with(how_to_start(None, Platform::CURRENT)), "{text}");
    let text = machine.search(Some(EngineName::Podman), &["a"]).await.unwrap_err().to_string();
    assert!(text.contains("install Podman") && text.contains("no podman engine responds"), "{text}");
}

// Only on Linux can a single thread change its user.
#[cfg(target_os = "linux")]
#[test]
fn permission_denied_on_the_socket_has_a_hint() {
    // The superuser may use every socket, so a thread of its own becomes nobody. Only that thread does.
    let thread = std::thread::spawn(|| {
        let machine = Machine::new();
        use std::os::unix::fs::PermissionsExt as _;

        let set_mode =
            |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        // The user `nobody` can reach the socket.
        set_mode(machine.folder.path(), 0o755);
        let _socket = std::os::unix::net::UnixListener::bind(machine.path("closed")).unwrap();
        set_mode(&machine.path("closed"), 0o000);
        if rustix::process::geteuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(None, nobody, None).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let text = runtime.block_on(machine.search(None, &["closed"])).unwrap_err().to_string();
        if rustix::process::getuid().is_root() {
            let root = rustix::process::Uid::ROOT;
            rustix::thread::set_thread_res_uid(None, root, None).unwrap();
        }
        text
    });
    let text = thread.join().unwrap();
    assert!(text.contains("permission denied") && text.contains("usermod -aG docker"), "{text}");
}

#[test]
fn one_socket_with_two_names_is_tried_once() {
    let machine = Machine::new();
    fs::create_dir(machine.path("run")).unwrap();
    std::os::unix::fs::symlink(machine.path("run"), machine.path("var-run")).unwrap();
    fs::write(machine.path("run/s"), "").unwrap();
    let sockets = [machine.path("var-run/s"), machine.path("run/s"), machine.path("x")];
    assert_eq!(distinct(&sockets), [machine.path("var-run/s"), machine.path("x")]);
}

#[test]
fn the_wanted_engines_sockets_come_first() {
    let settings = EngineSettings {
        home: Some("/home/u".into()),
        config_home: Some("/home/u/.config".into()),
        runtime_dir: Some("/run/user/1".into()),
        ..EngineSettings::default()
    };
    let sockets = well_known(&settings, None);
    assert_eq!(sockets.len(), 11);
    assert_eq!(sockets[0], Path::new("/var/run/docker.sock"));
    assert!(sockets.contains(&"/home/u/.config/colima/default/docker.sock".into()));
    let sockets = well_known(&settings, Some(EngineName::Podman));
    assert_eq!(sockets[0], Path::new("/run/user/1/podman/podman.sock"));
}

#[test]
fn podmans_machines_follow_its_service_with_the_default_machine_first() {
    let machine = Machine::new();
    fs::create_dir(machine.path("podman")).unwrap();
    for name in ["a-api.sock", "podman-machine-default-api.sock", "b-api.sock", "gvproxy.sock", "a.pid"] {
        fs::write(machine.path("podman").join(name), "").unwrap();
    }
    let settings = EngineSettings {
        home: Some("/home/u".into()),
        private_temp_dir: Some(machine.path("")),
        ..EngineSettings::default()
    };
    let podman = machine.path("podman");
    assert_eq!(
        well_known(&settings, Some(EngineName::Podman))[..5],
        [
            PathBuf::from("/run/podman/podman.sock"),
            podman.join("podman-machine-default-api.sock"),
            podman.join("a-api.sock"),
            podman.join("b-api.sock"),
            PathBuf::from("/home/u/.local/share/containers/podman/machine/podman.sock"),
        ]
    );
}

#[test]
fn the_hint_names_what_runs_engines_on_the_platform() {
    let hint = |wanted| how_to_start(wanted, Platform::MacOs);
    for wanted in [None, Some(EngineName::Podman)] {
        assert!(hint(wanted).contains("`podman machine start`"), "{wanted:?}");
        assert!(!how_to_start(wanted, Platform::Linux).contains("machine"), "{wanted:?}");
    }
    assert!(!hint(Some(EngineName::Docker)).contains("podman"));
    assert!(how_to_start(None, Platform::Windows).contains("`tcp://"));
}
