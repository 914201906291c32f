"""Runs workloads from the given images, of which the second never answers; names begin with the given text."""

import asyncio
import ctypes
import subprocess
import sys
from datetime import timedelta

import mcpm
from client import refused, refused_call, use

IMAGE, SILENT, PREFIX = sys.argv[1:]


def options(suffix: str, server: str = IMAGE) -> mcpm.WorkloadOptions:
    return mcpm.WorkloadOptions(server=server, name=f"{PREFIX}-{suffix}", tools=["!test_image_content"])


async def a_workload_is_used_and_stopped() -> None:
    events = mcpm.Events()
    heard = asyncio.create_task(all_of(events))
    workload = await mcpm.Workload.start(options("used"), events)
    url = workload.url()
    assert workload.name() == f"{PREFIX}-used"
    status = workload.status()
    assert (status.phase, status.reason, status.restarts) == (mcpm.Phase.RUNNING, None, 0), status
    await asyncio.to_thread(use, url)
    refusal = await asyncio.to_thread(refused_call, url, "test_image_content")
    assert mcpm.explain(refusal).refusal.server == workload.name()

    await refused(mcpm.McpmError.NameTaken, mcpm.Workload.start(options("used")), show=False)
    await refused(mcpm.McpmError.InvalidOption, mcpm.Workload.start(options("other"), events))
    later = asyncio.create_task(all_of(workload.events()))
    await asyncio.sleep(0)
    await asyncio.gather(workload.stop(timedelta(seconds=5)), workload.stop(timedelta(seconds=5)))
    assert workload.status().phase == mcpm.Phase.STOPPED
    await workload.stop(timedelta(0))
    kinds = await heard
    assert kinds[:2] == [mcpm.WorkloadEvent.STARTING, mcpm.WorkloadEvent.READY], kinds
    assert mcpm.WorkloadEvent.READY not in await later
    assert await workload.events().next() is None


def runs(container: str) -> bool:
    listed = ["docker", "ps", "--quiet", "--filter", f"name={container}"]
    return subprocess.check_output(listed) != b""


async def all_of(events: mcpm.Events) -> list[type]:
    heard = []
    while (event := await events.next()) is not None:
        heard.append(type(event))
    return heard


async def mistakes_are_told() -> None:
    # Nobody listens there, so that it cannot be pulled.
    missing = mcpm.Workload.start(options("missing", "127.0.0.1:1/missing:1"))
    await refused(mcpm.McpmError.ImageUnavailable, missing, show=False)
    bad = mcpm.Events()
    await refused(mcpm.McpmError.InvalidOption, mcpm.Workload.start(mcpm.WorkloadOptions(), bad))
    assert await bad.next() is None


async def a_cancelled_start_is_undone() -> None:
    events = mcpm.Events()
    start = asyncio.create_task(mcpm.Workload.start(options("cancelled", SILENT), events))
    assert isinstance(await events.next(), mcpm.WorkloadEvent.STARTING)
    while not await asyncio.to_thread(runs, f"{PREFIX}-cancelled"):
        pass
    start.cancel()
    try:
        await start
        raise AssertionError("it was not cancelled")
    except asyncio.CancelledError:
        pass
    # The events end when it is undone, and the name is free again.
    assert await all_of(events) == []
    again = mcpm.Workload.start(options("cancelled"))
    await (await again).stop(timedelta(seconds=5))


async def main() -> None:
    await a_workload_is_used_and_stopped()
    await mistakes_are_told()
    await a_cancelled_start_is_undone()
    # The end of the program ends what still runs, and undoes what is being started.
    global starting
    left = await mcpm.Workload.start(options("left"))
    # As if something kept it for ever: nothing but the hook at the exit ends it now.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(left))
    events = mcpm.Events()
    starting = asyncio.create_task(mcpm.Workload.start(options("starting", SILENT), events))
    await events.next()


asyncio.run(main())
print("done")
