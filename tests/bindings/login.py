"""Logs in to the remote servers at the given URLs, of which the second needs a device, with prompts that fail first."""

import asyncio
import http.client
import os
import sys
import threading
import urllib.parse
import urllib.request
from collections.abc import Awaitable

import mcpm

TARGET, DEVICE_TARGET = sys.argv[1:]


async def refused(kind: type[mcpm.McpmError], start: Awaitable[mcpm.Proxy], show: bool = True) -> None:
    """Checks that a start fails with this error."""
    try:
        await start
    except kind as error:
        assert isinstance(error, mcpm.McpmError) and str(error) == error.message
        if show:
            print(error.kind, error)
    else:
        raise AssertionError("it was not refused")


def start(prompt: mcpm.UserPrompt | None = None, target: str = TARGET) -> mcpm.Starting[mcpm.Proxy]:
    return mcpm.Proxy.start("remote", target, prompt=prompt, remote_auth=True, remote_auth_callback_port=0)


class Raises(mcpm.UserPrompt):
    def show_login(self, login: mcpm.LoginPrompt) -> None:
        raise ValueError(f"no display for {login.url}")


class Cancels(mcpm.UserPrompt):
    def show_login(self, login: mcpm.LoginPrompt) -> None:
        pass

    def ask_redirect(self, login: mcpm.LoginPrompt) -> str | None:
        raise mcpm.OperationInterruptedError("the user went away")


class AnswersNumbers(Cancels):
    def ask_redirect(self, login: mcpm.LoginPrompt) -> str | None:
        return 5  # type: ignore[return-value]


class Together(mcpm.UserPrompt):
    """Waits for more calls than mcpm has threads that must not block."""

    count = int(os.environ["TOKIO_WORKER_THREADS"]) + 2

    def __init__(self) -> None:
        self.barrier = threading.Barrier(self.count, timeout=30)

    def show_login(self, login: mcpm.LoginPrompt) -> None:
        self.barrier.wait()
        raise mcpm.OperationInterruptedError("all were called")


class Pastes(mcpm.UserPrompt):
    """A browser on another machine: it cannot follow the redirect, whose URL is pasted."""

    def __init__(self) -> None:
        self.asked = 0

    def show_login(self, login: mcpm.LoginPrompt) -> None:
        assert threading.current_thread() is not threading.main_thread()
        assert login.has_redirect and login.open_browser and login.device is None
        assert login.timeout.total_seconds() == 30
        for text in (repr(login), str(login), f"{login}"):
            assert login.url not in text, text
        print(login)

    def ask_redirect(self, login: mcpm.LoginPrompt) -> str | None:
        self.asked += 1
        if self.asked == 1:
            return "https://elsewhere.example/?code=x"
        url = urllib.parse.urlsplit(login.url)
        server = http.client.HTTPConnection(url.netloc, timeout=30)
        server.request("GET", f"{url.path}?{url.query}")
        return server.getresponse().getheader("Location")


class HasDevice(mcpm.UserPrompt):
    def show_login(self, login: mcpm.LoginPrompt) -> None:
        device = login.device
        assert device is not None and not login.has_redirect
        assert (device.url, device.code) == (DEVICE_TARGET.replace("/mcp", "/enter"), "WDJB-MJHT")
        for text in (repr(login), str(login), repr(device), str(device)):
            assert device.code not in text and device.url not in text, text
        print(device)


class Keeps(mcpm.UserPrompt):
    """Follows redirects like a browser, and knows the password of the secret store."""

    def __init__(self) -> None:
        self.logins = 0
        self.questions: list[str] = []

    def ask_secret(self, question: str) -> mcpm.Secret | None:
        self.questions.append(question)
        return mcpm.Secret("a password")

    def show_login(self, login: mcpm.LoginPrompt) -> None:
        self.logins += 1
        urllib.request.urlopen(login.url, timeout=30).read()


async def main() -> None:
    await refused(mcpm.LoginRequiredError, start(), show=False)
    await refused(mcpm.LoginRequiredError, start(mcpm.UserPrompt()))
    await refused(mcpm.IoError, start(Raises()))
    await refused(mcpm.OperationInterruptedError, start(Cancels()))
    await refused(mcpm.IoError, start(AnswersNumbers()))
    try:
        await start(object())  # type: ignore[arg-type]
    except TypeError as error:
        print(type(error).__name__, error)

    many = Together()
    starts = [start(many) for _ in range(many.count)]
    for outcome in await asyncio.gather(*starts, return_exceptions=True):
        assert isinstance(outcome, mcpm.OperationInterruptedError), outcome

    pastes = Pastes()
    proxy = await start(pastes)
    await proxy.stop()
    assert pastes.asked == 2

    await (await start(HasDevice(), DEVICE_TARGET)).stop()

    keeps = Keeps()
    async with mcpm.Workload.start(TARGET, name="remote", remote_auth_callback_port=0, prompt=keeps):
        pass
    assert keeps.logins == 1
    assert keeps.questions == ["New password for mcpm's secrets", "Repeat the password"], keeps.questions

    # The login is stored for all clients of the server, and the store is opened with the password.
    again = Keeps()
    proxy = await start(again)
    assert (again.logins, again.questions) == (0, ["Password of mcpm's secrets"]), again.questions
    print(proxy.name, proxy.url, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await proxy.stop()


asyncio.run(main())
