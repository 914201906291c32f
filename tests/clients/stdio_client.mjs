// The TypeScript client (SDK 2) of a command: lists tools, gets progress, and answers a request of the server.
//
//     stdio_client.mjs MODE TOOL COMMAND [ARGS...]
//
// MODE is auto, legacy or 2026-07-28; TOOL is the tool that requests sampling. Prints one JSON line: {"protocol":
// negotiated version, "tools": [names], "progress": [values], "sampled": result of TOOL}. The packages are those in the
// folder MCPM_TEST_NODE_MODULES.
import { createRequire } from "node:module";

const require = createRequire(`${process.env.MCPM_TEST_NODE_MODULES}/`);
const { Client } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const [era, tool, command, ...args] = process.argv.slice(2);
const mode = era === "auto" || era === "legacy" ? era : { pin: era };
const info = { name: "stdio-client", version: "1.0.0" };
const client = new Client(info, { capabilities: { sampling: {} }, versionNegotiation: { mode } });
client.setRequestHandler("sampling/createMessage", async () => ({
  role: "assistant",
  content: { type: "text", text: "a sample" },
  model: "test",
  stopReason: "endTurn",
}));
try {
  await client.connect(new StdioClientTransport({ command, args, env: process.env }));
  const { tools } = await client.listTools(); // All pages: this client follows the cursors itself.
  const progress = [];
  const onprogress = (step) => progress.push(step.progress);
  await client.callTool({ name: "test_tool_with_progress", arguments: {} }, { onprogress });
  const sampled = await client.callTool({ name: tool, arguments: { prompt: "Say something" } });
  const protocol = client.getNegotiatedProtocolVersion();
  console.log(JSON.stringify({ protocol, tools: tools.map(({ name }) => name), progress, sampled }));
} catch (error) {
  console.error(String(error));
  process.exitCode = 1;
} finally {
  await client.close();
}
