from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

import mcpm
from support import EVERYTHING, Events, failure


@pytest.fixture
def options(name: str, tmp_path: Path) -> dict[str, Any]:
    """Options of a server whose registry entry needs a secret value."""
    token = {"name": "NOTES_TOKEN", "description": "Token", "required": True, "secret": True}
    server = {"description": "Keeps notes", "transport": "stdio", "image": EVERYTHING, "env_vars": [token]}
    registry = {"version": "1.0.0", "last_updated": "2026-01-01T00:00:00Z", "servers": {"notes": server}}
    (tmp_path / "registry.json").write_text(json.dumps(registry))
    return {"server": "notes", "name": name, "registry": str(tmp_path / "registry.json")}


class Answers(mcpm.UserPrompt):
    def __init__(self) -> None:
        self.questions: list[str] = []

    def ask_secret(self, question: str) -> mcpm.Secret | None:
        assert threading.current_thread() is not threading.main_thread()
        self.questions.append(question)
        return mcpm.Secret("hunter2")


class AnswersOnTheLoop(mcpm.UserPrompt):
    async def ask_secret(self, question: str) -> mcpm.Secret | None:
        assert threading.current_thread() is threading.main_thread()
        await asyncio.sleep(0)
        return mcpm.Secret("hunter2")


class Fails(mcpm.UserPrompt):
    def ask_secret(self, question: str) -> mcpm.Secret | None:
        raise ValueError("no terminal")


class Cancels(mcpm.UserPrompt):
    async def ask_secret(self, question: str) -> mcpm.Secret | None:
        raise mcpm.OperationInterruptedError("the user went away")


async def test_prompt_supplies_a_secret(options: dict[str, Any]) -> None:
    prompt = Answers()
    async with mcpm.Workload.start(prompt=prompt, **options):
        assert prompt.questions == ["NOTES_TOKEN - Token"]


async def test_coroutine_runs_on_the_loop(options: dict[str, Any]) -> None:
    async with mcpm.Workload.start(prompt=AnswersOnTheLoop(), **options) as workload:
        assert workload.status.phase == mcpm.Phase.RUNNING


async def test_error_of_a_prompt_fails_the_start(options: dict[str, Any]) -> None:
    failed = await failure(mcpm.Workload.start(prompt=Fails(), **options))
    assert (failed.kind, failed.message) == ("io", "the user prompt failed: ValueError('no terminal')")
    cancelled = await failure(mcpm.Workload.start(prompt=Cancels(), **options))
    assert (cancelled.kind, cancelled.message) == ("interrupted", "the user went away")
    assert (await failure(mcpm.Workload.start(**options))).kind == "invalid_option"


async def test_prompt_of_a_wrong_type_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a UserPrompt or a function that shows logins, not int"):
        await mcpm.Workload.start("image", prompt=5)  # type: ignore[arg-type]


def test_defaults_ask_nobody() -> None:
    prompt = mcpm.UserPrompt()
    assert prompt.ask_secret("password") is None and prompt.ask_text("name") is None
    assert prompt.approve("mount") is False
    assert Answers.ask_text is mcpm.UserPrompt.ask_text


def test_approval_is_asked_as_a_text_by_default() -> None:
    class Says(mcpm.UserPrompt):
        def __init__(self, answer: str) -> None:
            self.answer = answer

        def ask_text(self, question: str) -> str:
            assert question == "mount? [yes, no]"
            return self.answer

    assert [Says(answer).approve("mount?") for answer in ("yes", " yes\n", "no", "")] == [True, True, False, False]


async def test_approval_may_be_asked_on_the_loop() -> None:
    class Says(mcpm.UserPrompt):
        async def ask_text(self, question: str) -> str:
            return "yes"

    answer = Says().approve("mount?")
    assert not isinstance(answer, bool) and await answer is True


async def test_error_of_an_event_callback_stays_in_the_callback(name: str) -> None:
    reported: list[dict[str, Any]] = []
    events = Events()

    async def on_event(event: mcpm.WorkloadEvent) -> None:
        events(event)
        raise ZeroDivisionError(type(event).__name__)

    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    async with mcpm.Workload.start(EVERYTHING, name=name, on_event=on_event) as workload:
        assert workload.status.phase == mcpm.Phase.RUNNING
    heard = await events.until(mcpm.WorkloadEvent.ENDED)
    await asyncio.sleep(0)
    assert [str(context["exception"]) for context in reported] == [kind.__name__ for kind in heard]
