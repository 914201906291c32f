"""Shared by the tests. `tests/bindings.rs` runs them, since they need an engine, images and the native library."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import mcpm

EVERYTHING = "mcpm-test/everything:1"
"""An image that speaks MCP on standard input and output."""
SILENT = "mcpm-test/silent:1"
"""An image that never responds."""
PREFIX = os.environ.get("MCPM_TEST_PREFIX", f"python-{os.getpid()}")
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def containers(name: str) -> list[str]:
    """Returns the states of the containers of a workload."""
    label = f"label=mcpm-name={name}"
    listed = subprocess.check_output(["docker", "ps", "--all", "--filter", label, "--format", "{{.State}}"], text=True)
    return listed.split()


async def poll(what: str, condition: Callable[[], bool]) -> None:
    """Waits for a state of another process or of the engine, which emits no event."""
    for _ in range(1000):
        if await asyncio.to_thread(condition):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{what}: not within 20 s")


async def awaited(awaitable: Awaitable[Any]) -> Any:
    """Returns a coroutine with the result, from which a task can be created."""
    return await awaitable


async def failure(operation: Awaitable[Any]) -> mcpm.McpmError:
    """Returns the error that an operation fails with."""
    with pytest.raises(mcpm.McpmError) as caught:
        await operation
    assert str(caught.value) == caught.value.message
    return caught.value


class Events:
    """The events of a workload, as `on_event` gets them."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[mcpm.WorkloadEvent] = asyncio.Queue()

    def __call__(self, event: mcpm.WorkloadEvent) -> None:
        self.queue.put_nowait(event)

    async def until(self, kind: type) -> list[type]:
        """Returns the kinds up to the first of that kind."""
        kinds: list[type] = []
        while not kinds or kinds[-1] is not kind:
            kinds.append(type(await self.queue.get()))
        return kinds


async def kinds(events: AsyncIterator[mcpm.WorkloadEvent]) -> list[type]:
    """Returns the kinds of all events."""
    return [type(event) async for event in events]


class Client:
    """A client of the MCP server behind a connection."""

    def __init__(self, connection: mcpm.Connection) -> None:
        self.connection = connection
        self._ids = itertools.count(1)

    @classmethod
    async def initialized(cls, connection: mcpm.Connection) -> Client:
        """Opens a session."""
        client = cls(connection)
        response = await client.request("initialize", **INITIALIZE)
        assert response["result"]["serverInfo"]["name"] == "mcp-conformance-test-server", response
        await connection.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return client

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a request and returns its response."""
        number = next(self._ids)
        await self.connection.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        async for message in self.connection:
            if message.get("id") == number:
                return message
        raise AssertionError(f"no response to {method}")

    async def tools(self) -> list[str]:
        """Returns the names of the tools."""
        return [tool["name"] for tool in (await self.request("tools/list"))["result"]["tools"]]

    async def call(self, tool: str) -> dict[str, Any]:
        """Calls a tool without arguments."""
        return await self.request("tools/call", name=tool, arguments={})


def initialize_over_http(url: str) -> str:
    """Sends the first request to a URL, and returns the response."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(url, json.dumps(message).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as response:
        text: str = response.read().decode()
    return text
