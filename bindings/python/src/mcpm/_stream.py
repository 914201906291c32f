"""Values that arrive one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Stream(AsyncIterator[T], Generic[T]):
    """Iterates over values until None. If waiting for a value is cancelled, the next caller gets the value."""

    def __init__(self, wait: Callable[[], Awaitable[T | None]]) -> None:
        self._wait = wait
        self._waiting: asyncio.Future[T | None] | None = None

    async def next(self) -> T | None:
        """Waits for the next value; returns None after the last value."""
        while True:
            waiting = self._waiting
            loop = asyncio.get_running_loop()
            if waiting is None or waiting.cancelled() or waiting.get_loop() is not loop:
                waiting = self._waiting = asyncio.ensure_future(self._wait())
            try:
                value = await asyncio.shield(waiting)
            except Exception:
                self._take(waiting)
                raise
            # If several callers wait for the same value, the first one takes it.
            if self._take(waiting):
                return value

    def _take(self, waiting: asyncio.Future[T | None]) -> bool:
        taken = self._waiting is waiting
        if taken:
            self._waiting = None
        return taken

    async def __anext__(self) -> T:
        value = await self.next()
        if value is None:
            raise StopAsyncIteration
        return value
