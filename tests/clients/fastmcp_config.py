"""Reads a configuration file with `mcpServers`, and connects to its servers.

Prints the names of their tools, or with `TOOL ARGUMENTS` the result of a call.
"""

import asyncio
import json
import sys

from fastmcp import Client


async def main() -> None:
    with open(sys.argv[1]) as file:
        config = {"mcpServers": json.load(file)["mcpServers"]}
    async with Client(config) as client:
        if len(sys.argv) > 2:
            result = await client.call_tool(sys.argv[2], json.loads(sys.argv[3]))
            print(*(block.text for block in result.content), sep="\n")
        else:
            print(*sorted(tool.name for tool in await client.list_tools()), sep="\n")


asyncio.run(main())
