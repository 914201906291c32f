"""The default answers of a user prompt, which the generated class does not have."""

from __future__ import annotations

from ._native.mcpm import LoginPrompt, McpmError, UserPrompt
from ._secret import Secret, expose


def ask_secret(self: UserPrompt, question: str) -> Secret | None:
    return None


def ask_text(self: UserPrompt, question: str) -> str | None:
    answer = self.ask_secret(question)
    return None if answer is None else expose(answer)


def show_login(self: UserPrompt, login: LoginPrompt) -> None:
    raise McpmError.LoginRequired(f"the remote server `{login.server}` requires a login")


def ask_redirect(self: UserPrompt, login: LoginPrompt) -> str | None:
    return None


for answer in (ask_secret, ask_text, show_login, ask_redirect):
    answer.__doc__ = getattr(UserPrompt, answer.__name__).__doc__
    setattr(UserPrompt, answer.__name__, answer)
