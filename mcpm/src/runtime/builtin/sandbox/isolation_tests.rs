//! Tests that a server in a sandbox is isolated as in a container of an engine.

use std::{env, sync::Arc};

use tokio::io::AsyncWriteExt as _;

use super::{sandbox_tests::*, *};
use crate::isolation::{Isolation, IsolationSpec, MOUNT_POINT};

#[tokio::test]
async fn a_server_of_a_slot_reaches_allowed_names_only() {
    let bed = TestBed::new();
    let allowed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = allowed.local_addr().unwrap().port();
    let answers = tokio::spawn(async move {
        loop {
            let (mut client, _) = allowed.accept().await.unwrap();
            client.write_all(b"hello").await.unwrap();
        }
    });
    let script = format!(
        "
import os, socket
def attempt(host, port):
    try:
        client = socket.create_connection((host, port), timeout=30)
        return client.recv(5).decode() or 'closed'
    except OSError as error:
        return type(error).__name__
address = socket.gethostbyname('localhost')
print(address, attempt('localhost', {port}), attempt('127.0.0.1', {port}), attempt('1.1.1.1', 80), os.environ['A'], os.environ['B'])
"
    );
    let spec = IsolationSpec {
        command: ["python3", "-c", &script].map(str::to_owned).to_vec(),
        outbound: serde_json::from_str(&format!(r#"{{"allow_host": ["localhost:{port}", "127.0.0.0/8"]}}"#))
            .unwrap(),
        runtime_gateway: false,
        learn: None,
    };
    let folder = bed.path("isolation");
    let isolation = Isolation::start(
        Some((&folder, env::consts::ARCH)),
        &spec,
        None,
        Vec::new(),
        Arc::new(|_| {}),
        None,
        None,
    )
    .unwrap();
    let own = [("A".to_owned(), "config".to_owned())].into();
    isolation.set_config(3, &own).unwrap();
    let mut plan = SandboxPlan {
        command: SandboxCommand::Isolated { slot: "3".to_owned() },
        env: [("A", "image"), ("B", "image"), ("PATH", "/usr/bin:/bin")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..bed.plan(&[])
    };
    let content = b"nameserver 127.0.0.1\n".to_vec();
    plan.mounts.insert(1, MountOperation::File { path: "/etc/resolv.conf".to_owned(), content, mode: 0o644 });
    plan.mounts.insert(1, bind(&folder, MOUNT_POINT, true));
    let ended = bed.run(&plan).await;
    // The name has a public address, to which the sandbox has no route: the shim redirects the connection. Loopback is
    // that of the sandbox, on which the shim listens for names.
    assert_eq!(ended.stdout, "25.77.0.1 hello closed OSError config image\n", "{ended:?}");
    answers.abort();
    run_as_ordinary_user("isolation_tests::a_server_of_a_slot_reaches_allowed_names_only");
}
