//! Provides the shared parts of the tests of mcpm.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

pub mod harness;

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// A Python program that serves streamable HTTP on `MCP_HOST` and `MCP_PORT`, and gives each message the same response.
/// It contains only double quotes.
pub const PYTHON_HTTP_SERVER: &str = "import http.server as h, json, os
class H(h.BaseHTTPRequestHandler):
  def do_POST(self):
    self.rfile.read(int(self.headers[\"Content-Length\"]))
    body = json.dumps(dict(jsonrpc=\"2.0\", id=1, result=dict())).encode()
    self.send_response(200)
    self.send_header(\"Content-Type\", \"application/json\")
    self.send_header(\"Content-Length\", str(len(body)))
    self.end_headers()
    self.wfile.write(body)
h.HTTPServer((os.environ[\"MCP_HOST\"], int(os.environ[\"MCP_PORT\"])), H).serve_forever()";

/// Returns the root of the workspace.
pub fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.parent().unwrap_or(folder).to_owned()
}

/// Removes cargo's variables about the package under test from the environment of a build. They would make build
/// scripts run again, and with them everything that depends on them.
pub fn without_package_variables(build: &mut Command) -> &mut Command {
    let of_this_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in env::vars().filter(|(name, _)| of_this_package(name)) {
        build.env_remove(name);
    }
    build
}

/// Builds the shared library of `mcpm-ffi` with cargo, and returns its path.
///
/// The tests do not depend on this library as a crate, because one of them generates its sources: sources that do not
/// compile until they are generated again could then never be generated again. It is built with the features that
/// everything has in the tests, so that it exists already if all targets of the workspace were built, as after
/// `tests/run`.
pub fn library() -> String {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    without_package_variables(&mut command).args([
        "build",
        "--quiet",
        "--message-format",
        "json",
        "--workspace",
        "--lib",
        "--tests",
    ]);
    let built = command.current_dir(root()).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let messages = String::from_utf8(built.stdout).unwrap();
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_library = messages.filter(|message| message["target"]["name"] == "mcpm_ffi");
    let files = of_library.filter_map(|message| message["filenames"].as_array().cloned()).flatten();
    let mut names = files.filter_map(|file| file.as_str().map(str::to_owned));
    names
        .find(|name| name.ends_with(env::consts::DLL_SUFFIX))
        .unwrap_or_else(|| panic!("cargo built no shared library of mcpm-ffi"))
}
