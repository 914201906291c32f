//! Tests workloads on the built-in runtime, without an engine.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    os::unix::fs::{PermissionsExt as _, chown},
    thread,
};

use serde_json::json;

use super::support::{Home, Outcome, Session, docker};

const STDIO: &str = "mcpm-test/everything:1";

/// The recorded containers.
fn containers(home: &Home) -> usize {
    fs::read_dir(home.path("state/mcpm/containers")).unwrap().count()
}

#[test]
fn a_package_without_its_base_image_warns_at_each_start() {
    let home = Home::new();
    // The registry of the base image is unreachable.
    home.set("HTTPS_PROXY", "http://127.0.0.1:1");
    home.set("NO_PROXY", "pypi.org,files.pythonhosted.org");
    let name = home.name("time");
    let run = ["run", "uvx://mcp-server-time", "--runtime", "builtin", "--name", &name];
    let warning = "the server can read the system folders of this machine";
    let first = home.run(&run).succeeded();
    assert!(first.stderr.contains("cannot be pulled") && first.stderr.contains(warning), "{first:?}");
    home.run(&["stop", &name]).succeeded();
    let started = home.run(&["start", &name]).succeeded();
    assert!(started.stderr.contains(warning), "{started:?}");
    home.run(&["rm", &name]).succeeded();
    // The image is already in the store.
    let again = home.run(&run).succeeded();
    assert!(!again.stderr.contains("cannot be pulled") && again.stderr.contains(warning), "{again:?}");
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}

/// Creates the home of an ordinary user who has no access to an engine, with an image in its store.
#[track_caller]
fn home_of_user_without_engine() -> Home {
    assert!(
        rustix::process::geteuid().is_root(),
        "only root can run mcpm as a user who may not use the engine"
    );
    let home = Home::new();
    let archive = home.text("image.tar");
    docker(&["save", "--output", &archive, STDIO]);
    fs::set_permissions(&archive, fs::Permissions::from_mode(0o644)).unwrap();
    for folder in ["home", "runtime", "state"] {
        let folder = home.path(folder);
        fs::create_dir_all(&folder).unwrap();
        chown(&folder, Some(65534), Some(65534)).unwrap();
    }
    home.run_unprivileged(&["image", "load", &archive]).succeeded();
    home
}

#[test]
fn a_run_without_an_engine_says_which_runtime_it_took() {
    let home = home_of_user_without_engine();
    let run = |args: &[&str]| home.run_unprivileged(args).succeeded();
    let name = home.name("auto");
    let started = run(&["run", STDIO, "--name", &name, "--offline"]);
    assert!(started.stderr.contains("the built-in runtime is used"), "{started:?}");
    assert!(!Session::open(&started.url()).tools().is_empty());
    let listed = run(&["list"]).stdout;
    assert!(listed.contains("RUNTIME") && listed.contains("builtin"), "{listed}");
    assert_eq!(run(&["status", &name, "--output", "json"]).json()["runtime"], "builtin");
    let status = run(&["status", &name]).stdout;
    assert!(status.lines().any(|line| line.starts_with("runtime")), "{status}");
    // No control groups are delegated to this user.
    assert!(status.contains("memory and processor time are not limited"), "{status}");
    assert_eq!(run(&["status", &name, "--output", "json"]).json()["lacks_control_groups"], true);
    run(&["rm", &name]);
    assert_eq!(containers(&home), 0);
    let found = run(&["doctor", "-o", "json"]).json();
    let severity = |id: &str| {
        let one = found.as_array().unwrap().iter().find(|one| one["id"] == id);
        one.map(|one| one["severity"].as_str().unwrap().to_owned())
    };
    assert_eq!(severity("runtime.builtin").as_deref(), Some("ok"), "{found}");
    // The testbed reserves ids for this user.
    assert_eq!(severity("runtime.ids").as_deref(), Some("ok"), "{found}");
    assert_eq!(severity("runtime.limits").as_deref(), Some("warning"), "{found}");
}

#[test]
fn auto_never_weakens_a_profile() {
    let home = home_of_user_without_engine();
    let everything = json!({"insecure_allow_all": true});
    let options = ["--offline", "--permission-profile", "profile.json"];
    // An engine can run each of these, but the built-in runtime cannot, for this user.
    for (profile, reason) in [
        (
            json!({"privileged": true, "network": {"outbound": everything}}),
            "does not support privileged containers",
        ),
        (json!({"network": {"mode": "other", "outbound": everything}}), "has no network `other`"),
        (json!({"network": {}, "resources": {"memory": "64m"}}), "cannot limit memory or processor time"),
        (json!({"network": {}, "resources": {"cpus": 0.5}}), "cannot limit memory or processor time"),
    ] {
        home.write("profile.json", &profile.to_string());
        let run = ["run", STDIO, "--transport", "stdio"];
        let outcome = home.run_unprivileged(&[&run[..], &options].concat());
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(3), ""), "{profile}: {outcome:?}");
        assert!(outcome.stderr.contains(reason), "{profile}: {outcome:?}");
    }
    let outcome = home.run_unprivileged(&["run", STDIO, "--offline", "--network", "other"]);
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert!(outcome.stderr.contains("the built-in runtime has no network `other`"), "{outcome:?}");
    assert_eq!(containers(&home), 0);
    home.assert_nothing_left();
    // A profile that both can enforce has the same effect, whichever is chosen.
    let profile = json!({"network": {"outbound": {"allow_host": ["a.example"]}}, "read_only_root": true});
    home.write("profile.json", &profile.to_string());
    let plan = [&["run", STDIO, "--plan"][..], &options].concat();
    let [builtin, engine] = [home.run_unprivileged(&plan), home.run(&plan)].map(|outcome| {
        let plan = outcome.succeeded().stdout;
        let lines = plan.lines().filter(|line| {
            ["network", "outbound", "confinement"].into_iter().any(|row| line.starts_with(row))
        });
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    });
    assert!(engine.iter().any(|line| line.contains("`a.example`")), "{engine:?}");
    assert_eq!(builtin, engine);
    // The built-in runtime enforces a profile even where an engine would need the isolation that is disabled.
    let plan = [&plan[..], &["--isolate-network=false"]].concat();
    let not_enforced = |outcome: Outcome| outcome.succeeded().stdout.contains("is not enforced");
    assert_eq!([not_enforced(home.run_unprivileged(&plan)), not_enforced(home.run(&plan))], [false, true]);
}

/// Runs the script that installs uv for a Python without pip, with an index.
fn install_uv(home: &Home, index: Option<&str>) -> Outcome {
    let script = mcpm_tests::root().join("mcpm/src/package/scripts/uv.py");
    let mut command = home.command("python3");
    command.arg(script).arg(home.path("uv"));
    command.envs(index.map(|index| ("PIP_INDEX_URL", index)));
    Outcome::of(command.output().unwrap())
}

#[test]
fn uv_is_installed_from_its_package() {
    let home = Home::new();
    let path = install_uv(&home, None).succeeded().stdout;
    let version = Outcome::of(home.command(path.trim()).arg("--version").output().unwrap()).succeeded();
    assert!(version.stdout.starts_with("uv "), "{version:?}");
}

#[test]
fn uv_with_another_hash_than_that_of_the_index_is_not_installed() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let index = format!("http://user:word@{}/simple", listener.local_addr().unwrap());
    let name = |version: &str| format!("uv-{version}-py3-none-musllinux_1_1_{}.whl", std::env::consts::ARCH);
    let page = format!(
        "<a href='{0}#sha256=00'>{0}</a><a href='{1}#sha256=00' data-yanked=''>{1}</a><a href='{2}#sha256=00'>{2}</a>",
        name("1.9"),
        name("2.0"),
        name("1.10")
    );
    let serving = thread::spawn(move || {
        [page.as_str(), "no wheel"].map(|body| {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
            let length = body.len();
            write!(stream.get_mut(), "HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
            head
        })
    });
    let outcome = install_uv(&home, Some(&index));
    assert!(outcome.code == Some(1) && outcome.stderr.contains("another hash"), "{outcome:?}");
    assert!(!home.path("uv").exists());
    let [page, wheel] = serving.join().unwrap();
    assert!(
        page.starts_with("GET /simple/uv/ ") && page.contains("Authorization: Basic dXNlcjp3b3Jk"),
        "{page}"
    );
    assert!(wheel.starts_with(&format!("GET /simple/uv/{} ", name("1.10"))), "{wheel}");
}

#[test]
fn what_needs_an_engine_is_refused() {
    let home = Home::new();
    home.copy_images(&[STDIO]);
    for (code, options, reason) in [
        (2, &["--publish", "8080:80"][..], "publishes no ports"),
        (2, &["--target-host", "127.0.0.1", "--transport", "streamable-http"], "cannot be used with"),
        (3, &["--network", "container:other"], "has no network `container:other`"),
    ] {
        let run = [&["run", STDIO, "--runtime", "builtin", "--offline"][..], options].concat();
        let outcome = home.run(&run);
        assert_eq!(outcome.code, Some(code), "{outcome:?}");
        assert!(outcome.stderr.contains(reason), "{outcome:?}");
    }
    let package = ["run", "uvx://mcp-server-time", "--runtime", "builtin", "--runtime-add-package", "git"];
    let outcome = home.run(&package);
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert!(outcome.stderr.contains("cannot install distribution packages"), "{outcome:?}");
    home.assert_nothing_left();
}
