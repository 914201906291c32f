"""Connections to a server without a port."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from ._errors import UpstreamError
from ._stream import Stream

if TYPE_CHECKING:
    from ._native import mcpm as _native


class Connection:
    """A connection to a server from this process, which needs no port.

    It transports JSON-RPC messages in both directions. Requests pass through all layers of the proxy, as if they had
    arrived at its port: authentication, tool filters, policies and the audit log apply. The connection ends when the
    workload or proxy stops, or when the server has lost the session and cannot continue it.
    """

    def __init__(self, native: _native.Connection) -> None:
        self._native = native
        self._texts: Stream[str] = Stream(native.receive)

    async def send(self, message: Mapping[str, Any] | str) -> None:
        """Sends one JSON-RPC message: an object, or its text."""
        text = message if isinstance(message, str) else json.dumps(message)
        await self._native.send(text)

    async def receive(self) -> dict[str, Any] | None:
        """Waits for the next JSON-RPC message from the server; returns None after the end of the connection.

        If the caller is cancelled, no message is lost.
        """
        text = await self.receive_text()
        if text is None:
            return None
        message: dict[str, Any] = json.loads(text)
        return message

    async def receive_text(self) -> str | None:
        """Waits for the text of the next JSON-RPC message; returns None after the end of the connection."""
        return await self._texts.next()

    def __aiter__(self) -> Connection:
        return self

    async def __anext__(self) -> dict[str, Any]:
        if (message := await self.receive()) is None:
            raise StopAsyncIteration
        return message

    async def close(self) -> None:
        """Ends the connection. mcpm waits up to 2 s for pending responses, which can still be received."""
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
        # The task ends when the client has closed its stream.
        with contextlib.suppress(anyio.BrokenResourceError):
            async with received:
                while (text := await connection.receive_text()) is not None:
                    try:
                        message = SessionMessage(messages.validate_json(text))
                    except ValueError as error:
                        await received.send(error)
                    else:
                        await received.send(message)

    async def send() -> None:
        # Sending fails after the end of the connection. `receive` has reported that end to the client already.
        with contextlib.suppress(UpstreamError):
            async with sent:
                async for message in sent:
                    await connection.send(message.message.model_dump_json(by_alias=True, exclude_none=True))

    tasks = [asyncio.create_task(receive()), asyncio.create_task(send())]
    try:
        async with read, write:
            yield read, write
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
