"""What the Python programs share."""

import json
import urllib.error
import urllib.request

import mcpm


def post(url: str, session: str | None, message: dict) -> tuple[str | None, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if session:
        headers["Mcp-Session-Id"] = session
    request = urllib.request.Request(url, json.dumps({"jsonrpc": "2.0", **message}).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.headers.get("Mcp-Session-Id"), answer.read().decode()
    except urllib.error.HTTPError:
        raise
    except urllib.error.URLError as error:
        raise error.reason from None


def refused_call(url: str, tool: str) -> str:
    """Calls a tool that is hidden, and returns the id of the refusal."""
    _, answer = post(url, None, {"id": 1, "method": "tools/call", "params": {"name": tool}})
    return json.loads(answer)["error"]["data"]["refusal"]


def use(url: str) -> None:
    """Speaks MCP for a moment: opens a session if there are sessions, and lists the tools."""
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "p", "version": "1"}}
    session, answer = post(url, None, {"id": 1, "method": "initialize", "params": client})
    assert "mcp-conformance-test-server" in answer, answer
    post(url, session, {"method": "notifications/initialized"})
    _, answer = post(url, session, {"id": 2, "method": "tools/list"})
    assert "test_simple_text" in answer, answer


async def refused(kind: type, start, show: bool = True) -> None:
    """Checks that a start fails so."""
    try:
        await start
    except kind as error:
        assert isinstance(error, mcpm.McpmError) and str(error) == error.message
        if show:
            print(error.kind, error)
    else:
        raise AssertionError("it was not refused")
