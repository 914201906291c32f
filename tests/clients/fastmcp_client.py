"""fastmcp as a client: lists the tools of the server at URL, calls one, prints one JSON line.

    fastmcp_client.py URL TOOL ARGUMENTS [auto|legacy|2026-07-28]

The line is {"protocol": negotiated version, "tools": [names], "result": tool result}; errors are printed to stderr.
"""

import asyncio
import json
import sys

from fastmcp import Client


async def main(url: str, tool: str, arguments: str, mode: str = "auto") -> None:
    async with Client(url, mode=mode) as client:
        tools = [tool.name for tool in await client.list_tools()]
        result = await client.call_tool_mcp(tool, json.loads(arguments))
        line = {
            "protocol": client.protocol_version,
            "tools": tools,
            "result": result.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
    print(json.dumps(line))


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}")
