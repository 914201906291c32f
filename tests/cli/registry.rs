//! Tests servers that are selected by their names in a registry.

use std::process::Command;

use serde_json::json;

use super::support::{Home, PseudoTerminal, Session, docker, inspect};

const HTTP: &str = "mcpm-test/everything-http:1";

/// A registry with servers that can run on this machine.
fn registry(home: &Home, remote: &str) -> String {
    let oci = |image: &str, kind: &str, more: serde_json::Value| {
        let mut package = json!({"registryType": "oci", "identifier": image, "transport": {"type": kind}});
        package.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        package
    };
    let server = |name: &str, package: serde_json::Value| json!({"name": name, "description": format!("The server {name}"), "version": "1.0.0", "packages": [package]});
    let secret = json!([{"name": "THE_KEY", "description": "Key of the service", "isRequired": true, "isSecret": true},
        {"name": "THE_REGION", "isRequired": true}, {"name": "THE_LEVEL", "default": "info"}]);
    let document = json!({"servers": [
        server("com.example/web", oci(HTTP, "streamable-http", json!({"environmentVariables": [{"name": "THE_LEVEL", "default": "info"}]}))),
        server("com.example/keyed", oci(HTTP, "streamable-http", json!({"environmentVariables": secret}))),
        server("com.example/same", oci(HTTP, "stdio", json!({}))),
        server("org.example/same", oci(HTTP, "stdio", json!({}))),
        server("com.example/odd", json!({"registryType": "nuget", "identifier": "Odd"})),
        json!({"name": "com.example/far", "description": "Elsewhere", "remotes": [{"type": "streamable-http", "url": remote}]}),
    ]});
    home.write("registry.json", &document.to_string())
}

#[test]
fn servers_are_listed_searched_and_shown() {
    let home = Home::without_engine();
    registry(&home, "https://mcp.example.com/mcp");
    for (code, args) in [
        (0, &["registry", "list", "--registry", "registry.json"][..]),
        (0, &["registry", "search", "--registry", "registry.json", "web"]),
        (0, &["registry", "search", "--registry", "registry.json", "web", "nowhere"]),
        (0, &["registry", "info", "--registry", "registry.json", "keyed"]),
        (0, &["registry", "info", "--registry", "registry.json", "far", "--output", "json"]),
        (2, &["registry", "info", "--registry", "registry.json", "same"]),
        (4, &["registry", "info", "--registry", "registry.json", "absent"]),
        (10, &["registry", "list", "--registry", "absent.json"]),
        (2, &["registry", "list", "--registry", "http://registry.example.com"]),
        (0, &["registry", "list"]),
        (2, &["registry"]),
        (2, &["registry", "search"]),
    ] {
        assert_eq!(home.run_and_record(args).code, Some(code), "{args:?}");
    }
    home.assert_nothing_left();
    home.assert_transcript("registry/shown");
}

#[test]
fn the_settings_name_the_registry_for_all_commands() {
    let home = Home::without_engine();
    let path = registry(&home, "https://mcp.example.com/mcp");
    home.write(
        "home/.config/mcpm/config.json",
        &json!({"version": 1, "local_registry_path": path}).to_string(),
    );
    assert!(home.run(&["registry", "list"]).succeeded().stdout.contains("com.example/web"));
    let plan = home.run(&["run", "far", "--plan", "-o", "json"]).succeeded().json();
    assert_eq!(plan["spec"]["place"]["remote"]["url"], "https://mcp.example.com/mcp");
    assert_eq!(plan["spec"]["name"], "com-example-far");
    home.write("home/.config/mcpm/config.json", "{\"version\": 1, \"registry\": 1}");
    let outcome = home.run(&["run", "far"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("unknown field `registry`"), "{outcome:?}");
}

#[test]
fn a_server_runs_by_its_name_and_what_it_was_given_is_shown() {
    let home = Home::new();
    let registry = registry(&home, "https://mcp.example.com/mcp");
    let name = home.name("web");
    let run = ["run", "web", "--registry", &registry, "--name", &name];
    home.run_and_record(&[&run[..], &["--plan"]].concat()).succeeded();
    let url = home.run_and_record(&run).succeeded().url();
    assert!(!Session::open(&url).tools().is_empty());
    // The exported file results in the same plan.
    let exported = home.text("exported.json");
    let plan = home.run(&["run", "web", "--registry", &registry, "--plan", "-o", "json"]).succeeded().json();
    home.run(&["export", &name, &exported]).succeeded();
    home.run_and_record(&["rm", &name]).succeeded();
    let again = home.run(&["run", "--from-config", &exported, "--plan", "-o", "json"]).succeeded().json();
    assert_eq!(again["spec"]["place"]["container"]["image"], plan["spec"]["place"]["container"]["image"]);
    assert_eq!(again["spec"]["place"]["container"]["env"], plan["spec"]["place"]["container"]["env"]);
    home.assert_nothing_left();
    home.replace(&super::support::engine_shown(), "ENGINE");
    home.assert_transcript("registry/run");
}

#[test]
fn a_name_that_leads_to_nothing_is_refused_and_leaves_nothing() {
    let home = Home::without_engine();
    let registry = registry(&home, "https://mcp.example.com/mcp");
    for (code, args) in [
        (2, &["run", "same", "--registry", &registry][..]),
        (10, &["run", "odd", "--registry", &registry]),
        (4, &["run", "registry:absent", "--registry", &registry]),
        (10, &["run", "web", "--registry", "absent.json"]),
        (2, &["run", "image:web", "--registry", &registry]),
        (2, &["run", "Not/An/Image"]),
        (2, &["run", "registry:"]),
        (2, &["run", "keyed", "--registry", &registry]),
        (2, &["run", "keyed", "--registry", &registry, "-e", "THE_KEY=k3y"]),
        (2, &["run", "far", "--registry", &registry, "-e", "A=b"]),
        // A name that is not a server's is an image name, for which mcpm looks for an engine.
        (6, &["run", "absent", "--registry", &registry]),
        (6, &["run", "image:web"]),
        (6, &["run", "keyed", "--registry", &registry, "-e", "THE_KEY=k3y", "-e", "THE_REGION=eu"]),
    ] {
        let outcome = home.run_and_record(args);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(code), ""), "{args:?}: {outcome:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "one message: {outcome:?}");
        assert!(!outcome.stderr.contains("k3y"), "{outcome:?}");
    }
    home.assert_nothing_left();
    home.assert_transcript("registry/refused");
}

#[test]
fn missing_values_are_prompted_for_and_secrets_not_echoed() {
    let home = Home::new();
    let registry = registry(&home, "https://mcp.example.com/mcp");
    let name = home.name("asked");
    let canary = format!("canary-{}", home.name("value"));
    let program = home.program();
    let run = format!("{program} run keyed --debug --registry {registry} --name {name}");
    let mut typing = PseudoTerminal::spawn(home.command("script"), &run);
    // Ctrl-U and backspace edit the line.
    typing.expect_then_type("THE_KEY - Key of the service: ", &format!("wrong\u{15}{canary}t\u{7f}\r"));
    typing.expect_then_type("THE_REGION: ", "europe west\r");
    let (code, shown) = typing.wait();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("europe west") && !shown.contains(&canary), "{shown}");
    let container = inspect(&name);
    let delivered = format!("THE_KEY={canary}");
    assert!(container["Config"]["Env"].to_string().contains(&delivered), "the server gets it: {container}");
    assert_not_leaked(&home, &name, &canary);
    let spec = std::fs::read_to_string(home.record_dir(&name).join("spec.json")).unwrap();
    let spec: serde_json::Value = serde_json::from_str(&spec).unwrap();
    assert_eq!(spec["place"]["container"]["env"]["THE_REGION"], "europe west");
    assert_eq!(spec["secrets"], json!([format!("{name}/THE_KEY,target=THE_KEY")]));
    // An export contains values that may be shown, so it needs no prompt for them; it does not contain secret values.
    let exported = home.run(&["export", &name]).succeeded().stdout;
    assert!(exported.contains("THE_REGION=europe west") && !exported.contains("THE_KEY"), "{exported}");

    // The user cannot be prompted again, so the running workload continues.
    let refused = home.run(&["restart", &name]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.stderr.contains(&format!("`mcpm secret set {name}/THE_KEY`")), "{refused:?}");
    assert_eq!(home.status(&name)["status"], "running");
    let mut typing = PseudoTerminal::spawn(home.command("script"), &format!("{program} restart {name}"));
    typing.expect_then_type(&format!("{name}/THE_KEY: "), &format!("{canary}-2\r"));
    let (code, shown) = typing.wait();
    assert_eq!((code, shown.contains(&canary)), (Some(0), false), "{shown}");
    assert!(inspect(&name)["Config"]["Env"].to_string().contains(&format!("{delivered}-2")));
    // After the value is stored, it is not prompted for again.
    home.set(&format!("MCPM_SECRET_{name}/THE_KEY"), &format!("{canary}-3"));
    home.run(&["restart", &name]).succeeded();
    assert!(inspect(&name)["Config"]["Env"].to_string().contains(&format!("{delivered}-3")));
    assert_not_leaked(&home, &name, &canary);
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}

#[test]
fn a_typed_secret_of_an_isolated_server_is_not_in_the_engine_either() {
    let home = Home::new();
    let registry = registry(&home, "https://mcp.example.com/mcp");
    let name = home.name("held");
    let canary = format!("canary-{}", home.name("value"));
    let run = format!("{} run keyed --isolate-network --registry {registry} --name {name}", home.program());
    let mut typing = PseudoTerminal::spawn(home.command("script"), &format!("{run} -e THE_REGION=eu"));
    typing.expect_then_type("THE_KEY - Key of the service: ", &format!("{canary}\r"));
    let (code, shown) = typing.wait();
    assert_eq!((code, shown.contains(&canary)), (Some(0), false), "{shown}");
    assert!(!docker(&["inspect", &name]).contains(&canary));
    assert_not_leaked(&home, &name, &canary);
    let pid = docker(&["inspect", "--format", "{{.State.Pid}}", &name]);
    let inside = docker(&["top", &name, "-eo", "pid"]);
    let has_it = |pid: &str| {
        let environ = std::fs::read(format!("/proc/{}/environ", pid.trim())).unwrap_or_default();
        String::from_utf8_lossy(&environ).contains(&format!("THE_KEY={canary}"))
    };
    assert!(inside.lines().skip(1).any(has_it), "the server gets it: {pid} {inside}");
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}

#[test]
fn a_secret_that_would_be_an_argument_is_refused() {
    let home = Home::without_engine();
    let argument = json!({"type": "named", "name": "--key", "valueHint": "API_KEY", "isRequired": true, "isSecret": true});
    let package = json!({"registryType": "oci", "identifier": HTTP, "transport": {"type": "stdio"},
        "packageArguments": [argument]});
    let document = json!({"name": "com.example/argued", "version": "1.0.0", "packages": [package]});
    let registry = home.write("argued.json", &document.to_string());
    for more in [&[][..], &["--plan"]] {
        let outcome = home.run(&[&["run", "argued", "--registry", &registry][..], more].concat());
        assert_eq!((outcome.code, outcome.stderr.lines().count()), (Some(3), 1), "{outcome:?}");
        assert!(outcome.stderr.contains("the secret `API_KEY` as an argument"), "{outcome:?}");
    }
    // A user who gives arguments replaces those of the entry.
    let outcome = home.run(&["run", "argued", "--registry", &registry, "--", "--verbose"]);
    assert_eq!(outcome.code, Some(6), "{outcome:?}");
}

/// Asserts that a typed value is in no file, no argument and no output, and that in the container it is only in the
/// environment.
#[track_caller]
fn assert_not_leaked(home: &Home, name: &str, canary: &str) {
    for folder in ["state", "home", "runtime"] {
        let found = Command::new("grep").args(["-rl", canary]).arg(home.path(folder)).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "", "files below {folder}");
    }
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments).into_owned();
        assert!(!arguments.contains(canary), "{arguments}");
    }
    let supervisor = std::fs::read(format!("/proc/{}/environ", home.supervisor(name))).unwrap();
    assert!(!String::from_utf8_lossy(&supervisor).contains(canary));
    let mut container = inspect(name);
    container["Config"]["Env"] = serde_json::Value::Null;
    assert!(!container.to_string().contains(canary), "{container}");
    let export = home.text("canary.json");
    for args in [
        &["list", "-o", "json"][..],
        &["status", name, "-o", "json"],
        &["logs", name],
        &["logs", name, "--proxy"],
        &["export", name],
        &["export", name, &export],
    ] {
        let outcome = home.run(args).succeeded();
        assert!(!outcome.stdout.contains(canary) && !outcome.stderr.contains(canary), "{outcome:?}");
    }
    assert!(!std::fs::read_to_string(&export).unwrap().contains(canary));
    let events =
        docker(&["events", "--since", "5m", "--until", "0s", "--filter", &format!("container={name}")]);
    assert!(!events.contains(canary), "{events}");
}

#[test]
fn an_interrupted_question_leaves_the_terminal_as_it_was() {
    let home = Home::without_engine();
    let registry = registry(&home, "https://mcp.example.com/mcp");
    let program = home.mcpm(&[]).get_program().to_str().unwrap().to_owned();
    let line =
        format!("stty -a > before; {program} run keyed --registry {registry}; echo code=$?; stty -a > after");
    let mut typing = PseudoTerminal::spawn(home.command("script"), &line);
    typing.expect_then_type("THE_KEY - Key of the service: ", "abc\u{3}");
    let (_, shown) = typing.wait();
    assert!(shown.contains("code=130"), "{shown}");
    let read = |name: &str| std::fs::read_to_string(home.path(name)).unwrap();
    assert_eq!(read("before"), read("after"));
    home.assert_nothing_left();
}

#[test]
fn a_terminal_shows_that_a_run_is_prepared() {
    let home = Home::without_engine();
    home.set("TERM", "xterm");
    let registry = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", registry.local_addr().unwrap());
    let line = format!("stty cols 80; exec {} run registry:time --registry {url}", home.program());
    let mut terminal = PseudoTerminal::spawn(home.command("script"), &line);
    let (request, _) = registry.accept().unwrap();
    // The line is shown again with the time; a second may be skipped.
    terminal.expect("\u{1b}[2Kpreparing the server, ");
    // The registry does not respond at all.
    drop((request, registry));
    let (code, shown) = terminal.wait();
    assert_ne!(code, Some(0), "{shown}");
    home.assert_nothing_left();
}
