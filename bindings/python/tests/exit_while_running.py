"""Exits while a workload runs or is being started: exit_while_running.py IMAGE NAME MODE"""

import asyncio
import ctypes
import os
import signal
import sys

import mcpm
from mcpm import sync
from support import Events, awaited, containers, failure, poll

IMAGE, NAME, MODE = sys.argv[1:]
# Without a reference, the task would be garbage-collected.
starting: asyncio.Future[mcpm.Workload]


async def main() -> None:
    global starting
    events = Events()
    starting = asyncio.ensure_future(awaited(mcpm.Workload.start(IMAGE, name=NAME, on_event=events)))
    if MODE == "starting":
        await events.until(mcpm.WorkloadEvent.STARTING)
        return
    if MODE == "refused":
        # The loop ends before the other start has ended.
        await failure(mcpm.Workload.start(IMAGE, name="a"))
        return
    workload = await starting
    # This keeps a reference until the exit, so only the exit hook can end the workload.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(workload))
    if MODE == "shutdown":
        await asyncio.to_thread(mcpm.shutdown)
        assert workload.status.phase == mcpm.Phase.STOPPED
        # A start after the shutdown creates new threads.
        async with mcpm.Proxy.start("nowhere", "http://127.0.0.1:1/mcp") as proxy:
            assert proxy.status == mcpm.Phase.RUNNING


def interrupted() -> bool:
    """Starts without an event loop, and gets the signal of Ctrl-C once the container runs."""

    def interrupt(event: mcpm.WorkloadEvent) -> None:
        if isinstance(event, mcpm.WorkloadEvent.STARTING):
            asyncio.run(poll("the container runs", lambda: containers(NAME) == ["running"]))
            os.kill(os.getpid(), signal.SIGINT)

    # A shell ignores the signal for programs that it starts in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sync.Workload.start(IMAGE, name=NAME, on_event=interrupt)
    except KeyboardInterrupt:
        return True
    return False


if MODE == "interrupted":
    assert interrupted()
else:
    asyncio.run(main())
print(MODE)
