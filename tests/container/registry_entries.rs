//! Checks that a registry entry applies to the server that runs: its package, its arguments and variables, and its
//! permission profile.

use serde_json::json;

use super::{Client, Tool};
use crate::support::{Home, docker, inspect};

const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

pub(super) fn a_package_of_an_entry_is_built_and_gets_what_the_entry_says(home: &Home) {
    let package = json!({
        "registryType": "pypi",
        "registryBaseUrl": "https://pypi.org",
        "identifier": "mcp-server-fetch",
        "version": "2026.10.24",
        "transport": {"type": "stdio"},
        "packageArguments": [
            {"type": "named", "name": "--ignore-robots-txt"},
            {"type": "named", "name": "--user-agent", "value": "{agent}/1", "variables": {"agent": {"default": "tests"}}},
        ],
        "environmentVariables": [{"name": "FETCH_LEVEL", "default": "quiet"}],
    });
    let registry = home.write(
        "registry.json",
        &json!({"servers": [{"server": {"name": "com.example/fetch", "version": "1.0.0", "packages": [package]},
            "_meta": {"io.modelcontextprotocol.registry/official": {"status": "active", "isLatest": true}}}]})
        .to_string(),
    );
    let name = home.name("entry");
    let base = ["--runtime-image", "mcpm-test/python:1", "--ca-cert", CERTIFICATES];
    let run = [&["run", "fetch", "--registry", &registry, "--name", &name][..], &base].concat();
    let plan = home.run(&[&run[..], &["--plan", "-o", "json"]].concat()).succeeded().json();
    assert_eq!(plan["spec"]["package"]["reference"], "uvx://mcp-server-fetch@2026.10.24");
    assert_eq!(plan["spec"]["transport"], "stdio");
    let url = home.run(&run).succeeded().url();
    let nobody =
        Tool { name: "fetch", arguments: r#"{"url": "https://localhost:1/"}"#, answer: "not a public" };
    Client::Python("auto").call(&url, nobody);
    let container = inspect(&name);
    let config = &container["Config"];
    assert_eq!(config["Cmd"], json!(["--ignore-robots-txt", "--user-agent", "tests/1"]), "{container}");
    assert!(config["Env"].to_string().contains("FETCH_LEVEL=quiet"));
    // The exported file describes the same workload.
    let exported = home.text("exported.json");
    home.run(&["export", &name, &exported]).succeeded();
    home.run(&["rm", &name]).succeeded();
    let again = home.run(&["run", "--from-config", &exported, "--plan", "-o", "json"]).succeeded().json();
    assert_eq!(again["spec"]["place"], plan["spec"]["place"]);
    home.assert_nothing_left();
}

pub(super) fn the_permission_profile_of_an_entry_is_enforced(home: &Home) {
    let permissions =
        json!({"network": {"outbound": {"allow_host": ["allowed.example"], "allow_port": [443]}}});
    // ToolHive's layout, whose settings are below a `server.json`.
    let image = "mcpm-test/python:1";
    let plain = json!({"version": "1", "servers": {"held": {"description": "Held", "transport": "stdio",
        "image": image, "args": ["mcp-server-time"], "permissions": permissions}}});
    let settings = json!({"io.modelcontextprotocol.registry/publisher-provided": {"io.github.stacklok":
        {image: {"args": ["mcp-server-time"], "permissions": permissions}}}});
    let wrapped = json!({"name": "com.example/held", "version": "1.0.0", "_meta": settings,
        "packages": [{"registryType": "oci", "identifier": image, "transport": {"type": "stdio"}}]});
    let own = json!({"network": {"outbound": {"allow_host": ["other.example"]}}});
    let own = home.write("own.json", &own.to_string());
    for (layout, document) in [("plain", plain), ("wrapped", wrapped)] {
        let registry = home.write(&format!("{layout}.json"), &document.to_string());
        let name = home.name(layout);
        let run = ["run", "held", "--registry", &registry, "--name", &name, "--isolate-network"];
        let plan = home.run(&[&run[..], &["--plan"]].concat()).succeeded().stdout;
        assert!(plan.contains("`allowed.example`, on port 443  (registry)"), "{plan}");
        let given =
            home.run(&[&run[..], &["--plan", "--permission-profile", &own]].concat()).succeeded().stdout;
        assert!(given.contains("`other.example`") && !given.contains("allowed.example"), "{given}");
        home.run(&run).succeeded();
        let ask = "import urllib.request as u\n\
                   proxy = u.ProxyHandler({'https': 'http://127.0.0.1:3128'})\n\
                   try: u.build_opener(proxy).open('https://denied.example/', timeout=30)\n\
                   except Exception as error: print(error)";
        let refused = docker(&["exec", &name, "python3", "-c", ask]);
        assert!(refused.contains("403"), "{refused}");
        let log = home.run(&["logs", &name, "--proxy"]).succeeded();
        assert!(log.stdout.contains("denied.example"), "{log:?}");
        home.run(&["rm", &name]).succeeded();
    }
    home.assert_nothing_left();
}
