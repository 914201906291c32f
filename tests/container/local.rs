//! Tests local scripts, projects and MCP bundles, with dependencies from the real package indexes.

use std::fs;

use serde_json::{Value, json};

use super::{
    Client,
    packages::{HELLO, Package},
};
use crate::support::{Home, Session};

const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
const PYTHON: &str = "mcpm-test/python:1";
const NODE: &str = "mcpm-test/node:1";

/// The rest of a Python server, after its imports.
const PYTHON_SERVER: &str = "from mcp.server import MCPServer\nserver = MCPServer('hello')\n\n\n@server.tool()\n\
    def hello(name: str) -> str:\n    return f'hello, {name}'\n\n\n";
/// A JavaScript server that is also valid TypeScript.
const NODE_SERVER: &str = "import { McpServer } from \"@modelcontextprotocol/sdk/server/mcp.js\";\n\
    import { StdioServerTransport } from \"@modelcontextprotocol/sdk/server/stdio.js\";\n\
    import { z } from \"zod\";\n\
    const server = new McpServer({ name: \"hello\", version: \"1.0.0\" });\n\
    server.registerTool(\"hello\", { inputSchema: { name: z.string() } }, async ({ name }) => ({\n\
      content: [{ type: \"text\", text: `hello, ${name}` }],\n\
    }));\n\
    await server.connect(new StdioServerTransport());\n";

pub(super) fn a_python_script_runs_with_the_dependencies_that_it_names(home: &Home) {
    // The file name must not reach a shell, and files beside the script must not reach the image.
    let metadata = "# /// script\n# dependencies = [\"mcp==2.3.0\"]\n# ///\nimport os\nimport colorama\n";
    let script =
        format!("{metadata}assert os.listdir(os.path.dirname(__file__)) == [\"it's a server.py\"]\n");
    home.write("it's a server.py", &(script + PYTHON_SERVER + "server.run()\n"));
    home.write("secret.txt", "hush");
    let more = ["--with", "colorama>=0.4,<1"];
    let package = Package { reference: "./it's a server.py", base: PYTHON, more: &more };
    let url = package.start_twice(home, &[]);
    assert_eq!(Client::Python("auto").call(&url, HELLO).as_deref(), Some("2026-07-28"));
    let path = fs::canonicalize(home.path("it's a server.py")).unwrap();
    let info = home.status(&home.name("first"));
    assert_eq!(info["package"]["reference"], format!("uvx://{}", path.display()));
    // The export contains the build options.
    let exported = home.text("exported.json");
    home.run(&["export", &home.name("first"), &exported]).succeeded();
    home.run(&["rm", &home.name("first")]).succeeded();
    home.run(&["run", "--from-config", &exported]).succeeded();
}

pub(super) fn a_python_project_runs_its_command(home: &Home) {
    let project = "[build-system]\nrequires = [\"setuptools\"]\nbuild-backend = \"setuptools.build_meta\"\n\n\
                   [project]\nname = \"greeting\"\nversion = \"1.2.3\"\ndependencies = [\"mcp==2.3.0\"]\n\n\
                   [project.scripts]\ngreeting = \"greeting.server:main\"\nother = \"greeting.other:main\"\n";
    home.write("project/pyproject.toml", project);
    home.write("project/src/greeting/__init__.py", "");
    home.write(
        "project/src/greeting/server.py",
        &(PYTHON_SERVER.to_owned() + "def main():\n    server.run()\n"),
    );
    home.write("project/.env", "KEY=hush\n");
    let package = Package { reference: "./project", base: PYTHON, more: &[] };
    let url = package.start_twice(home, &[]);
    Client::Python("auto").call(&url, HELLO);
    assert_eq!(home.status(&home.name("first"))["package"]["version"], "1.2.3");
    // A script of the project can use the project's dependencies and modules.
    home.write("project/start.py", "from greeting.server import main\n\nmain()\n");
    let name = home.name("script");
    let script = ["run", "./project/start.py", "--runtime-image", PYTHON, "--ca-cert", CERTIFICATES];
    let outcome = home.run(&[&script[..], &["--name", &name]].concat());
    assert!(outcome.stderr.contains("files that may contain secrets are excluded: `.env`"), "{outcome:?}");
    Client::Python("auto").call(&outcome.succeeded().url(), HELLO);
}

pub(super) fn scripts_and_projects_of_node_run(home: &Home) {
    let dependencies = "{\"@modelcontextprotocol/sdk\": \"^1\", \"zod\": \"^3\"}";
    // The build creates the project's command, which Git ignores.
    let project = format!(
        "{{\"name\": \"@local/greeting\", \"version\": \"0.3.0\", \"type\": \"module\", \"dependencies\": {dependencies},
          \"scripts\": {{\"build\": \"mkdir build && cp server.js build/index.js\"}}, \"bin\": \"build/index.js\"}}"
    );
    home.write("project/package.json", &project);
    home.write("project/server.js", &format!("#!/usr/bin/env node\n{NODE_SERVER}"));
    home.write("project/.gitignore", "build/\n");
    home.write("project/node_modules/zod/package.json", "no JSON");
    let package = Package { reference: "./project", base: NODE, more: &[] };
    let url = package.start_twice(home, &["--transport", "stdio"]);
    Client::TypeScript("auto").call(&url, HELLO);
    assert_eq!(home.status(&home.name("first"))["package"]["version"], "0.3.0");
    let with = ["--with", "@modelcontextprotocol/sdk@^1", "--with", "zod@^3"];
    home.write(
        "alone.ts",
        &format!("const count: number = 1;\nenum Kind {{ A }}\nvoid [count, Kind.A];\n{NODE_SERVER}"),
    );
    for script in ["./alone.ts", "./project/server.js"] {
        let more = if script.starts_with("./alone") { &with[..] } else { &[] };
        let name = home.name(&script.replace(['.', '/'], ""));
        let args = ["run", script, "--runtime-image", NODE, "--name", &name, "--ca-cert", CERTIFICATES];
        let url = home.run(&[&args[..], more].concat()).succeeded().url();
        Client::TypeScript("auto").call(&url, HELLO);
    }
}

/// A server that needs no packages: it returns its arguments, a variable and a file.
const PLAIN_PYTHON_SERVER: &str = "import json, os, sys\n\n\
    for line in sys.stdin:\n\
    \x20   request = json.loads(line)\n\
    \x20   method, params = request['method'], request.get('params', {})\n\
    \x20   if 'id' not in request:\n\
    \x20       continue\n\
    \x20   answer = {'jsonrpc': '2.0', 'id': request['id']}\n\
    \x20   if method == 'initialize':\n\
    \x20       answer['result'] = {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}},\n\
    \x20                           'serverInfo': {'name': 'plain', 'version': '1'}}\n\
    \x20   elif method == 'tools/list':\n\
    \x20       answer['result'] = {'tools': [{'name': 'hello', 'inputSchema': {'type': 'object'}}]}\n\
    \x20   elif method == 'tools/call':\n\
    \x20       content = open(sys.argv[1] + '/file').read()\n\
    \x20       text = f'hello, you {sys.argv[2:]} {os.environ[\"KEY\"]} {os.environ[\"LIB\"]} {os.getcwd()} {content}'\n\
    \x20       answer['result'] = {'content': [{'type': 'text', 'text': text}]}\n\
    \x20   else:\n\
    \x20       answer['error'] = {'code': -32601, 'message': 'no such method'}\n\
    \x20   print(json.dumps(answer), flush=True)\n";

/// The same server in JavaScript, with a package.
const PLAIN_NODE_SERVER: &str = "import { createInterface } from \"node:readline\";\nimport { greet } from \"greet\";\n\
    const results = {\n\
      initialize: () => ({ protocolVersion: \"2025-06-18\", capabilities: { tools: {} }, serverInfo: { name: \"a\", version: \"1\" } }),\n\
      \"tools/list\": () => ({ tools: [{ name: \"hello\", inputSchema: { type: \"object\" } }] }),\n\
      \"tools/call\": ({ arguments: { name } }) => ({ content: [{ type: \"text\", text: greet(name) }] }),\n\
    };\n\
    createInterface({ input: process.stdin }).on(\"line\", (line) => {\n\
      const { id, method, params } = JSON.parse(line);\n\
      if (id === undefined) return;\n\
      const answer = results[method]\n\
        ? { result: results[method](params) }\n\
        : { error: { code: -32601, message: \"no such method\" } };\n\
      console.log(JSON.stringify({ jsonrpc: \"2.0\", id, ...answer }));\n\
    });\n";

/// Packs the files in a folder into a bundle.
fn pack(home: &Home, folder: &str, bundle: &str) {
    let files = fs::read_dir(home.path(folder)).unwrap().map(|entry| entry.unwrap().file_name());
    let mut zip = home.command("python3");
    zip.args(["-m", "zipfile", "-c", &home.text(bundle)]).args(files).current_dir(home.path(folder));
    assert!(zip.status().unwrap().success());
}

pub(super) fn bundles_of_each_kind_run(home: &Home) {
    home.provide_images(&[PYTHON]);
    home.write("data/file", "content");
    let config = json!({
        "data": {"type": "directory", "title": "Data", "description": "Data", "required": true},
        "level": {"type": "number", "title": "Level", "description": "Level", "default": 3},
        "key": {"type": "string", "title": "Key", "description": "Key", "sensitive": true, "required": true},
    });
    let manifest = |kind: &str, entry: &str, launch: Value| {
        json!({"manifest_version": "0.3", "name": "plain", "version": "4.5.6", "description": "Plain",
            "author": {"name": "A"}, "user_config": config,
            "server": {"type": kind, "entry_point": entry, "mcp_config": launch}})
    };
    let env = json!({"KEY": "Bearer ${user_config.key}", "LIB": "${__dirname}/lib"});
    let args = |entry: &str| json!([entry, "${user_config.data}", "--level", "${user_config.level}"]);
    let python = json!({"command": "python", "args": args("${__dirname}/server/main.py"), "env": env,
        "platform_overrides": {"win32": {"command": "python.exe"}}});
    let binary = json!({"command": "nothing", "platform_overrides": {
        "linux": {"command": "server/run", "args": ["${user_config.data}", "--level", "${user_config.level}"], "env": env}}});
    home.write("python/manifest.json", &manifest("python", "server/main.py", python).to_string());
    home.write("python/server/main.py", PLAIN_PYTHON_SERVER);
    home.write("binary/manifest.json", &manifest("binary", "server/run", binary).to_string());
    home.write("binary/server/run", &format!("#!/usr/bin/env python3\n{PLAIN_PYTHON_SERVER}"));
    let uv = json!({"command": "uv", "args": args("server/main.py"), "env": env});
    home.write("uv/manifest.json", &manifest("uv", "server/main.py", uv).to_string());
    home.write(
        "uv/pyproject.toml",
        "[project]\nname = \"plain\"\nversion = \"1\"\ndependencies = [\"colorama\"]\n",
    );
    home.write("uv/server/main.py", &format!("import colorama\n{PLAIN_PYTHON_SERVER}"));
    home.set("MCPM_SECRETS_PROVIDER", "environment");
    home.set("MCPM_SECRET_stored", "canary");
    let folder = fs::canonicalize(home.path("data")).unwrap();
    for kind in ["python", "binary", "uv"] {
        let bundle = format!("{kind}.mcpb");
        pack(home, kind, &bundle);
        let (path, name, data) =
            (format!("./{bundle}"), home.name(kind), format!("data={}", folder.display()));
        let run = ["run", &path, "--runtime-image", PYTHON, "--ca-cert", CERTIFICATES, "--name", &name];
        let missing = home.run(&run);
        assert_eq!(missing.code, Some(2), "{missing:?}");
        assert!(missing.stderr.contains("needs values for `data` (Data), `key` (Key)"), "{missing:?}");
        let values = ["--config", &data, "--secret", "stored,target=KEY"];
        let url = home.run(&[&run[..], &values].concat()).succeeded().url();
        let answer = Session::open(&url).call("hello", &json!({}));
        assert!(
            answer.contains("hello, you ['--level', '3'] Bearer canary /app/src/lib /app/src content"),
            "{answer}"
        );
        let exported = home.run(&["export", &name]).succeeded().stdout;
        assert!(!exported.contains("canary"), "{exported}");
    }
}

pub(super) fn a_node_bundle_runs_with_the_packages_in_it(home: &Home) {
    home.provide_images(&[NODE]);
    let launch = json!({"command": "node", "args": ["${__dirname}/server.mjs"]});
    let manifest = json!({"dxt_version": "0.1", "name": "hello", "version": "1.0.0", "server": {
        "type": "node", "entry_point": "server.mjs", "mcp_config": launch}});
    home.write("node/manifest.json", &manifest.to_string());
    home.write("node/server.mjs", PLAIN_NODE_SERVER);
    home.write("node/node_modules/greet/package.json", "{\"name\": \"greet\", \"main\": \"index.js\"}");
    home.write("node/node_modules/greet/index.js", "exports.greet = (name) => `hello, ${name}`;\n");
    pack(home, "node", "hello.dxt");
    let name = home.name("node");
    let url = home.run(&["run", "./hello.dxt", "--runtime-image", NODE, "--name", &name]).succeeded().url();
    let answer = Session::open(&url).call("hello", &json!({"name": "you"}));
    assert!(answer.contains("hello, you"), "{answer}");
}
