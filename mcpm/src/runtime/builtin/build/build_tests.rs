//! Tests of builds with real processes, based on the system folders of this machine.

use std::{
    collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::PathBuf, process::Command,
    sync::Mutex,
};

use futures_util::StreamExt as _;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpListener,
};

use super::super::{
    HOST_IMAGE, control_group, host_image, sandbox::sandbox_tests::run_as_ordinary_user, tests::Fixture,
};
use crate::{
    ErrorKind,
    image::ImageReference,
    runtime::{BuildProgress, LogStream, Runtime as _},
    testing::with_timeout,
};

#[tokio::test]
async fn a_build_is_in_a_control_group_that_is_removed_with_it() {
    let fixture = Fixture::new();
    let drafts = fixture.folder.path().join("cache/images/drafts");
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let on_progress = |step| {
        if matches!(step, BuildProgress::Line(line) if line == "up") {
            let draft = fs::read_dir(&drafts).unwrap().next().unwrap().unwrap().path();
            let mut groups = control_group::folders_of(&draft);
            groups.retain(|group| !fs::read(group.join("cgroup.procs")).unwrap_or_default().is_empty());
            tell.send(groups).unwrap();
        }
    };
    let step = "RUN [\"/bin/sh\", \"-c\", \"echo up; exec sleep 600\"]";
    let request = Fixture::request("localhost/mcpm/test:1", step);
    let groups = tokio::select! {
        outcome = with_timeout(fixture.runtime.build(request, &on_progress)) => panic!("{outcome:?}"),
        groups = told.recv() => groups.unwrap(),
    };
    let can_have_groups = rustix::process::geteuid().is_root()
        && rustix::fs::access("/sys/fs/cgroup", rustix::fs::Access::WRITE_OK).is_ok();
    assert_eq!(!groups.is_empty(), can_have_groups);
    // The build is cancelled, and its processes are being killed.
    with_timeout(async {
        while groups.iter().any(|group| group.exists()) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(fs::read_dir(&drafts).unwrap().count(), 0);
}

/// Opens a tunnel for each connection, and responds to the request in it; returns the requests for tunnels.
async fn serve_as_proxy(listener: TcpListener, requests: &Mutex<Vec<String>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = BufReader::new(stream);
        let mut heads = Vec::new();
        for response in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"] {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).await.unwrap() > 0 {}
            stream.write_all(response.as_bytes()).await.unwrap();
            heads.push(head);
        }
        requests.lock().unwrap().push(heads.swap_remove(0));
    }
}

#[tokio::test]
async fn a_build_connects_through_the_configured_proxy_to_allowed_hosts_only() {
    run_as_ordinary_user(
        "runtime::builtin::build::tests::a_build_connects_through_the_configured_proxy_to_allowed_hosts_only",
    );
    let fixture = Fixture::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://user:word@{}", listener.local_addr().unwrap());
    let requests = Mutex::new(Vec::new());
    let fetch = |host: &str| {
        let program = format!("import urllib.request as r; print(r.urlopen('http://{host}/x').read())");
        format!("RUN [\"python3\", \"-c\", \"{program}\"]")
    };
    let build = async |host: &str| {
        let mut request = Fixture::request("localhost/mcpm/test:1", &fetch(host));
        request.args.insert("http_proxy".to_owned(), proxy.clone());
        request.hosts = Some(vec!["index.example".parse().unwrap()]);
        with_timeout(fixture.runtime.build(request, &|_| {})).await
    };
    tokio::select! {
        () = serve_as_proxy(listener, &requests) => unreachable!(),
        () = async {
            build("index.example").await.unwrap();
            // The proxy would connect to this host, but the build may not.
            let error = build("other.example").await.unwrap_err();
            assert!(error.to_string().contains("other.example"), "{error}");
            // The build may not connect to the proxy itself.
            build(proxy.rsplit('@').next().unwrap()).await.unwrap_err();
        } => {}
    }
    let requests = requests.into_inner().unwrap();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(requests[0].starts_with("CONNECT index.example:80 HTTP/1.1\r\n"), "{requests:?}");
    assert!(requests[0].to_ascii_lowercase().contains("proxy-authorization: basic"), "{requests:?}");
}

#[tokio::test]
async fn an_image_is_built_on_the_system_folders() {
    run_as_ordinary_user("runtime::builtin::build::tests::an_image_is_built_on_the_system_folders");
    let fixture = Fixture::new();
    let dockerfile = r#"COPY hello.txt /app/
ARG WORD
RUN ["/bin/sh", "-c", "echo \"$WORD\" > /app/word; ln -s /etc /app/link; mkdir -m 700 /app/private"]
FROM localhost/mcpm/host:system AS second
USER 0:0
WORKDIR /work
ENV A=1 B=$A
LABEL l="x"
ENTRYPOINT ["/bin/cat"]
CMD ["/app/hello.txt"]
"#;
    let name = "localhost/mcpm/test:1";
    // The last stage has none of the files of the first.
    fixture.build(name, dockerfile).await.unwrap();
    let found = fixture.runtime.image(&ImageReference::parse(name).unwrap()).await.unwrap().unwrap();
    assert_eq!(
        (found.entrypoint, found.command),
        (vec!["/bin/cat".to_owned()], vec!["/app/hello.txt".to_owned()])
    );
    assert_eq!(found.labels.get("l").map(String::as_str), Some("x"));
    let copying = dockerfile.replace("AS second\n", "AS second\nCOPY --from=first /app /app\n");
    let first = format!("FROM {HOST_IMAGE} AS first\n{copying}");
    fixture.build(name, &first).await.unwrap();
    let (code, text) = fixture
        .run("", |spec| {
            spec.image = name.to_owned();
            spec.args = vec!["/app/hello.txt".to_owned(), "/app/word".to_owned()];
        })
        .await;
    assert_eq!((code, text.as_str()), (0, "hello\nsecret word\n"));
}

/// A folder on which overlays cannot be mounted, since it is on an overlay.
struct OverlayFolder(tempfile::TempDir);

impl OverlayFolder {
    fn mount() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [lower, upper, work, merged] = ["lower", "upper", "work", "merged"].map(|name| {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            path.display().to_string()
        });
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let mounted =
            Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options, &merged]).status();
        assert!(mounted.unwrap().success());
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("merged")
    }
}

impl Drop for OverlayFolder {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.path()).status();
        assert!(unmounted.unwrap().success());
    }
}

#[tokio::test]
async fn where_overlays_cannot_be_mounted_images_are_copied() {
    if !rustix::process::geteuid().is_root() {
        // Only root may make such a folder.
        return;
    }
    let mounted = OverlayFolder::mount();
    let fixture = Fixture::in_folder(tempfile::TempDir::new_in(mounted.path()).unwrap());
    let name = "localhost/mcpm/test:1";
    let dockerfile = r#"COPY hello.txt /app/
RUN ["/bin/sh", "-c", "echo one > /app/one; rm /etc/timezone; mkdir -p /tmp/x"]
RUN ["/bin/sh", "-c", "cat /app/one /app/hello.txt > /app/two && rm /app/hello.txt"]
"#;
    fixture.build(name, dockerfile).await.unwrap();
    // A build on it, whose layer is above a copy.
    let second = format!("FROM {name}\nRUN [\"/bin/sh\", \"-c\", \"cat /app/two >> /app/one\"]\n");
    let mut request = Fixture::request(name, "");
    request.context = Fixture::context(&second);
    with_timeout(fixture.runtime.build(request, &|_| {})).await.unwrap();
    let mut spec = fixture.spec("w", "cat /app/* /changed; ls /etc/timezone; echo again > /changed");
    spec.image = name.to_owned();
    let id = fixture.runtime.create(&spec).await.unwrap();
    for expected in ["one\none\nhello\none\nhello\n", "one\none\nhello\none\nhello\nagain\n"] {
        let mut attached = fixture.runtime.attach(&id).await.unwrap();
        with_timeout(fixture.runtime.start(&id)).await.unwrap();
        drop(attached.stdin);
        let mut text = Vec::new();
        while let Some(chunk) = with_timeout(attached.output.next()).await.transpose().unwrap() {
            if chunk.stream == LogStream::Stdout {
                text.extend_from_slice(&chunk.bytes);
            }
        }
        with_timeout(fixture.runtime.wait(&id)).await.unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
    // Other containers have none of the changes.
    let (code, text) = fixture
        .run("cat /app/one; ls /changed", |spec| {
            spec.name = "other".to_owned();
            spec.image = name.to_owned();
            spec.confinement.read_only_root = true;
        })
        .await;
    assert!(code != 0 && text.contains("one\none\nhello\n"), "{text}");
    fixture.runtime.remove(&id).await.unwrap();
}

#[tokio::test]
async fn a_build_that_fails_says_which_step_and_leaves_nothing() {
    run_as_ordinary_user(
        "runtime::builtin::build::tests::a_build_that_fails_says_which_step_and_leaves_nothing",
    );
    let fixture = Fixture::new();
    let name = "localhost/mcpm/test:1";
    let step = "RUN [\"/bin/sh\", \"-c\", \"echo what went wrong; exit 4\"]";
    let error = fixture.build(name, step).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ImageUnavailable);
    let text = error.to_string();
    assert!(text.contains("failed with exit code 4") && text.contains("what went wrong"), "{text}");
    assert!(fixture.runtime.image(&ImageReference::parse(name).unwrap()).await.unwrap().is_none());
    let drafts = fixture.folder.path().join("cache/images/drafts");
    assert_eq!(fs::read_dir(drafts).unwrap().count(), 0);
    // Layers are hostile: a link that a step leaves is not followed by a later copy.
    let outside = fixture.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o777)).unwrap();
    let hostile =
        format!("RUN [\"/bin/sh\", \"-c\", \"ln -s {0} /trap\"]\nCOPY hello.txt /trap/\n", outside.display());
    fixture.build(name, &hostile).await.unwrap_err();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    // No host is allowed.
    let connect = "RUN [\"/bin/sh\", \"-c\", \"getent hosts example.com\"]";
    fixture.build(name, connect).await.unwrap_err();
}

#[tokio::test]
async fn an_image_that_claims_to_be_based_on_the_system_folders_gets_none_of_them() {
    let fixture = Fixture::new();
    let images = &fixture.runtime.images;
    let own = host_image::ensure(images, &fixture.runtime.system).unwrap();
    assert!(!host_image::system_mounts(images, &own).unwrap().is_empty());
    let [(label, value)] = own.config.labels.iter().collect::<Vec<_>>()[..] else { panic!("{own:?}") };
    let (state, proof) = value.split_once('.').unwrap();
    for forged in [String::new(), "x".to_owned(), state.to_owned(), format!("{state}."), format!("x.{proof}")]
    {
        let draft = images.draft().unwrap();
        let layer = draft.path().join("layer");
        fs::create_dir(&layer).unwrap();
        let config = crate::image::store::ImageConfig {
            labels: BTreeMap::from([(label.clone(), forged.clone())]),
            ..Default::default()
        };
        let image = images.commit(None, vec![layer], &config, None).unwrap();
        assert!(host_image::system_mounts(images, &image).unwrap().is_empty(), "{forged}");
    }
}
