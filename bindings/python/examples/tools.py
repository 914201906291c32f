"""Runs servers without ports and calls their tools: tools.py NAME=SERVER...

Each line of the input calls a tool: NAME TOOL, and its arguments as JSON. The end of the input stops the servers.
"""

import asyncio
import contextlib
import json
import sys

import mcp

import mcpm


class Server:
    """A server with a session of a client."""

    def __init__(self, name: str, image: str, stack: contextlib.AsyncExitStack) -> None:
        self.name = name
        self.image = image
        self.stack = stack

    def show(self, event: mcpm.WorkloadEvent) -> None:
        print(f"{self.name}: {event}")

    async def start(self) -> None:
        starting = mcpm.Workload.start(self.image, name=self.name, in_process_only=True, on_event=self.show)
        self.workload = await self.stack.enter_async_context(starting)

    async def open_session(self) -> None:
        streams = await self.stack.enter_async_context(self.workload.connect_streams())
        self.session = await self.stack.enter_async_context(mcp.ClientSession(*streams))
        await self.session.initialize()
        for tool in (await self.session.list_tools()).tools:
            print(f"{self.name} {tool.name}")

    async def call(self, tool: str, arguments: str = "{}") -> None:
        result = await self.session.call_tool(tool, json.loads(arguments))
        for content in result.content:
            print(getattr(content, "text", content.type))


async def main() -> None:
    async with contextlib.AsyncExitStack() as stack:
        servers = {}
        for argument in sys.argv[1:]:
            name, image = argument.split("=", 1)
            servers[name] = Server(name, image, stack)
        await asyncio.gather(*(server.start() for server in servers.values()))
        for server in servers.values():
            await server.open_session()
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            name, tool, *arguments = line.split(" ", 2)
            try:
                await servers[name].call(tool, *arguments)
            except (KeyError, ValueError, mcp.MCPError) as error:
                print(f"error: {error!r}")


try:
    asyncio.run(main())
except mcpm.McpmError as error:
    sys.exit(f"{error.kind}: {error}")
