"""The Python SDK as a client: lists the tools of the server at URL, calls one, prints one JSON line.

    python_client.py URL TOOL ARGUMENTS [auto|legacy|2026-07-28]

The line is {"protocol": negotiated version, "tools": [names], "result": tool result}; errors are printed to stderr.
"""

import asyncio
import json
import sys

from mcp import Client


async def main(url: str, tool: str, arguments: str, mode: str = "auto") -> None:
    async with Client(url, mode=mode) as client:
        tools, cursor = [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            tools += [tool.name for tool in page.tools]
            if not (cursor := page.next_cursor):
                break
        result = await client.call_tool(tool, json.loads(arguments))
        line = {
            "protocol": client.protocol_version,
            "tools": tools,
            "result": result.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
    print(json.dumps(line))


def reasons(error: BaseException) -> list[str]:
    """Returns the error without the exception groups that task groups wrap it in."""
    if isinstance(error, BaseExceptionGroup):
        return [reason for inner in error.exceptions for reason in reasons(inner)]
    return [f"{type(error).__name__}: {error}"]


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except Exception as error:
        sys.exit("; ".join(reasons(error)))
