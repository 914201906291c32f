"""Proxies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from . import _options
from ._connection import Connection, streams
from ._native import mcpm as _native
from ._starting import Starting
from ._user_prompt import adapt

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._native.mcpm import Explanation, Phase, ProxyMode
    from ._options import ProxyKeywords
    from ._secret import Secret
    from ._user_prompt import AnyPrompt


class Proxy:
    """A running proxy in front of an MCP server.

    It runs as long as this object and this process exist, so keep a reference.
    """

    def __init__(self, native: _native.Proxy) -> None:
        self._native = native

    @classmethod
    def start(
        cls,
        server_name: str | None = None,
        target_uri: str | None = None,
        *,
        prompt: AnyPrompt | None = None,
        in_process_only: bool = False,
        **options: Unpack[ProxyKeywords],
    ) -> Starting[Proxy]:
        """Starts a proxy; it is ready when clients can connect.

        Await the result, or use it with `async with`, which also stops the proxy at the end. Every option of
        `mcpm proxy` is a keyword argument.

        `prompt` prompts the user at the start and later, for example to log in to a remote server; without it, the
        user cannot be prompted. With `in_process_only`, the proxy opens no port: only `connect` can connect to the
        server.
        """

        async def start() -> Proxy:
            asks = adapt(prompt, asyncio.get_running_loop())
            record = _options.proxy_options(server_name, target_uri, options)
            return cls(await _native.Proxy.start(record, asks, in_process_only))

        return Starting(start, lambda proxy: proxy.stop())

    @property
    def name(self) -> str:
        """The name of the server."""
        return self._native.name()

    @property
    def url(self) -> str | None:
        """The URL for clients; None without a port."""
        return self._native.url() or None

    @property
    def status(self) -> Phase:
        """The phase of the proxy."""
        return self._native.status()

    @property
    def warnings(self) -> list[str]:
        """The warnings of the start, for example that callers are not authenticated."""
        return self._native.warnings()

    async def check(self) -> str | None:
        """Checks with one MCP exchange whether the target is an MCP server.

        Returns a remark about a server that passes, for example that it requires a login. A start does not check
        this, because the target may be started later.
        """
        return await self._native.check()

    def explain(self, id: str) -> Explanation:
        """Explains a reason, or a recent denial of this proxy, by its id."""
        return self._native.explain(id)

    async def stop(self) -> None:
        """Stops listening and waits up to 2 s for pending responses. Stopping twice is allowed."""
        await self._native.stop()

    def connect(
        self, *, bearer_token: Secret | str | None = None, transport: ProxyMode | None = None
    ) -> Starting[Connection]:
        """Connects to the server from this process, without a port; `async with` also closes the connection.

        Requests pass through all layers of the proxy; `bearer_token` is the access token of the caller, if the proxy
        authenticates callers. `transport` is the transport of the server; by default, the server's URL determines the
        transport: SSE if it ends in `/sse`.
        """

        async def connect() -> Connection:
            return Connection(await self._native.connect(bearer_token, transport))

        return Starting(connect, lambda connection: connection.close())

    @contextlib.asynccontextmanager
    async def connect_streams(
        self, *, bearer_token: Secret | str | None = None, transport: ProxyMode | None = None
    ) -> AsyncIterator[tuple[Any, Any]]:
        """Connects as `connect` does, and yields the two streams that `ClientSession` of the package `mcp` takes."""
        connecting = self.connect(bearer_token=bearer_token, transport=transport)
        async with connecting as connection, streams(connection) as both:
            yield both

    def __repr__(self) -> str:
        return f"Proxy(name={self.name!r}, url={self.url!r})"
