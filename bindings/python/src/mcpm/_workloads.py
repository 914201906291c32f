"""Recorded workloads."""

from __future__ import annotations

import asyncio
import builtins
import os
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ._native import mcpm as _native
from ._starting import Starting
from ._stream import Stream
from ._user_prompt import adapt
from ._values import duration
from ._workload import GRACE, Workload, listen

if TYPE_CHECKING:
    from ._native.mcpm import LogChunk, WorkloadEvent, WorkloadInfo
    from ._user_prompt import AnyPrompt


class Workloads:
    """The recorded workloads of this machine, whichever process runs them.

    The environment variables of this process determine where the records are, as for the command line.
    """

    def __init__(self) -> None:
        self._native = _native.Workloads()

    async def list(self) -> builtins.list[WorkloadInfo]:
        """Returns the status of all workloads in the order of their names.

        If an engine does not respond, the status says so.
        """
        return await self._native.list()

    async def info(self, name: str) -> WorkloadInfo:
        """Returns the status of one workload."""
        return await self._native.info(name)

    def start(
        self,
        name: str,
        *,
        on_event: Callable[[WorkloadEvent], object] | None = None,
        prompt: AnyPrompt | None = None,
        in_process_only: bool = False,
    ) -> Starting[Workload]:
        """Starts a workload again, with its recorded options; it is ready when clients can connect.

        Await the result, or use it with `async with`, which also stops the workload at the end. If a killed process of
        mcpm has left the container running, the container is stopped first. Raises `NameTakenError` if the workload is
        running. The keyword arguments have the same meaning as for `Workload.start`.
        """

        async def start() -> Workload:
            events = listen(on_event)
            asks = adapt(prompt, asyncio.get_running_loop())
            return Workload(await self._native.start(name, events, asks, in_process_only))

        return Starting(start, lambda workload: workload.stop())

    async def stop(self, name: str, grace: timedelta | float = GRACE) -> None:
        """Stops a workload, whichever process runs it. A server that has not exited after `grace` is killed.

        Does nothing if it has stopped already. If the caller is cancelled, stopping continues.
        """
        await self._native.stop(name, duration(grace))

    async def remove(self, name: str, grace: timedelta | float = GRACE) -> None:
        """Stops a workload, and removes its containers and its record."""
        await self._native.remove(name, duration(grace))

    def logs(self, name: str, *, follow: bool = False, tail: int | None = None) -> AsyncIterator[LogChunk]:
        """Iterates over the output of a workload's server: the last `tail` lines or all.

        With `follow`, it continues with the output that the server writes until the workload ends.
        """
        reader: _native.LogReader | None = None

        async def next_chunk() -> LogChunk | None:
            nonlocal reader
            if reader is None:
                reader = await self._native.logs(name, follow, tail)
            return await reader.next()

        return Stream(next_chunk)

    def export(self, name: str, path: str | os.PathLike[str]) -> None:
        """Writes the options of a workload to a file for the option `from_config`. Secrets are omitted."""
        self._native.export_to(name, os.fspath(path))

    def accept_ignore_files(self, folder: str | os.PathLike[str]) -> builtins.list[Path]:
        """Accepts the current ignore files of a folder that servers could write to.

        Files that are no longer ignored are visible to servers after their next start. Returns the ignore files whose
        text has changed.
        """
        return [Path(path) for path in self._native.accept_ignore_files(os.fspath(folder))]
