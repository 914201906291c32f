//! Tests that containers that outlived their supervisor do not get the secrets that the next supervisor sends to its own
//! container.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use mcpm::{
    runtime::labels,
    workload::{Launch, Workloads},
};
use serde_json::json;

use super::fixture::{IsolationFixture, PYTHON, docker, start_and_collect_denials};

/// Requests the start message of the next server again and again.
const SECRET_STEALER: &str = r#"
import os, socket

print("asking", flush=True)
while True:
    try:
        link = socket.socket(socket.AF_UNIX)
        link.connect("/.mcpm/link.sock")
        link.sendall(b"start 0\n")
        if got := link.recv(65536):
            open("/out/" + os.environ["AS"], "wb").write(got)
    except OSError:
        pass
"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_orphaned_container_gets_no_secrets() {
    let place = IsolationFixture::new("left");
    let builder = place.probe_workload(&json!([])).isolate_network(true);
    let (running, ..) = start_and_collect_denials(builder.set("env", "CANARY=feathers-0815").unwrap()).await;
    running.stop(Duration::from_secs(5)).await.unwrap();
    let of_place = r#"{{range .Mounts}}{{if eq .Destination "/.mcpm"}}{{.Source}}{{end}}{{end}}"#;
    let folder = docker(&["inspect", "-f", of_place, &place.name]);
    let label = |key: &str| {
        let found = docker(&["inspect", "-f", &format!("{{{{index .Config.Labels {key:?}}}}}"), &place.name]);
        format!("{key}={found}")
    };
    let labels = [labels::MANAGED, labels::NAME, labels::STATE].map(label);
    docker(&["rm", &place.name]);
    let volumes = [format!("{folder}:/.mcpm:ro"), format!("{}:/out", place.path("out").display())];
    let mut left = Vec::new();
    for (name, named) in [(place.name.clone(), "first"), (format!("{}.P1", place.name), "further")] {
        let mut child = Command::new("docker")
            .args(["run", "--name", &name, "--network", "none", "--env", &format!("AS={named}")])
            .args(labels.iter().flat_map(|label| ["--label", label]))
            .args(volumes.iter().flat_map(|volume| ["--volume", volume]))
            .args(["--entrypoint", "python3", PYTHON, "-c", SECRET_STEALER])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "asking\n");
        left.push(child);
    }
    let environment = place.environment();
    let spec = Workloads::new(environment.clone()).spec(&place.name).unwrap();
    let outcome = Box::pin(Launch::new(spec, environment).recorded().start()).await;
    let stolen = ["first", "further"].map(|named| place.path("out").join(named).exists());
    assert_eq!(stolen, [false, false]);
    outcome.unwrap().stop(Duration::from_secs(5)).await.unwrap();
    for mut child in left {
        child.wait().unwrap();
    }
    place.remove().await;
}
