"""Fixtures."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator

import pytest

from mcpm import sync
from support import PREFIX

_numbers = itertools.count()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The library needs asyncio."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def state() -> Iterator[str]:
    """A folder for the records of workloads, separate from the user's."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", folder)
        yield folder
        left = sync.Workloads().list()
        assert left == [], left


@pytest.fixture
def name() -> Iterator[str]:
    """The name of a workload. It is removed after the test, as are others whose names begin with it."""
    name = f"{PREFIX}-{next(_numbers)}-w"
    yield name
    records = sync.Workloads()
    for info in records.list():
        if info.name.startswith(name):
            records.remove(info.name, 0)
