"""The result of a start, which can be awaited, or entered with `async with`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Starting(Generic[T]):
    """A workload, proxy or connection that is being started. Awaiting it returns the started object.

    `async with` also stops or closes that object at the end.
    """

    def __init__(self, start: Callable[[], Awaitable[T]], end: Callable[[T], Awaitable[None]]) -> None:
        self._start = start
        self._end = end
        self._started: list[T] = []

    def __await__(self) -> Generator[Any, Any, T]:
        return self._start().__await__()

    async def __aenter__(self) -> T:
        self._started.append(await self._start())
        return self._started[-1]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end(self._started.pop())
