"""Reads a configuration file with `mcpServers`, connects to its servers, and prints the names of their tools."""

import asyncio
import json
import sys

from fastmcp import Client


async def main() -> None:
    with open(sys.argv[1]) as file:
        config = {"mcpServers": json.load(file)["mcpServers"]}
    async with Client(config) as client:
        print(*sorted(tool.name for tool in await client.list_tools()), sep="\n")


asyncio.run(main())
