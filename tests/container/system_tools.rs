//! Tests packages that are built with the tools of this machine: their base image consists of its system folders.

use serde_json::json;

use crate::support::{Home, Session, is_alive, kill, wait_until};

/// The base image.
const SYSTEM_BASE: &str = "localhost/mcpm/host:system";

pub(super) fn a_package_runs_with_the_tools_of_this_machine(home: &Home) {
    let name = home.name("time");
    let run = ["run", "uvx://mcp-server-time", "--runtime-image", SYSTEM_BASE, "--name", &name];
    let plan = home.run(&[&run[..], &["--plan"]].concat()).succeeded().stdout;
    assert!(plan.contains("the system folders of this machine"), "{plan}");
    let url = home.run(&run).succeeded().url();
    assert!(Session::open(&url).tools().contains(&"get_current_time".to_owned()));
    let process = home.first_process(&name);
    kill("KILL", home.supervisor(&name));
    wait_until("the kernel has ended the server", || !is_alive(process));
    assert_eq!(home.run(&["start", &name]).succeeded().url(), url);
    assert!(!Session::open(&url).tools().is_empty());
    let process = home.first_process(&name);
    home.run(&["stop", &name]).succeeded();
    assert!(!is_alive(process));
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}

/// Installs a package in the sandbox and starts its server, then lists its tools and calls one, as a user does.
#[track_caller]
fn assert_package_runs(home: &Home, reference: &str, call: &[&str], answer: &str) {
    let name = home.name("package");
    home.run(&["run", reference, "--runtime-image", SYSTEM_BASE, "--name", &name]).succeeded();
    let tools = home.run(&["tools", &name]).succeeded().stdout;
    assert!(tools.contains(call[0]), "{tools}");
    let called = home.run(&[&["call", &name][..], call, &["--output", "json"]].concat()).succeeded().stdout;
    assert!(called.contains(answer), "{called}");
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}

pub(super) fn a_node_package_runs_with_the_tools_of_this_machine(home: &Home) {
    let reference = "npx://@modelcontextprotocol/server-everything";
    assert_package_runs(home, reference, &["echo", "message=hello"], "Echo: hello");
}

pub(super) fn a_go_package_runs_with_the_tools_of_this_machine(home: &Home) {
    let reference = "go://github.com/modelcontextprotocol/go-sdk/examples/server/memory@v1.8.0";
    assert_package_runs(home, reference, &["read_graph"], "entities");
}

pub(super) fn a_local_script_runs_with_the_tools_of_this_machine(home: &Home) {
    let name = home.name("script");
    let script = "# /// script\n# dependencies = [\"mcp==2.3.0\"]\n# ///\nfrom mcp.server import MCPServer\n\
                  import colorama\nserver = MCPServer('hello')\n\n\n@server.tool()\ndef hello() -> str:\n    \
                  return colorama.__name__\n\n\nserver.run()\n";
    home.write("server.py", script);
    let run = ["run", "./server.py", "--with", "colorama", "--runtime-image", SYSTEM_BASE, "--name", &name];
    let url = home.run(&run).succeeded().url();
    assert!(Session::open(&url).call("hello", &json!({})).contains("colorama"));
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}
