"""Connections to a server without a port."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._native import mcpm as _native


class Connection:
    """A connection to a server from this process, which needs no port.

    It transports JSON-RPC messages in both directions. Requests pass the whole proxy, as if they came from a port:
    authentication, tool filters, policies and the audit log apply. It ends when the workload or proxy stops, and
    when the server has lost the session and cannot continue it.
    """

    def __init__(self, native: _native.Connection) -> None:
        self._native = native

    async def send(self, message: Mapping[str, Any] | str) -> None:
        """Sends one JSON-RPC message: an object, or its text."""
        text = message if isinstance(message, str) else json.dumps(message)
        await self._native.send(text)

    async def receive(self) -> dict[str, Any] | None:
        """Waits for the next JSON-RPC message from the server; None after the end of the connection."""
        text = await self.receive_text()
        if text is None:
            return None
        message: dict[str, Any] = json.loads(text)
        return message

    async def receive_text(self) -> str | None:
        """Waits for the text of the next JSON-RPC message; None after the end of the connection."""
        return await self._native.receive()

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        return self._messages()

    async def _messages(self) -> AsyncIterator[dict[str, Any]]:
        while (message := await self.receive()) is not None:
            yield message

    async def close(self) -> None:
        """Ends the connection. Missing responses are waited for up to 2 s and can still be received."""
        await self._native.close()


@contextlib.asynccontextmanager
async def streams(connection: Connection) -> AsyncIterator[tuple[Any, Any]]:
    """Connects the streams that the client of the package `mcp` reads and writes."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp.types import JSONRPCMessage
    from pydantic import TypeAdapter

    messages: TypeAdapter[Any] = TypeAdapter(JSONRPCMessage)
    received, read = anyio.create_memory_object_stream[Any](0)
    write, sent = anyio.create_memory_object_stream[Any](0)

    async def receive() -> None:
        async with received:
            while (text := await connection.receive_text()) is not None:
                await received.send(SessionMessage(messages.validate_json(text)))

    async def send() -> None:
        async with sent:
            async for message in sent:
                await connection.send(message.message.model_dump_json(by_alias=True, exclude_none=True))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        tasks.start_soon(send)
        async with read, write:
            yield read, write
        tasks.cancel_scope.cancel()
