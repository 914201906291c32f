from __future__ import annotations

import mcp
import pytest

import mcpm
from support import EVERYTHING


async def test_client_of_the_sdk_needs_no_port(name: str) -> None:
    hidden = ["!test_image_content"]
    async with (
        mcpm.Workload.start(EVERYTHING, name=name, tools=hidden, in_process_only=True) as workload,
        workload.connect_streams() as (read, write),
        mcp.ClientSession(read, write) as session,
    ):
        await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        assert "test_simple_text" in tools and "test_image_content" not in tools
        result = await session.call_tool("test_simple_text", {})
        assert result.content
        with pytest.raises(Exception, match="test_image_content"):
            await session.call_tool("test_image_content", {})


async def test_client_is_told_that_the_server_has_ended(name: str) -> None:
    workload = await mcpm.Workload.start(EVERYTHING, name=name, in_process_only=True)
    async with workload.connect_streams() as (read, write), mcp.ClientSession(read, write) as session:
        await session.initialize()
        await workload.stop()
        with pytest.raises(Exception, match=r"(?i)closed"):
            await session.send_ping()


async def test_several_clients_share_a_server(name: str) -> None:
    async with mcpm.Workload.start(EVERYTHING, name=name, in_process_only=True) as workload:
        for _ in range(3):
            async with workload.connect_streams() as (read, write), mcp.ClientSession(read, write) as session:
                await session.initialize()
                assert (await session.call_tool("test_simple_text", {})).content
