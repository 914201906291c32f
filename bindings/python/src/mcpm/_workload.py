"""Workloads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from . import _options
from ._connection import Connection, streams
from ._native import mcpm as _native
from ._starting import Starting
from ._stream import Stream
from ._user_prompt import adapt
from ._values import duration

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._native.mcpm import WorkloadEvent, WorkloadStatus
    from ._options import WorkloadKeywords
    from ._secret import Secret
    from ._user_prompt import AnyPrompt

GRACE = timedelta(seconds=10)


class Workload:
    """A running workload: an MCP server in a container, or a remote MCP server, behind its own proxy.

    It runs as long as this object and this process exist, so keep a reference; at the end of either, the server is
    killed. `stop` lets the server exit by itself.
    """

    def __init__(self, native: _native.Workload) -> None:
        self._native = native

    @classmethod
    def start(
        cls,
        server: str | None = None,
        *,
        on_event: Callable[[WorkloadEvent], object] | None = None,
        prompt: AnyPrompt | None = None,
        in_process_only: bool = False,
        **options: Unpack[WorkloadKeywords],
    ) -> Starting[Workload]:
        """Starts a workload; it is ready when clients can connect.

        Await the result, or use it with `async with`, which also stops the workload at the end. Every option of
        `mcpm run` is a keyword argument. The environment variables of this process determine where the record is and
        which engine is used, as for the command line. A start that is cancelled is rolled back.

        `on_event` is called on the event loop with each event from the start on, including those of the image pull.
        `prompt` prompts the user at the start and later, for example to log in to a remote server; without it, the
        user cannot be prompted. With `in_process_only`, the proxy opens no port: only `connect` can connect to the
        server.
        """

        async def start() -> Workload:
            events = listen(on_event)
            asks = adapt(prompt, asyncio.get_running_loop())
            record = _options.workload_options(server, options)
            return cls(await _native.Workload.start(record, events, asks, in_process_only))

        return Starting(start, lambda workload: workload.stop())

    @property
    def name(self) -> str:
        """The name."""
        return self._native.name()

    @property
    def url(self) -> str | None:
        """The URL for clients; None without a port."""
        return self._native.url() or None

    @property
    def status(self) -> WorkloadStatus:
        """The status."""
        return self._native.status()

    def events(self) -> AsyncIterator[WorkloadEvent]:
        """Iterates over the events from now on, until the workload ends."""
        return Stream(self._native.events().next)

    async def wait(self) -> WorkloadStatus:
        """Waits until the server has exited and will not be restarted, or until the workload was stopped."""
        return await self._native.wait()

    async def stop(self, grace: timedelta | float = GRACE) -> None:
        """Stops the workload. A server that has not exited after `grace`, a timedelta or seconds, is killed.

        The container and the record remain, so that `Workloads.start` and the command line can start the workload
        again. Stopping twice is allowed; if the caller is cancelled, stopping continues.
        """
        await self._native.stop(duration(grace))

    def connect(self, *, bearer_token: Secret | str | None = None) -> Starting[Connection]:
        """Connects to the server from this process, without a port; `async with` also closes the connection.

        Requests pass through all layers of the proxy; `bearer_token` is the access token of the caller, if the workload
        authenticates callers.
        """

        async def connect() -> Connection:
            return Connection(await self._native.connect(bearer_token))

        return Starting(connect, lambda connection: connection.close())

    @contextlib.asynccontextmanager
    async def connect_streams(self, *, bearer_token: Secret | str | None = None) -> AsyncIterator[tuple[Any, Any]]:
        """Connects as `connect` does, and yields the two streams that `ClientSession` of the package `mcp` takes."""
        async with self.connect(bearer_token=bearer_token) as connection, streams(connection) as both:
            yield both

    def __repr__(self) -> str:
        return f"Workload(name={self.name!r}, url={self.url!r})"


# The loop keeps only weak references to its tasks.
_deliveries: set[asyncio.Task[None]] = set()


def listen(on_event: Callable[[WorkloadEvent], object] | None) -> _native.Events | None:
    """Returns the object to pass to a start so that `on_event` is called for each event.

    The event loop reports errors of the callback.
    """
    if on_event is None:
        return None
    events = _native.Events()
    loop = asyncio.get_running_loop()

    async def deliver() -> None:
        async for event in Stream(events.next):
            try:
                answer = on_event(event)
                if isinstance(answer, Awaitable):
                    await answer
            except Exception as error:  # noqa: BLE001
                loop.call_exception_handler({"message": "a callback for events failed", "exception": error})

    task = loop.create_task(deliver())
    _deliveries.add(task)
    task.add_done_callback(_deliveries.discard)
    return events
