from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import mcpm
from mcpm import _options
from support import failure

WORKLOAD: dict[str, Any] = {
    "env": {"A": "b"},
    "secret": {"token": "TOKEN"},
    "label": {"team": "notes"},
    "env_file": Path("/tmp/env"),
    "permission_profile": "network",
    "remote_auth_timeout": 1.5,
    "transport": "streamable-http",
    "tools": ("one", "two"),
}


def test_values_are_converted() -> None:
    record = _options.workload_options("image", WORKLOAD)
    assert record.server == "image"
    assert record.env == [mcpm.EnvVar(name="A", value="b")]
    assert record.secret == [mcpm.SecretRef(name="token", target="TOKEN")]
    assert record.label == [mcpm.KeyValue(key="team", value="notes")]
    assert record.env_file == "/tmp/env"
    assert isinstance(record.permission_profile, mcpm.PermissionProfile.NETWORK)
    assert record.remote_auth_timeout == timedelta(seconds=1.5)
    assert record.transport == mcpm.Transport.STREAMABLE_HTTP
    assert record.tools == ["one", "two"]


def test_none_is_not_given() -> None:
    assert _options.workload_options("image", {"name": None}) == _options.workload_options("image", {})


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"nmae": "x"}, TypeError, "there is no option 'nmae'"),
        ({"tools": "echo"}, TypeError, "expected several strings"),
        ({"transport": "pigeon"}, ValueError, "expected one of sse, streamable-http, stdio, not 'pigeon'"),
        ({"proxy_port": 70000}, ValueError, "u16"),
        ({"proxy_port": "many"}, TypeError, "integer"),
    ],
)
async def test_value_of_a_wrong_type_is_refused(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        await mcpm.Workload.start("image", **options)


async def test_records_reach_the_library() -> None:
    bad = mcpm.PublishSpec(host_ip="localhost", container_port=80, protocol=mcpm.Protocol.TCP)
    error = await failure(mcpm.Workload.start("image", publish=[bad]))
    assert isinstance(error, mcpm.InvalidOptionError)
    assert error.message == "`localhost` is not an IP address: invalid IP address syntax"
