from __future__ import annotations

from datetime import timedelta
from typing import Any

import mcpm
from mcpm import _options
from support import failure

CANARY = "hunter2"


def shown(value: Any) -> list[str]:
    return [repr(value), str(value), f"{value}", f"{[value]}"]


def test_secret_is_not_shown() -> None:
    secret = mcpm.Secret(CANARY)
    options = {"remote_auth_bearer_token": secret, "remote_forward_headers": {"Authorization": secret}}
    record = _options.workload_options("https://example.com/mcp", options)
    for value in (secret, mcpm.Header(name="A", value=secret), record):
        for text in shown(value):
            assert CANARY not in text
    assert secret.expose() == CANARY
    assert secret == mcpm.Secret(CANARY) != mcpm.Secret("other")
    assert hash(secret) == hash(mcpm.Secret(CANARY))
    assert not hasattr(secret, "__dict__")


async def test_error_does_not_contain_the_secret() -> None:
    token = mcpm.Secret(CANARY)
    start = mcpm.Proxy.start("s", "http://127.0.0.1:1/mcp", remote_auth=True, remote_auth_bearer_token=token)
    error = await failure(start)
    for text in (*shown(error), repr(error.context), repr(error.__cause__), repr(error.args)):
        assert CANARY not in text


def test_login_is_not_shown() -> None:
    device = mcpm.DeviceLogin(url="https://login.example/device", code="ABCD")
    login = mcpm.LoginPrompt(
        server="mcp.example",
        url="https://login.example/?state=s",
        has_redirect=True,
        device=device,
        open_browser=True,
        timeout=timedelta(seconds=30),
    )
    for text in (*shown(login), *shown(device)):
        assert "login.example" not in text and "ABCD" not in text
