from __future__ import annotations

import asyncio
import os
import threading

import mcpm
from support import EVERYTHING, Client, Events


async def start(name: str, limit: asyncio.Semaphore) -> tuple[mcpm.Workload, Events]:
    async with limit:
        events = Events()
        workload = await mcpm.Workload.start(EVERYTHING, name=name, on_event=events)
        async with workload.connect() as connection:
            client = await Client.initialized(connection)
            assert "result" in await client.call("test_simple_text")
        return workload, events


async def end(workload: mcpm.Workload, events: Events, limit: asyncio.Semaphore) -> None:
    async with limit:
        await workload.stop()
        await events.until(mcpm.WorkloadEvent.ENDED)
        await mcpm.Workloads().remove(workload.name, 0)


async def use_many(name: str, count: int) -> None:
    """Uses workloads that run at the same time; at most 8 of them are started or stopped at once."""
    limit = asyncio.Semaphore(8)
    started = await asyncio.gather(*(start(f"{name}{index}", limit) for index in range(count)))
    assert all(workload.status.phase == mcpm.Phase.RUNNING for workload, _ in started)
    await asyncio.gather(*(end(workload, events, limit) for workload, events in started))


async def test_many_workloads_leak_nothing(name: str) -> None:
    def resources() -> tuple[int, int]:
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    # The threads exist after the first round.
    await use_many(name, 8)
    threads, files = resources()
    tasks = asyncio.all_tasks()
    await use_many(name, 50)
    threads_after, files_after = resources()
    # Connections to the engine and idle threads of the thread pool may be kept for a while.
    assert files_after <= files + 4
    assert threads_after <= threads + 8
    assert asyncio.all_tasks() == tasks


def test_event_loops_do_not_disturb_each_other(name: str) -> None:
    """Two threads have one event loop each, and each thread has a second loop after the first one."""
    errors: list[BaseException] = []

    def run(index: int) -> None:
        try:
            for turn in range(2):
                asyncio.run(use_many(f"{name}{index}.{turn}.", 2))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[index]) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
