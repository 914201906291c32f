// The TypeScript client (SDK 2): lists the tools of the server at URL, calls one, prints one JSON line.
//
//     ts_client.mjs URL TOOL ARGUMENTS [auto|legacy|2026-07-28]
//
// The line is {"protocol": negotiated version, "tools": [names], "result": tool result}; errors are printed to stderr.
// The packages are those in the folder MCPM_TEST_NODE_MODULES.
import { createRequire } from "node:module";

const require = createRequire(`${process.env.MCPM_TEST_NODE_MODULES}/`);
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");

const [url, tool, args, era = "auto"] = process.argv.slice(2);
const mode = era === "auto" || era === "legacy" ? era : { pin: era };
const client = new Client({ name: "ts-client", version: "1.0.0" }, { versionNegotiation: { mode } });
try {
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const { tools } = await client.listTools(); // All pages: this client follows the cursors itself.
  const result = await client.callTool({ name: tool, arguments: JSON.parse(args) });
  const protocol = client.getNegotiatedProtocolVersion();
  console.log(JSON.stringify({ protocol, tools: tools.map(({ name }) => name), result }));
} catch (error) {
  console.error(String(error));
  process.exitCode = 1;
} finally {
  await client.close();
}
