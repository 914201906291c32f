//! Tests engines that are absent or deny access, and images that are missing or pulled.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{fs::PermissionsExt as _, net::UnixListener},
    path::Path,
    thread,
};

use super::support::{Home, Outcome, docker, engine_shown, testbed_variable};

#[test]
fn an_engine_that_was_set_and_is_absent_is_named_with_what_set_it() {
    let home = Home::without_engine();
    assert_eq!(home.run_and_record(&["run", "image"]).code, Some(6));
    assert_eq!(home.run_and_record(&["run", "image", "--plan"]).code, Some(6));
    home.set("DOCKER_HOST", "ssh://somewhere");
    assert_eq!(home.run_and_record(&["run", "image"]).code, Some(3));
    home.set("DOCKER_HOST", "nonsense://x");
    assert_eq!(home.run_and_record(&["run", "image"]).code, Some(2));
    home.set("DOCKER_HOST", "");
    home.set("CONTAINER_HOST", &format!("unix://{}", home.text("podman.sock")));
    assert_eq!(home.run_and_record(&["run", "image"]).code, Some(6));
    assert_eq!(home.run_and_record(&["run", "image", "--runtime", "podman"]).code, Some(6));
    home.assert_nothing_left();
    home.assert_transcript("engine/set_and_absent");
}

#[test]
fn without_an_engine_every_place_is_listed_and_what_to_install() {
    let home = Home::new();
    // The command runs in a separate mount namespace, where the usual sockets are hidden.
    let script = "mount -t tmpfs none /run && exec \"$@\"";
    for (code, args) in [
        // The built-in runtime needs no engine.
        (7, &["run", "image", "--offline"][..]),
        (6, &["run", "image", "--runtime", "docker"]),
        (6, &["run", "image", "--runtime", "podman"]),
    ] {
        let mut command = home.command("unshare");
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(home.mcpm(args).get_program()).args(args);
        let outcome = home.record_command(&format!("mcpm {}", args.join(" ")), &mut command);
        assert_eq!(outcome.code, Some(code), "{outcome:?}");
    }
    home.assert_nothing_left();
    home.assert_transcript("engine/nowhere");
}

#[test]
fn an_engine_that_denies_access_is_reported() {
    let home = Home::new();
    let socket = home.path("runtime/docker.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).unwrap();
    home.set("DOCKER_HOST", &format!("unix://{}", home.text("runtime/docker.sock")));
    let outcome = home.run_unprivileged(&["run", "image"]);
    assert_eq!(outcome.code, Some(6), "{outcome:?}");
    home.assert_transcript("engine/denied");
}

/// Responds like Podman without any images.
fn serve_as_podman(socket: &Path) {
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).is_ok_and(|count| count > 0) {}
            let (status, body) = match head.split(' ').nth(1).unwrap_or_default() {
                path if path.ends_with("/version") => (
                    "200 OK",
                    r#"{"Version":"5.4","ApiVersion":"1.41","Components":[{"Name":"Podman Engine","Version":"5.4"}]}"#,
                ),
                path if path.ends_with("/_ping") || path.ends_with("/info") => ("200 OK", "{}"),
                _ => ("404 Not Found", r#"{"message":"no such image"}"#),
            };
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n");
            // The client may have closed the connection.
            let _ = write!(stream.get_mut(), "{head}Content-Length: {}\r\n\r\n{body}", body.len());
        }
    });
}

#[test]
fn docker_is_used_if_podman_responds_too_and_a_plan_shows_it() {
    let home = Home::new();
    serve_as_podman(&home.path("runtime/podman/podman.sock"));
    let podman = format!("podman 5.4 at unix://{}", home.text("runtime/podman/podman.sock"));
    for (runtime, engine) in [("auto", engine_shown()), ("podman", podman)] {
        let plan = home.run(&["run", "mcpm-test/everything:1", "--plan", "--runtime", runtime]).succeeded();
        let shown = plan.stdout.lines().find_map(|line| line.strip_prefix("engine "));
        assert_eq!(shown.map(str::trim), Some(engine.as_str()), "{runtime}: {plan:?}");
    }
    home.assert_nothing_left();
}

#[test]
fn an_unresponsive_engine_times_out() {
    let home = Home::new();
    let socket = home.path("runtime/mute.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    home.set("DOCKER_HOST", &format!("unix://{}", home.text("runtime/mute.sock")));
    let outcome = home.run_and_record(&["run", "image"]);
    assert_eq!(outcome.code, Some(6), "{outcome:?}");
    home.assert_transcript("engine/mute");
}

#[test]
fn a_missing_image_is_named_with_its_registry_and_what_to_do() {
    let home = Home::new();
    let registry = testbed_variable("MCPM_TEST_REGISTRY");
    for image in ["mcpm-test/everything:no-such-tag", "no/such-image:1"] {
        let image = format!("{registry}/{image}");
        assert_eq!(home.run_and_record(&["run", &image]).code, Some(7));
    }
    assert_eq!(home.run_and_record(&["run", "localhost:1/image:1"]).code, Some(7));
    home.assert_nothing_left();
    home.assert_transcript("engine/missing_image");
}

#[test]
fn an_image_is_pulled_and_run() {
    let home = Home::new();
    let name = home.name("pulled");
    // The test uses a separate repository, because another test may pull the shared one.
    let registry = testbed_variable("MCPM_TEST_REGISTRY");
    let image = format!("{registry}/{}:1", home.name("image"));
    docker(&["tag", "mcpm-test/everything:1", &image]);
    docker(&["push", "--quiet", &image]);
    docker(&["rmi", &image]);
    assert_eq!(home.run_and_record(&["run", &image, "--plan"]).code, Some(0));
    assert_eq!(docker(&["images", "--quiet", &image]), "", "a plan pulls nothing");
    assert_eq!(home.run_and_record(&["run", &image, "--name", &name]).code, Some(0));
    let latest = format!("{registry}/{}", home.name("latest"));
    docker(&["tag", "mcpm-test/everything:1", &latest]);
    // The image cannot be updated, so the local copy is used, with a warning.
    assert_eq!(home.run_and_record(&["run", &latest, "--name", &home.name("copy")]).code, Some(0));
    home.replace(&engine_shown(), "ENGINE");
    home.assert_transcript("engine/pulled");
    home.run(&["rm", "--all"]).succeeded();
    docker(&["rmi", &image, &latest]);
    home.assert_nothing_left();
}

#[test]
fn a_pull_shows_a_progress_bar_on_terminals_only() {
    let home = Home::new();
    let (image, container) = (home.name("layer"), home.name("layer-maker"));
    let image = format!("{}/{image}:1", testbed_variable("MCPM_TEST_REGISTRY"));
    // The image has a unique layer, because the engine does not fetch a layer again that it has.
    let mut layer = vec![0; 4 << 20];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut layer).unwrap();
    fs::write(home.path("layer"), layer).unwrap();
    docker(&["create", "--name", &container, "mcpm-test/everything:1"]);
    docker(&["cp", &home.text("layer"), &format!("{container}:/layer")]);
    docker(&["commit", &container, &image]);
    docker(&["rm", &container]);
    docker(&["push", "--quiet", &image]);
    docker(&["rmi", &image]);

    // `script` runs its command on a terminal, and prints what the terminal shows.
    let typed = format!("{} run {image} --name {}", home.program(), home.name("shown"));
    let mut script = home.command("script");
    let script = script.env("TERM", "xterm").args(["--quiet", "--return", "--command", &typed, "/dev/null"]);
    let shown = Outcome::of(script.output().unwrap()).succeeded().stdout;
    assert!(shown.contains(&format!("pulling {image}")), "{shown:?}");
    // The bar is removed at the end: only the text after the last erased line stays visible.
    let stays = shown.rsplit("\u{1b}[2K").next().unwrap();
    assert!(!stays.contains("pulling") && stays.contains("/mcp"), "{shown:?}");

    home.run(&["rm", "--all"]).succeeded();
    docker(&["rmi", &image]);
    let elsewhere = home.run(&["run", &image, "--name", &home.name("quiet")]).succeeded();
    assert_eq!(elsewhere.stderr, "");
    home.run(&["rm", "--all"]).succeeded();
    docker(&["rmi", &image]);
    home.assert_nothing_left();
}
