"""The Python SDK as a client of a command: lists tools, gets progress, and answers a request of the server.

    stdio_client.py MODE TOOL COMMAND [ARGS...]

MODE is auto, legacy or 2026-07-28; TOOL is the tool that requests sampling. Prints one JSON line: {"protocol":
negotiated version, "tools": [names], "progress": [values], "sampled": result of TOOL}.
"""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.client import ClientRequestContext
from mcp_types import CreateMessageRequestParams, CreateMessageResult, TextContent


async def sample(context: ClientRequestContext, params: CreateMessageRequestParams) -> CreateMessageResult:
    return CreateMessageResult(
        role="assistant", content=TextContent(type="text", text="a sample"), model="test", stop_reason="endTurn"
    )


async def main(mode: str, tool: str, command: str, *args: str) -> None:
    server = StdioServerParameters(command=command, args=list(args), env=dict(os.environ))
    values = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        values.append(progress)

    async with Client(server, mode=mode, sampling_callback=sample) as client:
        tools, cursor = [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            tools += [listed.name for listed in page.tools]
            if not (cursor := page.next_cursor):
                break
        await client.call_tool("test_tool_with_progress", {}, progress_callback=note)
        result = await client.call_tool(tool, {"prompt": "Say something"})
        line = {
            "protocol": client.protocol_version,
            "tools": tools,
            "progress": values,
            "sampled": result.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
    print(json.dumps(line))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
