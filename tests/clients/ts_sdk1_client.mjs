// The TypeScript SDK 1, which supports only the legacy era: lists the tools of the server at URL, calls one, prints one
// JSON line.
//
//     ts_sdk1_client.mjs URL TOOL ARGUMENTS [streamable|sse]
//
// The line is {"protocol": negotiated version, "tools": [names], "result": tool result}; errors are printed to stderr.
// The packages are those in the folder MCPM_TEST_NODE_MODULES.
import { createRequire } from "node:module";

const require = createRequire(`${process.env.MCPM_TEST_NODE_MODULES}/`);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { SSEClientTransport } = require("@modelcontextprotocol/sdk/client/sse.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

const [url, tool, args, kind = "streamable"] = process.argv.slice(2);
const transports = { streamable: StreamableHTTPClientTransport, sse: SSEClientTransport };
const client = new Client({ name: "ts-sdk1-client", version: "1.0.0" });
try {
  const transport = new transports[kind](new URL(url));
  let protocol;
  const agree = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = (version) => {
    protocol = version;
    agree?.(version);
  };
  await client.connect(transport);
  const tools = [];
  let cursor;
  do {
    const page = await client.listTools({ cursor });
    tools.push(...page.tools.map(({ name }) => name));
    cursor = page.nextCursor;
  } while (cursor);
  const result = await client.callTool({ name: tool, arguments: JSON.parse(args) });
  console.log(JSON.stringify({ protocol, tools, result }));
} catch (error) {
  console.error(String(error));
  process.exitCode = 1;
} finally {
  await client.close();
}
