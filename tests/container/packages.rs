//! Tests packages from the real indexes: they are built, started, used by a published client, and not built twice.
//!
//! No image registry is available, so the testbed's own images are the base images. The machine may reach the indexes
//! through a TLS-intercepting proxy with a private authority, so the machine's certificates are passed to each build.

use std::fs;

use serde_json::{Value, json};

use super::{Client, ECHO, TIME, Tool};
use crate::support::{Home, Program, docker, engine_variable, testbed_variable};

const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
pub(super) const HELLO: Tool = Tool { name: "hello", arguments: r#"{"name": "you"}"#, answer: "hello, you" };

/// A package, and the other arguments of its start.
pub(super) struct Package<'a> {
    pub(super) reference: &'a str,
    pub(super) base: &'a str,
    pub(super) more: &'a [&'a str],
}

impl Package<'_> {
    fn args<'a>(&'a self, before: &[&'a str], last: &[&'a str]) -> Vec<&'a str> {
        let common = ["run", self.reference, "--runtime-image", self.base, "--ca-cert", CERTIFICATES];
        [before, &common[..], self.more, last].concat()
    }

    pub(super) fn plan(&self, home: &Home) -> Value {
        home.run(&self.args(&[], &["--plan", "--output", "json"])).succeeded().json()
    }

    /// Builds and starts a package, and then starts it again without any network.
    #[track_caller]
    pub(super) fn start_twice(&self, home: &Home, server: &[&str]) -> String {
        let image = self.plan(home)["spec"]["place"]["container"]["image"].as_str().unwrap().to_owned();
        // The image of an earlier test run.
        let _ = std::process::Command::new("docker").args(["rmi", &image]).envs(engine_variable()).output();
        let (first, second) = (home.name("first"), home.name("second"));
        let url = home.run(&self.args(&[], &[&["--name", &first], server].concat())).succeeded().url();
        self.assert_no_dangling_images(&image);
        let built = docker(&["image", "inspect", "--format", "{{.Id}} {{.Config.User}}", &image]);
        assert!(built.ends_with(" 65532:65532"), "{built}");
        let again = [&["--name", &second, "--offline"], server].concat();
        home.run(&self.args(&[], &again)).succeeded();
        let found = docker(&["image", "inspect", "--format", "{{.Id}} {{.Config.User}}", &image]);
        assert_eq!(found, built);
        // A start from the record does not build anything, and needs no base image.
        home.run(&["restart", &second]).succeeded();
        url
    }
}

impl Package<'_> {
    /// A build leaves no image without a name; the build of a local project leaves one, which contains its
    /// dependencies.
    #[track_caller]
    fn assert_no_dangling_images(&self, image: &str) {
        let format = "{{index .Config.Labels \"mcpm-package-build\"}}";
        let build = docker(&["image", "inspect", "--format", format, image]);
        assert_ne!(build, "");
        let filter = format!("label=mcpm-package-build={build}");
        let left = docker(&["images", "--quiet", "--filter", "dangling=true", "--filter", &filter]);
        let kept = usize::from(self.reference.contains("./"));
        assert_eq!(left.lines().count(), kept, "{left}");
    }
}

pub(super) fn a_python_package_runs(home: &Home) {
    let package = Package { reference: "uvx://mcp-server-time", base: "mcpm-test/python:1", more: &[] };
    let url = package.start_twice(home, &[]);
    assert_eq!(Client::Python("auto").call(&url, TIME).as_deref(), Some("2026-07-28"));
    let info = home.status(&home.name("first"));
    assert_eq!(info["package"]["reference"], "uvx://mcp-server-time");
    let version = info["package"]["version"].as_str().unwrap();
    assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{version}");
    // A plan shows a version that was found once.
    let plan = package.plan(home);
    assert_eq!(plan["spec"]["package"]["version"], version);
    assert_eq!(plan["image"]["entrypoint"], json!(["/app/venv/bin/mcp-server-time"]));
    let name = home.name("other");
    let other = home.run(&package.args(&[], &["--name", &name, "--package-command", "other"]));
    assert_eq!(other.code, Some(2), "{other:?}");
    let refusal = "error: `uvx://mcp-server-time` has no command `other`; it has `mcp-server-time`\n";
    assert_eq!(other.stderr, refusal);
}

pub(super) fn a_node_package_runs(home: &Home) {
    let reference = "npx://@modelcontextprotocol/server-everything";
    let package = Package { reference, base: "mcpm-test/node:1", more: &[] };
    let url = package.start_twice(home, &[]);
    assert_eq!(Client::TypeScript("auto").call(&url, ECHO).as_deref(), Some("2025-11-25"));
}

pub(super) fn a_local_go_project_runs(home: &Home) {
    let server = mcpm_tests::root().join("tests/container/hello.go");
    home.write("project/go.mod", "module example.com/hello\n\ngo 1.25\n");
    home.write("project/cmd/hello/main.go", &fs::read_to_string(server).unwrap());
    // Each of these files would make the build fail if it were in the context.
    home.write("project/.gitignore", "*_draft.go\n");
    home.write("project/.dockerignore", "cmd/hello/docker.go\n");
    for name in ["a_draft.go", "docker.go"] {
        home.write(&format!("project/cmd/hello/{name}"), "no Go\n");
    }
    std::os::unix::fs::symlink("/etc/passwd", home.path("project/passwd")).unwrap();
    let package = Package { reference: "go://./project/cmd/hello", base: "mcpm-test/golang:1", more: &[] };
    let url = package.start_twice(home, &[]);
    assert_eq!(Client::Python("legacy").call(&url, HELLO).as_deref(), Some("2025-11-25"));
    // The record does not depend on the folder in which it was created.
    let export = home.text("exported.json");
    home.run(&["export", &home.name("first"), &export]).succeeded();
    let exported: Value = serde_json::from_str(&fs::read_to_string(&export).unwrap()).unwrap();
    let path = fs::canonicalize(home.path("project/cmd/hello")).unwrap();
    assert_eq!(exported["run"]["server"], format!("go://{}", path.display()));
    home.run(&["rm", &home.name("first")]).succeeded();
    home.run(&["run", "--from-config", &export]).succeeded();
    // A changed project gets another image.
    let before = package.plan(home);
    assert!(before["image"].is_object(), "{before}");
    home.write("project/cmd/hello/more.go", "package main\n");
    assert_eq!(package.plan(home)["image"], Value::Null);
}

#[test]
#[ignore = "nightly: it builds four more packages"]
fn more_packages_run() {
    let (python, node, go) = ("mcpm-test/python:1", "mcpm-test/node:1", "mcpm-test/golang:1");
    let home = Home::new();
    home.write("data/file", "content of a file\n");
    let volume = format!("{}:/data:ro", home.text("data"));
    let read =
        Tool { name: "read_text_file", arguments: r#"{"path": "/data/file"}"#, answer: "content of a file" };
    let reference = "npx://@modelcontextprotocol/server-filesystem@latest";
    // The engine pulls the base image from a registry.
    let served = format!("{}/{}:1", testbed_variable("MCPM_TEST_REGISTRY"), home.name("node"));
    docker(&["tag", node, &served]);
    docker(&["push", &served]);
    docker(&["rmi", &served]);
    let files = Package { reference, base: &served, more: &["--volume", &volume] };
    let url = files.start_twice(&home, &["--", "/data"]);
    Client::TypeScript("auto").call(&url, read);
    docker(&["rmi", &served]);

    let home = Home::new();
    let reference = "go://github.com/modelcontextprotocol/go-sdk/examples/server/memory@v1.8.0";
    let memory = Package { reference, base: go, more: &[] };
    let url = memory.start_twice(&home, &[]);
    let graph = Tool { name: "read_graph", arguments: "{}", answer: "entities" };
    Client::Python("auto").call(&url, graph);

    // An extra, without which the command exits at once.
    let home = Home::new();
    let server = "from mcp.server import MCPServer\nserver = MCPServer('hello')\n\n@server.tool()\n\
                  def hello(name: str) -> str:\n    return f'hello, {name}'\n";
    home.write("data/server.py", server);
    let volume = format!("{}:/data:ro", home.text("data"));
    let with_extra =
        Package { reference: "uvx://mcp[cli]@2.3.0", base: python, more: &["--volume", &volume] };
    let url = with_extra.start_twice(&home, &["--", "run", "/data/server.py"]);
    Client::Python("auto").call(&url, HELLO);

    // A version, and packages of the distribution.
    let home = Home::new();
    let more = ["--runtime-add-package", "jq"];
    let fetch = Package { reference: "uvx://mcp-server-fetch@2026.10.24", base: python, more: &more };
    let url = fetch.start_twice(&home, &[]);
    let nobody =
        Tool { name: "fetch", arguments: r#"{"url": "https://localhost:1/"}"#, answer: "not a public" };
    Client::Python("auto").call(&url, nobody);
    let container = home.name("first");
    docker(&["exec", &container, "jq", "--version"]);
    assert_eq!(docker(&["exec", &container, "id", "-u"]), "65532");
}

#[test]
#[ignore = "nightly: its image takes minutes to build"]
fn packages_of_a_distribution_with_dnf_are_installed() {
    let home = Home::new();
    let more = ["--runtime-add-package", "mcpm-test-greeting"];
    let time = Package { reference: "uvx://mcp-server-time", base: "mcpm-nightly/dnf:1", more: &more };
    let url = time.start_twice(&home, &[]);
    Client::Python("auto").call(&url, TIME);
    let container = home.name("first");
    assert_eq!(docker(&["exec", &container, "cat", "/usr/share/mcpm-test/greeting"]), "hello");
    let absent = ["--runtime-add-package", "mcpm-no-such-package"];
    let none = Package { reference: "uvx://mcp-server-time", base: "mcpm-nightly/dnf:1", more: &absent };
    let outcome = home.run(&none.args(&[], &["--name", &home.name("none")]));
    assert_eq!(outcome.code, Some(7), "{outcome:?}");
    assert!(outcome.stderr.contains("mcpm-no-such-package"), "{outcome:?}");
}

pub(super) fn what_cannot_be_built_says_why_and_leaves_nothing(home: &Home) {
    let base = ["--runtime-image", "mcpm-test/python:1", "--ca-cert", CERTIFICATES];
    let refused = |reference: &str, more: &[&str], code: i32, words: &[&str]| {
        let name = home.name("refused");
        let outcome = home.run(&[&["run", reference, "--name", &name], &base[..], more].concat());
        assert_eq!(outcome.code, Some(code), "{outcome:?}");
        for word in words {
            assert!(outcome.stderr.contains(word), "{word}: {outcome:?}");
        }
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
    };
    let name = "mcpm-no-such-package-anywhere";
    let step =
        "`RUN [\"/bin/sh\", \"/mcpm/python.sh\", \"mcpm-no-such-package-anywhere\"]` failed with exit code 1";
    refused(&format!("uvx://{name}"), &[], 7, &[step, "last output: ", "No solution found"]);
    refused("npx://a", &[], 7, &["the base image has no npm"]);
    refused(
        "go://example.com/a",
        &["--offline"],
        7,
        &["`go://example.com/a` was not built on this machine yet"],
    );
    refused(
        "mcpm-test/none:1",
        &["--offline"],
        2,
        &["`--runtime-image` is for servers whose image mcpm builds"],
    );
    home.assert_nothing_left();
}

/// A web server with a certificate that only a test trusts.
struct Website {
    _server: Program,
    port: String,
    certificate: String,
}

impl Website {
    fn start(home: &Home) -> Self {
        let (certificate, key) = (home.text("site.pem"), home.text("site.key"));
        let made = home
            .command("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
            .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"])
            .args(["-out", &certificate, "-keyout", &key])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        home.write("site/page.txt", "a page of a website\n");
        let script = "import http.server as h, ssl, sys\n\
                      server = h.ThreadingHTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler)\n\
                      context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n\
                      context.load_cert_chain(sys.argv[1], sys.argv[2])\n\
                      server.socket = context.wrap_socket(server.socket, server_side=True)\n\
                      print(server.server_port, flush=True)\n\
                      server.serve_forever()\n";
        let mut server = home.command(testbed_variable("MCPM_TEST_PYTHON"));
        server.args(["-c", script, &certificate, &key]).current_dir(home.path("site"));
        let mut server = Program::start(&mut server);
        let port = server.read_line().trim().to_owned();
        Self { _server: server, port, certificate }
    }
}

pub(super) fn a_server_from_an_image_is_offered_the_certificates(home: &Home) {
    home.provide_images(&["mcpm-test/python:1"]);
    let site = Website::start(home);
    let arguments = format!(r#"{{"url": "https://localhost:{}/page.txt", "raw": true}}"#, site.port);
    let fetch = |url: &str, answer: &'static str| {
        let tool = Tool { name: "fetch", arguments: arguments.clone().leak(), answer };
        Client::Python("auto").call(url, tool);
    };
    let common = ["run", "mcpm-test/python:1", "--network", "host"];
    let server = ["--", "mcp-server-fetch", "--allow-private-ips"];
    let with = ["--ca-cert", &site.certificate, "--name", &home.name("with")];
    let url = home.run(&[&common[..], &with, &server].concat()).succeeded().url();
    fetch(&url, "a page of a website");
    // The files remain after the given file was removed.
    fs::remove_file(&site.certificate).unwrap();
    home.run(&["restart", &home.name("with")]).succeeded();
    fetch(&url, "a page of a website");
    let without = ["--name", &home.name("without")];
    let url = home.run(&[&common[..], &without, &server].concat()).succeeded().url();
    fetch(&url, "rror");
}
