"""A client for scenarios of the conformance suite in which mcpm logs in: `login_client.py MCPM proxy|run URL`.

It starts mcpm in front of the URL, lists the tools through it and calls the first one.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from mcp import Client

program, command, url = sys.argv[1:]
scenario = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
modern = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION") == "2026-07-28"


def arguments() -> list[str]:
    if command == "proxy":
        target = ["proxy", "remote", "--target-uri", url, "--port", "0", "--remote-auth"]
    else:
        target = ["run", url, "--foreground", "--name", "remote"]
    # Scenarios run concurrently, so each uses a free port.
    login = ["--remote-auth-callback-port", "0", "--remote-auth-timeout", "60s"]
    login += ["--remote-auth-client-metadata-url", "https://conformance-test.local/client-metadata.json"]
    if client := scenario.get("client_id"):
        login += ["--remote-auth-client-id", client]
    return [program, *target, *login]


async def use(proxy: str) -> None:
    async with Client(proxy, mode="2026-07-28" if modern else "legacy") as client:
        tools = (await client.list_tools()).tools
        for tool in tools[:1]:
            await client.call_tool(tool.name, {})


with tempfile.TemporaryDirectory() as home:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": home,
        "BROWSER": str(Path(__file__).parent / "follow_redirects"),
        "MCPM_SECRETS_PASSWORD": "a password",
    }
    if secret := scenario.get("client_secret"):
        environment["MCPM_REMOTE_OAUTH_CLIENT_SECRET"] = secret
    mcpm = subprocess.Popen(arguments(), env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert mcpm.stdout
        line = mcpm.stdout.readline().split()
        if not line:
            sys.exit("mcpm did not start")
        asyncio.run(asyncio.wait_for(use(line[-1]), 120))
    finally:
        mcpm.terminate()
        mcpm.wait(30)
