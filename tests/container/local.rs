//! Local scripts and projects, with dependencies from their real indexes.

use std::fs;

use super::{
    Client,
    packages::{HELLO, Package},
};
use crate::support::Home;

const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
const PYTHON: &str = "mcpm-test/python:1";
const NODE: &str = "mcpm-test/node:1";

/// The rest of a server in Python, after what it imports.
const PYTHON_SERVER: &str = "from mcp.server import MCPServer\nserver = MCPServer('hello')\n\n\n@server.tool()\n\
    def hello(name: str) -> str:\n    return f'hello, {name}'\n\n\n";
/// A server in JavaScript that is also TypeScript.
const NODE_SERVER: &str = "import { McpServer } from \"@modelcontextprotocol/sdk/server/mcp.js\";\n\
    import { StdioServerTransport } from \"@modelcontextprotocol/sdk/server/stdio.js\";\n\
    import { z } from \"zod\";\n\
    const server = new McpServer({ name: \"hello\", version: \"1.0.0\" });\n\
    server.registerTool(\"hello\", { inputSchema: { name: z.string() } }, async ({ name }) => ({\n\
      content: [{ type: \"text\", text: `hello, ${name}` }],\n\
    }));\n\
    await server.connect(new StdioServerTransport());\n";

#[test]
fn a_python_script_runs_with_the_dependencies_that_it_names() {
    let home = Home::new();
    // The name must not reach a shell, and nothing beside the script the image.
    let metadata = "# /// script\n# dependencies = [\"mcp==2.3.0\"]\n# ///\nimport os\nimport colorama\n";
    let script =
        format!("{metadata}assert os.listdir(os.path.dirname(__file__)) == [\"it's a server.py\"]\n");
    home.write("it's a server.py", &(script + PYTHON_SERVER + "server.run()\n"));
    home.write("secret.txt", "hush");
    let more = ["--with", "colorama>=0.4,<1"];
    let package = Package { reference: "./it's a server.py", base: PYTHON, more: &more };
    let url = package.start_twice(&home, &[]);
    assert_eq!(Client::Python("auto").call(&url, HELLO).as_deref(), Some("2026-07-28"));
    let path = fs::canonicalize(home.path("it's a server.py")).unwrap();
    let info = home.status(&home.name("first"));
    assert_eq!(info["package"]["reference"], format!("uvx://{}", path.display()));
    // What it is built with is a part of the export.
    let exported = home.text("exported.json");
    home.run(&["export", &home.name("first"), &exported]).succeeded();
    home.run(&["rm", &home.name("first")]).succeeded();
    home.run(&["run", "--from-config", &exported]).succeeded();
}

#[test]
fn a_python_project_runs_its_command() {
    let home = Home::new();
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
    let url = package.start_twice(&home, &[]);
    Client::Python("auto").call(&url, HELLO);
    assert_eq!(home.status(&home.name("first"))["package"]["version"], "1.2.3");
    // A script of the project has its dependencies and its modules.
    home.write("project/start.py", "from greeting.server import main\n\nmain()\n");
    let name = home.name("script");
    let script = ["run", "./project/start.py", "--runtime-image", PYTHON, "--ca-cert", CERTIFICATES];
    let outcome = home.run(&[&script[..], &["--name", &name]].concat());
    assert!(outcome.stderr.contains("files that may contain secrets are excluded: `.env`"), "{outcome:?}");
    Client::Python("auto").call(&outcome.succeeded().url(), HELLO);
}

#[test]
fn scripts_and_projects_of_node_run() {
    let home = Home::new();
    let dependencies = "{\"@modelcontextprotocol/sdk\": \"^1\", \"zod\": \"^3\"}";
    // Its command is made by its build, and ignored by Git.
    let project = format!(
        "{{\"name\": \"@local/greeting\", \"version\": \"0.3.0\", \"type\": \"module\", \"dependencies\": {dependencies},
          \"scripts\": {{\"build\": \"mkdir build && cp server.js build/index.js\"}}, \"bin\": \"build/index.js\"}}"
    );
    home.write("project/package.json", &project);
    home.write("project/server.js", &format!("#!/usr/bin/env node\n{NODE_SERVER}"));
    home.write("project/.gitignore", "build/\n");
    home.write("project/node_modules/zod/package.json", "no JSON");
    let package = Package { reference: "./project", base: NODE, more: &[] };
    let url = package.start_twice(&home, &["--transport", "stdio"]);
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
