"""The operations of mcpm for programs without an event loop; each call blocks until the operation has ended.

Call them on a thread without a running event loop. A program with an event loop uses `mcpm.Workload`, `mcpm.Proxy` and
`mcpm.Workloads`, which do not block the loop.
"""

from __future__ import annotations

import asyncio
import builtins
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import _connection, _continuations, _options, _proxy, _workload, _workloads
from ._native import mcpm as _native
from ._user_prompt import adapt
from ._workload import GRACE

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._native.mcpm import (
        Explanation,
        LogChunk,
        Phase,
        ProxyMode,
        WorkloadEvent,
        WorkloadInfo,
        WorkloadStatus,
    )
    from ._options import ProxyKeywords, WorkloadKeywords
    from ._secret import Secret
    from ._user_prompt import AnyPrompt

_continuations.install()

T = TypeVar("T")


def _run(operation: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(operation)
    operation.close()
    raise RuntimeError("an event loop runs in this thread; use the asynchronous classes of mcpm")


class _Ends:
    """An object that ends when the block of a `with` statement is left."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        raise NotImplementedError


class Connection(_Ends):
    """A connection to a server from this process; see `mcpm.Connection`."""

    def __init__(self, connection: _connection.Connection) -> None:
        self._connection = connection

    def send(self, message: Mapping[str, Any] | str) -> None:
        """Sends one JSON-RPC message: an object, or its text."""
        _run(self._connection.send(message))

    def receive(self) -> dict[str, Any] | None:
        """Waits for the next JSON-RPC message from the server; returns None after the end of the connection."""
        return _run(self._connection.receive())

    def receive_text(self) -> str | None:
        """Waits for the text of the next JSON-RPC message; returns None after the end of the connection."""
        return _run(self._connection.receive_text())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while (message := self.receive()) is not None:
            yield message

    def close(self) -> None:
        """Ends the connection. mcpm waits up to 2 s for pending responses, which can still be received."""
        _run(self._connection.close())

    def _end(self) -> None:
        self.close()


class Workload(_Ends):
    """A running workload; see `mcpm.Workload`. Leaving the block of a `with` statement stops it."""

    def __init__(self, workload: _workload.Workload) -> None:
        self._workload = workload

    @classmethod
    def start(
        cls,
        server: str | None = None,
        *,
        on_event: Callable[[WorkloadEvent], object] | None = None,
        prompt: AnyPrompt | None = None,
        in_process_only: bool = False,
        **options: Unpack[WorkloadKeywords],
    ) -> Workload:
        """Starts a workload and returns once clients can connect.

        The methods of `prompt` must not be coroutine functions.
        `on_event` is called on a separate thread with each event from the start on, including those of the image
        pull.
        """
        record, asks = _options.workload_options(server, options), adapt(prompt, None)
        started = _native.Workload.start(record, _listen(on_event), asks, in_process_only)
        return cls(_workload.Workload(_run(started)))

    @property
    def name(self) -> str:
        """The name."""
        return self._workload.name

    @property
    def url(self) -> str | None:
        """The URL for clients; None without a port."""
        return self._workload.url

    @property
    def status(self) -> WorkloadStatus:
        """The status."""
        return self._workload.status

    def events(self) -> Iterator[WorkloadEvent]:
        """Iterates over the events from now on, until the workload ends."""
        return _events(self._workload._native.events())

    def wait(self) -> WorkloadStatus:
        """Waits until the server has exited and will not be restarted, or until the workload was stopped."""
        return _run(self._workload.wait())

    def stop(self, grace: timedelta | float = GRACE) -> None:
        """Stops the workload. A server that has not exited after `grace`, a timedelta or seconds, is killed."""
        _run(self._workload.stop(grace))

    def connect(self, *, bearer_token: Secret | str | None = None) -> Connection:
        """Connects to the server from this process, without a port."""
        native = _run(self._workload._native.connect(bearer_token))
        return Connection(_connection.Connection(native))

    def _end(self) -> None:
        self.stop()


def _events(events: _native.Events) -> Iterator[WorkloadEvent]:
    while (event := _run(events.next())) is not None:
        yield event


def _listen(on_event: Callable[[WorkloadEvent], object] | None) -> _native.Events | None:
    """Returns the object to pass to a start so that `on_event` is called for each event.

    `threading.excepthook` reports errors of the callback.
    """
    if on_event is None:
        return None
    events = _native.Events()

    def deliver() -> None:
        for event in _events(events):
            try:
                on_event(event)
            except Exception:  # noqa: BLE001
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))

    # The exit of the program does not wait for this thread: the events end when mcpm is shut down.
    threading.Thread(target=deliver, name="mcpm-events", daemon=True).start()
    return events


class Proxy(_Ends):
    """A running proxy; see `mcpm.Proxy`. Leaving the block of a `with` statement stops it."""

    def __init__(self, proxy: _proxy.Proxy) -> None:
        self._proxy = proxy

    @classmethod
    def start(
        cls,
        server_name: str | None = None,
        target_uri: str | None = None,
        *,
        prompt: AnyPrompt | None = None,
        in_process_only: bool = False,
        **options: Unpack[ProxyKeywords],
    ) -> Proxy:
        """Starts a proxy and returns once clients can connect.

        The methods of `prompt` must not be coroutine functions.
        """
        record = _options.proxy_options(server_name, target_uri, options)
        started = _native.Proxy.start(record, adapt(prompt, None), in_process_only)
        return cls(_proxy.Proxy(_run(started)))

    @property
    def name(self) -> str:
        """The name of the server."""
        return self._proxy.name

    @property
    def url(self) -> str | None:
        """The URL for clients; None without a port."""
        return self._proxy.url

    @property
    def status(self) -> Phase:
        """The phase of the proxy."""
        return self._proxy.status

    @property
    def warnings(self) -> list[str]:
        """The warnings of the start, for example that callers are not authenticated."""
        return self._proxy.warnings

    def check(self) -> str | None:
        """Checks with one MCP exchange whether the target is an MCP server."""
        return _run(self._proxy.check())

    def explain(self, id: str) -> Explanation:
        """Explains a reason, or a recent denial of this proxy, by its id."""
        return self._proxy.explain(id)

    def stop(self) -> None:
        """Stops listening and waits up to 2 s for pending responses."""
        _run(self._proxy.stop())

    def connect(self, *, bearer_token: Secret | str | None = None, transport: ProxyMode | None = None) -> Connection:
        """Connects to the server from this process, without a port."""
        native = _run(self._proxy._native.connect(bearer_token, transport))
        return Connection(_connection.Connection(native))

    def _end(self) -> None:
        self.stop()


class Workloads:
    """The recorded workloads of this machine; see `mcpm.Workloads`."""

    def __init__(self) -> None:
        self._workloads = _workloads.Workloads()

    def list(self) -> builtins.list[WorkloadInfo]:
        """Returns the status of all workloads in the order of their names."""
        return _run(self._workloads.list())

    def info(self, name: str) -> WorkloadInfo:
        """Returns the status of one workload."""
        return _run(self._workloads.info(name))

    def start(
        self,
        name: str,
        *,
        on_event: Callable[[WorkloadEvent], object] | None = None,
        prompt: AnyPrompt | None = None,
        in_process_only: bool = False,
    ) -> Workload:
        """Starts a workload again, with its recorded options; the keyword arguments are those of `Workload.start`."""
        asks = adapt(prompt, None)
        started = self._workloads._native.start(name, _listen(on_event), asks, in_process_only)
        return Workload(_workload.Workload(_run(started)))

    def stop(self, name: str, grace: timedelta | float = GRACE) -> None:
        """Stops a workload, whichever process runs it."""
        _run(self._workloads.stop(name, grace))

    def remove(self, name: str, grace: timedelta | float = GRACE) -> None:
        """Stops a workload, and removes its containers and its record."""
        _run(self._workloads.remove(name, grace))

    def logs(self, name: str, *, follow: bool = False, tail: int | None = None) -> Iterator[LogChunk]:
        """Iterates over the output of a workload's server."""
        reader = _run(self._workloads._native.logs(name, follow, tail))
        while (chunk := _run(reader.next())) is not None:
            yield chunk

    def export(self, name: str, path: str | os.PathLike[str]) -> None:
        """Writes the options of a workload to a file for the option `from_config`. Secrets are omitted."""
        self._workloads.export(name, path)

    def accept_ignore_files(self, folder: str | os.PathLike[str]) -> builtins.list[Path]:
        """Accepts the current ignore files of a folder that servers could write to."""
        return self._workloads.accept_ignore_files(folder)
