"""Prompts for input that only the user can supply."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ._errors import LoginRequiredError
from ._native import mcpm as _native
from ._native.mcpm import LoginPrompt

if TYPE_CHECKING:
    from typing import TypeAlias

    from ._secret import Secret


class UserPrompt:
    """Prompts the user. Derive a class from this one, and pass an instance to the start of a workload or proxy.

    A method may be a coroutine function, which runs on the event loop that called `start`. Other methods are called
    on separate threads and may block until the user has answered. Several methods may be called at a time. If a method
    raises an error, the operation that needs the answer fails; `OperationInterruptedError` means that the user has
    cancelled.
    """

    def ask_secret(self, question: str) -> Secret | Awaitable[Secret | None] | None:
        """Prompts for text that is not echoed, for example the password of the secret store.

        Returns None if the user cannot be prompted, as the default implementation does.
        """
        return None

    def ask_text(self, question: str) -> str | Awaitable[str | None] | None:
        """Prompts for text that may be echoed. The default implementation calls `ask_secret`."""
        secret = self.ask_secret(question)
        if inspect.isawaitable(secret):
            return _exposed(secret)
        return None if secret is None else secret.expose()

    def approve(self, question: str) -> bool | Awaitable[bool]:
        """Asks the user to allow access to this machine, such as a mount that a registry entry requests.

        `question` names the access. The default implementation asks for the text `yes` with `ask_text`; without an
        answer, the access is denied.
        """
        answer = self.ask_text(f"{question} [yes, no]")
        return _approved(answer) if inspect.isawaitable(answer) else _is_yes(answer)

    def show_login(self, login: LoginPrompt) -> Awaitable[None] | None:
        """Asks the user to log in to a remote server, and returns without waiting for the login.

        The method opens the browser, in which the login continues. The default implementation raises
        `LoginRequiredError`.
        """
        raise LoginRequiredError(f"the remote server `{login.server}` requires a login")

    def ask_redirect(self, login: LoginPrompt) -> str | Awaitable[str | None] | None:
        """Asks for the URL to which a login has redirected the browser, in case the browser runs on another machine.

        mcpm calls this method after `show_login`, and again if the user entered a URL that does not belong to this
        login. An answer that comes after the login has ended is ignored; return no later than the login's timeout.
        Returns None if the user cannot be asked, as the default implementation does.
        """
        return None


AnyPrompt: TypeAlias = UserPrompt | Callable[[LoginPrompt], Awaitable[None] | None]


async def _exposed(secret: Awaitable[Secret | None]) -> str | None:
    answer = await secret
    return None if answer is None else answer.expose()


def _is_yes(answer: str | None) -> bool:
    return answer is not None and answer.strip() == "yes"


async def _approved(answer: Awaitable[str | None]) -> bool:
    return _is_yes(await answer)


class _Adapter(_native.UserPrompt):
    """Calls a prompt from threads of the library."""

    def __init__(self, prompt: UserPrompt, loop: asyncio.AbstractEventLoop | None) -> None:
        self._prompt = prompt
        self._loop = loop

    def _call(self, method: Callable[[Any], Any], argument: Any) -> Any:
        answer = method(argument)
        if not inspect.isawaitable(answer):
            return answer
        if self._loop is None:
            raise TypeError("a prompt with coroutine functions needs an event loop")
        return asyncio.run_coroutine_threadsafe(_awaited(answer), self._loop).result()

    def ask_secret(self, question: str) -> Any:
        return self._call(self._prompt.ask_secret, question)

    def ask_text(self, question: str) -> Any:
        return self._call(self._prompt.ask_text, question)

    def approve(self, question: str) -> Any:
        return self._call(self._prompt.approve, question)

    def show_login(self, login: LoginPrompt) -> Any:
        return self._call(self._prompt.show_login, login)

    def ask_redirect(self, login: LoginPrompt) -> Any:
        return self._call(self._prompt.ask_redirect, login)


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


class _ShowsLogins(UserPrompt):
    def __init__(self, show_login: Callable[[LoginPrompt], Awaitable[None] | None]) -> None:
        self.show_login = show_login  # type: ignore[assignment,method-assign]


def adapt(prompt: AnyPrompt | None, loop: asyncio.AbstractEventLoop | None) -> _native.UserPrompt | None:
    """Returns the object that the library calls for a prompt; `loop` runs coroutine functions."""
    if prompt is None:
        return None
    if not isinstance(prompt, UserPrompt):
        if not callable(prompt):
            raise TypeError(f"expected a UserPrompt or a function that shows logins, not {type(prompt).__name__}")
        prompt = _ShowsLogins(prompt)
    return _Adapter(prompt, loop)
