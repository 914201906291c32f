"""Runs workloads from the given images, of which the second never answers; names begin with the given text."""

import asyncio
import ctypes
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta

import mcpm
from client import refused, refused_call, use

IMAGE, SILENT, PREFIX = sys.argv[1:]


def start(suffix: str, server: str = IMAGE, on_event=None) -> mcpm.Starting[mcpm.Workload]:
    name = f"{PREFIX}-{suffix}"
    return mcpm.Workload.start(server, name=name, tools=["!test_image_content"], on_event=on_event)


class Heard:
    """The events of a workload."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[mcpm.WorkloadEvent] = asyncio.Queue()

    def __call__(self, event: mcpm.WorkloadEvent) -> None:
        self.queue.put_nowait(event)

    async def until(self, kind: type) -> list[type]:
        heard = []
        while not heard or heard[-1] is not kind:
            heard.append(type(await self.queue.get()))
        return heard


async def a_workload_is_used_and_stopped() -> None:
    heard = Heard()
    workload = await start("used", on_event=heard)
    url = workload.url
    assert url is not None and workload.name == f"{PREFIX}-used"
    status = workload.status
    assert (status.phase, status.reason, status.restarts) == (mcpm.Phase.RUNNING, None, 0), status
    await asyncio.to_thread(use, url)
    refusal = await asyncio.to_thread(refused_call, url, "test_image_content")
    assert mcpm.explain(refusal).refusal.server == workload.name

    await refused(mcpm.NameTakenError, start("used"), show=False)
    later = asyncio.create_task(all_of(workload.events()))
    await asyncio.sleep(0)
    await asyncio.gather(workload.stop(timedelta(seconds=5)), workload.stop(5))
    assert workload.status.phase == mcpm.Phase.STOPPED
    await workload.stop(0)
    kinds = await heard.until(mcpm.WorkloadEvent.ENDED)
    assert kinds[:2] == [mcpm.WorkloadEvent.STARTING, mcpm.WorkloadEvent.READY], kinds
    assert mcpm.WorkloadEvent.READY not in await later
    assert await all_of(workload.events()) == []


def runs(container: str) -> bool:
    listed = ["docker", "ps", "--quiet", "--filter", f"name={container}"]
    return subprocess.check_output(listed) != b""


async def all_of(events: AsyncIterator[mcpm.WorkloadEvent]) -> list[type]:
    return [type(event) async for event in events]


async def mistakes_are_told() -> None:
    # Nobody listens there, so that it cannot be pulled.
    missing = start("missing", "127.0.0.1:1/missing:1")
    await refused(mcpm.ImageUnavailableError, missing, show=False)
    await refused(mcpm.InvalidOptionError, mcpm.Workload.start())


async def a_cancelled_start_is_undone() -> None:
    heard = Heard()
    starting = asyncio.ensure_future(_awaited(start("cancelled", SILENT, heard)))
    await heard.until(mcpm.WorkloadEvent.STARTING)
    while not await asyncio.to_thread(runs, f"{PREFIX}-cancelled"):
        pass
    starting.cancel()
    try:
        await starting
        raise AssertionError("it was not cancelled")
    except asyncio.CancelledError:
        pass
    # The name is free again once it is undone.
    while f"{PREFIX}-cancelled" in [workload.name for workload in await mcpm.Workloads().list()]:
        pass
    await (await start("cancelled")).stop(5)


async def _awaited(starting: mcpm.Starting[mcpm.Workload]) -> mcpm.Workload:
    return await starting


async def main() -> None:
    await a_workload_is_used_and_stopped()
    await mistakes_are_told()
    await a_cancelled_start_is_undone()
    # The end of the program ends what still runs, and undoes what is being started.
    global starting
    left = await start("left")
    # As if something kept it for ever: nothing but the hook at the exit ends it now.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(left))
    heard = Heard()
    starting = asyncio.create_task(_awaited(start("starting", SILENT, heard)))
    await heard.until(mcpm.WorkloadEvent.STARTING)


asyncio.run(main())
print("done")
