from __future__ import annotations

import pytest

import mcpm
from mcpm import _errors
from support import EVERYTHING, failure


async def test_error_has_kind_and_message() -> None:
    error = await failure(mcpm.Workload.start())
    assert isinstance(error, mcpm.InvalidOptionError)
    assert (error.kind, error.message, error.hint) == ("invalid_option", "`server` is required", None)
    assert repr(error) == "InvalidOptionError('`server` is required')"


def test_hint_and_context_arrive() -> None:
    with pytest.raises(mcpm.NotFoundError) as caught:
        mcpm.explain("tools.unheard")
    error = caught.value
    assert error.hint is not None and error.message.endswith(error.hint)
    assert isinstance(error.context, dict)
    assert mcpm.explain("tools.not_listed").refusal is None


def test_every_kind_has_a_class() -> None:
    names = [name for name in _errors.__all__ if name != "McpmError"]
    kinds = {getattr(mcpm, name)("text").kind for name in names}
    assert len(kinds) == len(names)
    for name in names:
        kind = getattr(mcpm, name)
        assert issubclass(kind, mcpm.McpmError) and kind.__module__ == "mcpm" and kind.__name__ == name
        assert name in mcpm.__all__


async def test_missing_image_is_unavailable(name: str) -> None:
    # No registry listens at this address, so the image cannot be pulled.
    error = await failure(mcpm.Workload.start("127.0.0.1:1/missing:1", name=name))
    assert isinstance(error, mcpm.ImageUnavailableError)


async def test_taken_port_is_reported(name: str) -> None:
    async with mcpm.Workload.start(EVERYTHING, name=name) as workload:
        assert workload.url is not None
        port = int(workload.url.rsplit(":", 1)[1].split("/")[0])
        error = await failure(mcpm.Workload.start(EVERYTHING, name=f"{name}b", proxy_port=port))
        assert isinstance(error, mcpm.PortTakenError)
