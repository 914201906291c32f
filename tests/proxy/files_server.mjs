// A server of the TypeScript SDK on its standard streams: files by a template, and a secret by its URI.
//
// The packages are those in the folder MCPM_TEST_NODE_MODULES.
import { createRequire } from "node:module";

const require = createRequire(`${process.env.MCPM_TEST_NODE_MODULES}/`);
const { McpServer, ResourceTemplate } = require("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = require("@modelcontextprotocol/sdk/server/stdio.js");

const files = { "handbook/a.txt": "for all", "handbook/a b.txt": "for all", "secret.txt": "hush" };
const list = async () => ({
  resources: Object.keys(files).map((name) => ({ uri: new URL(`file:///${name}`).href, name })),
});
const server = new McpServer({ name: "files", version: "1.0.0" });
const template = new ResourceTemplate("file:///{+path}", { list });
server.registerResource("files", template, {}, async (uri, { path }) => ({
  contents: [{ uri: uri.href, text: files[decodeURIComponent(path)] ?? "" }],
}));
server.registerResource("secret", "config://secret", {}, async (uri) => ({
  contents: [{ uri: uri.href, text: "hush" }],
}));
await server.connect(new StdioServerTransport());
