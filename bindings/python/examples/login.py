"""Logs in to a remote server and serves it until the end of the input: login.py URL"""

import asyncio
import sys
import webbrowser

import mcpm


def show_login(login: mcpm.LoginPrompt) -> None:
    print(f"Log in to {login.server}: {login.url}")
    webbrowser.open(login.url)


async def main() -> None:
    async with mcpm.Proxy.start("remote", sys.argv[1], remote_auth=True, prompt=show_login) as proxy:
        print(proxy.name, proxy.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


asyncio.run(main())
