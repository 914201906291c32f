from __future__ import annotations

import asyncio

import pytest

import mcpm
from mcpm import sync
from support import EVERYTHING, SILENT, Client, awaited, containers, poll


async def test_cancelled_start_is_rolled_back(name: str) -> None:
    starting = asyncio.create_task(awaited(mcpm.Workload.start(SILENT, name=name)))
    await poll("the container runs", lambda: containers(name) == ["running"])
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    # The rollback is not awaited, since a cancelled task must not wait.
    await poll("the container is removed", lambda: containers(name) == [])
    await poll("the record is removed", lambda: sync.Workloads().list() == [])
    await (await mcpm.Workload.start(EVERYTHING, name=name)).stop()


async def test_start_that_takes_too_long_is_rolled_back(name: str) -> None:
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(awaited(mcpm.Workload.start(SILENT, name=name)), 1)
    await poll("the container is removed", lambda: containers(name) == [])


@pytest.mark.parametrize("index", range(20))
async def test_start_is_cancelled_at_any_time(name: str, index: int) -> None:
    starting = asyncio.create_task(awaited(mcpm.Workload.start(SILENT, name=name)))
    await asyncio.sleep(index * index / 1000)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await poll("the record is removed", lambda: sync.Workloads().list() == [])
    await poll("the container is removed", lambda: containers(name) == [])


async def test_waits_are_cancelled_and_lose_nothing(name: str) -> None:
    workload = await mcpm.Workload.start(EVERYTHING, name=name, in_process_only=True)
    client = await Client.initialized(await workload.connect())
    connection = client.connection
    events = workload.events()
    waits = [asyncio.create_task(awaited(wait)) for wait in (workload.wait(), connection.receive(), events.__anext__())]
    await asyncio.sleep(0)
    for wait in waits:
        wait.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wait

    # Receivers that are cancelled while the response arrives, each one loop iteration later than the previous one.
    for number in range(100, 150):
        await connection.send({"jsonrpc": "2.0", "id": number, "method": "ping"})
        response = None
        turns = 0
        while response is None:
            receiving = asyncio.create_task(connection.receive())
            turns += 1
            for _ in range(turns):
                await asyncio.sleep(0)
            receiving.cancel()
            try:
                response = await receiving
            except asyncio.CancelledError:
                continue
        assert response["id"] == number
    await workload.stop()
    assert workload.status.phase == mcpm.Phase.STOPPED


async def test_block_that_is_cancelled_stops_the_workload(name: str) -> None:
    ready = asyncio.Event()

    async def use() -> None:
        async with mcpm.Workload.start(EVERYTHING, name=name) as workload:
            ready.set()
            await workload.wait()

    using = asyncio.create_task(use())
    await ready.wait()
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert containers(name) == ["exited"]
