"""Logs in to a remote server and serves it until the end of the input: login.py URL"""

import asyncio
import sys
import webbrowser

import mcpm


class Browser(mcpm.UserPrompt):
    def show_login(self, login: mcpm.LoginPrompt) -> None:
        print(f"Log in to {login.server}: {login.url}")
        webbrowser.open(login.url)


async def main() -> None:
    options = mcpm.ProxyOptions(server_name="remote", target_uri=sys.argv[1], remote_auth=True)
    proxy = await mcpm.Proxy.start(options, Browser())
    print(proxy.name(), proxy.url(), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await proxy.stop()


asyncio.run(main())
