from __future__ import annotations

import json
import queue
import threading

import pytest

import mcpm
from mcpm import sync
from support import EVERYTHING, INITIALIZE, containers


def test_workload_is_used_without_a_loop(name: str) -> None:
    with sync.Workload.start(EVERYTHING, name=name, in_process_only=True) as workload:
        assert (workload.name, workload.url, workload.status.phase) == (name, None, mcpm.Phase.RUNNING)
        events = workload.events()
        with workload.connect() as connection:
            connection.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE})
            response = next(message for message in connection if message.get("id") == 1)
            assert response["result"]["serverInfo"]["name"] == "mcp-conformance-test-server"
            connection.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        records = sync.Workloads()
        assert records.info(name).status == mcpm.WorkloadState.RUNNING
        assert [info.name for info in records.list()] == [name]
    assert workload.wait().phase == mcpm.Phase.STOPPED
    assert any(isinstance(event, mcpm.WorkloadEvent.ENDED) for event in events)
    assert containers(name) == ["exited"]
    assert all(chunk.bytes for chunk in records.logs(name))


def test_events_are_heard_from_the_start_on(name: str) -> None:
    heard: queue.Queue[mcpm.WorkloadEvent] = queue.Queue()
    workload = sync.Workload.start(EVERYTHING, name=name, in_process_only=True, on_event=heard.put)
    workload.stop()
    assert isinstance(heard.get(timeout=30), mcpm.WorkloadEvent.STARTING)
    assert isinstance(heard.get(timeout=30), mcpm.WorkloadEvent.READY)
    while not isinstance(heard.get(timeout=30), mcpm.WorkloadEvent.ENDED):
        pass
    # The workload is started again from its record.
    with sync.Workloads().start(name, on_event=heard.put) as again:
        assert again.url is not None
        assert isinstance(heard.get(timeout=30), mcpm.WorkloadEvent.STARTING)
        with pytest.raises(mcpm.NameTakenError):
            sync.Workloads().start(name)
    with pytest.raises(mcpm.ImageUnavailableError):
        sync.Workload.start("127.0.0.1:1/missing:1", name=f"{name}-missing", on_event=heard.put)


def test_error_of_an_event_callback_is_reported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda hook: reported.append(str(hook.exc_value)))
    last = threading.Event()

    def fail(event: mcpm.WorkloadEvent) -> None:
        if isinstance(event, mcpm.WorkloadEvent.ENDED):
            last.set()
            return
        raise ZeroDivisionError(type(event).__name__)

    with sync.Workload.start(EVERYTHING, name=name, in_process_only=True, on_event=fail):
        pass
    assert last.wait(30)
    assert reported[:2] == ["WorkloadEvent.STARTING", "WorkloadEvent.READY"]


def test_proxy_is_used_without_a_loop(name: str) -> None:
    with (
        sync.Workload.start(EVERYTHING, name=name) as workload,
        sync.Proxy.start(f"{name}-proxy", workload.url) as proxy,
    ):
        assert (proxy.status, proxy.warnings, proxy.check()) == (mcpm.Phase.RUNNING, [], None)
        assert proxy.explain("tools.not_listed").layer == "tools"
        with proxy.connect() as connection:
            connection.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
            assert connection.receive() is not None
    assert proxy.status == mcpm.Phase.STOPPED


def test_errors_are_the_same() -> None:
    with pytest.raises(mcpm.InvalidOptionError, match="`server` is required"):
        sync.Workload.start()


async def test_running_loop_is_not_blocked() -> None:
    with pytest.raises(RuntimeError, match="an event loop runs in this thread"):
        sync.Workload.start("image")
