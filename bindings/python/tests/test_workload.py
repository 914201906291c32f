from __future__ import annotations

import asyncio
import gc
import urllib.error
from datetime import timedelta
from pathlib import Path

import pytest

import mcpm
from support import EVERYTHING, Client, Events, containers, failure, initialize_over_http, kinds, poll


async def test_workload_is_used_and_stopped(name: str) -> None:
    events = Events()
    workload = await mcpm.Workload.start(EVERYTHING, name=name, tools=["!test_image_content"], on_event=events)
    assert workload.name == name
    status = workload.status
    assert (status.phase, status.reason, status.restarts) == (mcpm.Phase.RUNNING, None, 0)
    assert workload.url is not None
    assert "mcp-conformance-test-server" in await asyncio.to_thread(initialize_over_http, workload.url)

    async with workload.connect() as connection:
        client = await Client.initialized(connection)
        tools = await client.tools()
        assert "test_simple_text" in tools and "test_image_content" not in tools
        assert (await client.call("test_simple_text"))["result"]["content"][0]["text"]
        denial = (await client.call("test_image_content"))["error"]["data"]["refusal"]
        explanation = mcpm.explain(denial)
        assert explanation.layer == "tools" and explanation.refusal is not None
        assert explanation.refusal.server == name

    taken = await failure(mcpm.Workload.start(EVERYTHING, name=name))
    assert isinstance(taken, mcpm.NameTakenError) and taken.kind == "name_taken"

    later = asyncio.create_task(kinds(workload.events()))
    waiting = asyncio.create_task(workload.wait())
    await asyncio.sleep(0)
    await asyncio.gather(workload.stop(timedelta(seconds=5)), workload.stop(5))
    assert (await waiting).phase == mcpm.Phase.STOPPED
    assert workload.status.phase == mcpm.Phase.STOPPED
    await workload.stop(0)
    heard = await events.until(mcpm.WorkloadEvent.ENDED)
    assert heard[:2] == [mcpm.WorkloadEvent.STARTING, mcpm.WorkloadEvent.READY]
    assert mcpm.WorkloadEvent.READY not in await later
    assert await kinds(workload.events()) == []
    assert (await failure(workload.connect().__aenter__())).kind == "upstream"
    assert containers(name) == ["exited"]


async def test_workload_without_port_has_no_url(name: str) -> None:
    async with mcpm.Workload.start(EVERYTHING, name=name, in_process_only=True) as workload:
        assert workload.url is None
        async with workload.connect() as connection:
            assert "test_simple_text" in await (await Client.initialized(connection)).tools()
    assert workload.status.phase == mcpm.Phase.STOPPED


async def test_block_that_fails_stops_the_workload(name: str) -> None:
    with pytest.raises(ZeroDivisionError):
        async with mcpm.Workload.start(EVERYTHING, name=name):
            raise ZeroDivisionError
    assert containers(name) == ["exited"]


async def test_connection_ends_with_the_workload(name: str) -> None:
    workload = await mcpm.Workload.start(EVERYTHING, name=name, in_process_only=True)
    client = await Client.initialized(await workload.connect())

    async def rest() -> list[object]:
        return [message async for message in client.connection]

    receiving = asyncio.create_task(rest())
    await asyncio.sleep(0)
    await workload.stop()
    assert await receiving == []


async def test_workload_that_nobody_refers_to_is_ended(name: str) -> None:
    workload = await mcpm.Workload.start(EVERYTHING, name=name, in_process_only=True)
    events = workload.events()
    del workload
    gc.collect()
    await kinds(events)
    await poll("the container ends", lambda: containers(name) != ["running"])


async def test_records_are_listed_and_exported(name: str, tmp_path: Path) -> None:
    records = mcpm.Workloads()
    async with mcpm.Workload.start(EVERYTHING, name=name) as workload:
        info = await records.info(name)
        assert (info.name, info.status, info.image) == (name, mcpm.WorkloadState.RUNNING, EVERYTHING)
        assert info.url == workload.url
        assert name in [info.name for info in await records.list()]
        records.export(name, tmp_path / "exported.json")
        assert EVERYTHING in (tmp_path / "exported.json").read_text()
        with pytest.raises(mcpm.NotFoundError):
            await records.info(f"{name}-missing")
    async for chunk in records.logs(name):
        assert chunk.bytes
    await records.remove(name)
    assert containers(name) == []


async def test_proxy_is_used_and_stopped(name: str) -> None:
    async with mcpm.Workload.start(EVERYTHING, name=name) as workload:
        assert workload.url is not None
        async with mcpm.Proxy.start(f"{name}-proxy", workload.url, tools=["test_simple_text"]) as proxy:
            assert proxy.name == f"{name}-proxy" and proxy.status == mcpm.Phase.RUNNING
            assert proxy.warnings == [] and await proxy.check() is None
            url = proxy.url
            assert url is not None
            assert "mcp-conformance-test-server" in await asyncio.to_thread(initialize_over_http, url)
            async with proxy.connect(transport=mcpm.ProxyMode.STREAMABLE_HTTP) as connection:
                client = await Client.initialized(connection)
                assert await client.tools() == ["test_simple_text"]
                denial = (await client.call("test_image_content"))["error"]["data"]["refusal"]
                explanation = proxy.explain(denial)
                assert (explanation.reason, explanation.layer) == ("tools.not_listed", "tools")
                refusal = explanation.refusal
                assert refusal is not None and (refusal.id, refusal.server) == (denial, proxy.name)
                assert refusal.inputs == {"method": "tools/call", "tool": "test_image_content"}
        assert (proxy.status, proxy.url) == (mcpm.Phase.STOPPED, url)
        with pytest.raises(urllib.error.URLError):
            await asyncio.to_thread(initialize_over_http, url)
        # The explanation is used after the end of the proxy.
        assert mcpm.explain(denial).reason == "tools.not_listed"


async def test_proxy_warns_of_an_option_without_effect() -> None:
    async with mcpm.Proxy.start("nowhere", "http://127.0.0.1:1/mcp", oidc_audience="notes") as proxy:
        assert "`oidc_audience` has no effect" in proxy.warnings[0]
        assert isinstance(await failure(proxy.check()), mcpm.StartFailedError)
