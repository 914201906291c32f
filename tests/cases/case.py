"""Runs the case in a file: case.py FILE. tests/cases.rs describes the lines."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import urllib.request
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import mcpm

BOOLEANS = {"true": True, "false": False}


class Follows(mcpm.UserPrompt):
    """A user who follows the login."""

    def __init__(self) -> None:
        self.prompted = 0

    async def show_login(self, login: mcpm.LoginPrompt) -> None:
        self.prompted += 1
        await asyncio.to_thread(lambda: urllib.request.urlopen(login.url, timeout=30).read())


class Cancels(mcpm.UserPrompt):
    """A user who cancels the login."""

    def show_login(self, login: mcpm.LoginPrompt) -> None:
        raise mcpm.OperationInterruptedError("the user cancelled the prompt")


class Approves(mcpm.UserPrompt):
    """A user who allows access to this machine, or denies it."""

    def __init__(self, allows: bool) -> None:
        self.allows = allows
        self.prompted = 0

    def approve(self, question: str) -> bool:
        self.prompted += 1
        return self.allows


async def expect(outcome: Awaitable[Any], rest: str) -> Any:
    """Checks an outcome: after `fails`, its kind and a text of its message; otherwise that there is no error."""
    if not rest.startswith("fails "):
        return await outcome
    kind, _, text = rest.removeprefix("fails ").partition(" ")
    try:
        await outcome
    except mcpm.McpmError as error:
        assert error.kind == kind and text in str(error), f"{error.kind}: {error}"
        return None
    raise AssertionError("it did not fail")


class Case:
    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.prompt: mcpm.UserPrompt | None = None
        self.events: asyncio.Queue[mcpm.WorkloadEvent] = asyncio.Queue()
        self.running: Any = None
        self.connection: Any = None
        self.explanation: Any = None
        self.last_id = 0

    async def carry_out(self, verb: str, rest: str) -> None:
        first, _, tail = rest.partition(" ")
        match verb:
            case "option":
                value: Any = [tail] if first == "tools" else BOOLEANS.get(tail, tail)
                if first == "volume":
                    source, _, target = tail.partition(":")
                    value = [mcpm.VolumeSpec(host_path=source, container_path=target)]
                self.options[first] = int(tail) if tail.isdigit() else value
            case "prompt":
                self.prompt = {
                    "none": None,
                    "cancel": Cancels(),
                    "follow": Follows(),
                    "approve": Approves(True),
                    "deny": Approves(False),
                }[rest]
            case "start":
                self.running = await expect(self.start(first), tail) or self.running
            case "start-recorded":
                started = mcpm.Workloads().start(first, on_event=self.events.put_nowait, prompt=self.prompt)
                self.running = await expect(started, tail) or self.running
            case "start-and-cancel":
                await self.start_and_cancel()
            case "event":
                kind = getattr(mcpm.WorkloadEvent, rest.upper())
                while not isinstance(await self.events.get(), kind):
                    pass
            case "phase":
                status = self.running.status
                phase = status if isinstance(status, mcpm.Phase) else status.phase
                assert phase.name.lower() == rest, phase
            case "url":
                assert (self.running.url is not None) == (rest == "present"), self.running.url
            case "connect":
                self.connection = await expect(self.running.connect(), rest)
                if self.connection:
                    await self.shake_hands()
            case "connect-with":
                self.connection = await self.running.connect(bearer_token=rest)
                await self.shake_hands()
            case "connect-denied":
                self.connection = await self.running.connect()
                response = await self.initialize()
                assert response["error"]["data"]["reason"] == rest, response
            case "tool":
                tools = (await self.request("tools/list", {}))["result"]["tools"]
                assert any(tool["name"] == first for tool in tools) == (tail == "listed"), tools
            case "call":
                result = await self.call(first)
                assert tail in str(result["result"]), result
            case "denied":
                data = (await self.call(first))["error"]["data"]
                assert data["reason"] == tail, data
                self.explanation = mcpm.explain(data["refusal"])
            case "explained":
                of = self.explanation.refusal if first == "server" else self.explanation
                assert getattr(of, first) == tail, self.explanation
            case "disconnect":
                await self.connection.close()
            case "check":
                await expect(self.running.check(), rest)
            case "prompted":
                assert isinstance(self.prompt, Follows | Approves) and self.prompt.prompted == int(rest)
            case "listed":
                listed = {workload.name: workload for workload in await mcpm.Workloads().list()}
                found = listed[first].status.name.lower() if first in listed else "missing"
                assert found == tail, found
            case "stop":
                await self.running.stop()
            case "remove":
                await expect(mcpm.Workloads().remove(first, 5), tail)
            case "write":
                Path(first).write_text(tail)
            case "accept-ignore-files":
                outcome = asyncio.to_thread(mcpm.Workloads().accept_ignore_files, first)
                changed = await expect(outcome, tail if tail.startswith("fails ") else "")
                if changed is not None:
                    assert [path.name for path in changed] == ([] if tail == "none" else [tail]), changed
            case _:
                raise AssertionError(f"unknown verb {verb}")

    async def start(self, what: str) -> Any:
        options, self.options = self.options, {}
        if what == "proxy":
            return await mcpm.Proxy.start(prompt=self.prompt, **options)
        return await mcpm.Workload.start(on_event=self.events.put_nowait, prompt=self.prompt, **options)

    async def start_and_cancel(self) -> None:
        name = self.options["name"]
        starting = asyncio.create_task(self.start("workload"))
        while not isinstance(await self.events.get(), mcpm.WorkloadEvent.STARTING):
            pass
        starting.cancel()
        try:
            await starting
            raise AssertionError("it was not cancelled")
        except asyncio.CancelledError:
            pass
        # The name is free once the start is rolled back.
        while name in [workload.name for workload in await mcpm.Workloads().list()]:
            pass

    async def initialize(self) -> dict[str, Any]:
        client = {"name": "case", "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        return await self.request("initialize", params)

    async def shake_hands(self) -> None:
        assert (await self.initialize())["result"]["protocolVersion"]
        await self.connection.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, tool: str) -> dict[str, Any]:
        return await self.request("tools/call", {"name": tool, "arguments": {}})

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.last_id += 1
        await self.connection.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        message: dict[str, Any]
        async for message in self.connection:
            if message.get("id") == self.last_id:
                return message
        raise AssertionError("the connection has ended")


async def main() -> None:
    case = Case()
    with open(sys.argv[1]) as lines:
        for number, text in enumerate(lines, 1):
            line = re.sub(r"\$([A-Z]+)", lambda found: os.environ[found[1]], text.rstrip("\n"))
            if not line or line.startswith("#"):
                continue
            verb, _, rest = line.partition(" ")
            try:
                await case.carry_out(verb, rest)
            except BaseException:
                print(f"{sys.argv[1]}:{number}: {line}", file=sys.stderr)
                raise


asyncio.run(main())
print("passed")
