from __future__ import annotations

import enum
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import mcpm
from mcpm import sync

SNAPSHOT = Path(__file__).parent.parent / "api.txt"


def members(name: str, kind: type) -> Iterator[str]:
    """Describes a class: the parameters of its constructor, and its public members."""
    if issubclass(kind, enum.Enum):
        yield from (f"{name}.{choice.name}" for choice in kind)
        return
    bases = [base.__name__ for base in kind.__mro__[1:] if base.__module__.startswith("mcpm")]
    yield f"class {name}" + (f" is a {', '.join(bases)}: " if bases else "") + signature(kind)
    for member in sorted(vars(kind)):
        if member.startswith("_"):
            continue
        value = getattr(kind, member)
        if inspect.isclass(value):
            # The classes of errors are listed under names of the package.
            if not issubclass(value, BaseException):
                yield from members(f"{name}.{member}", value)
        elif callable(value):
            yield f"{name}.{member}{signature(value)}"
        else:
            yield f"{name}.{member}"


def signature(value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, BaseException):
        # Not all versions of Python know the parameters of errors that the class inherits.
        value = value.__init__
    return str(inspect.signature(value)).replace("mcpm._native.mcpm.", "").replace("_native.", "")


def described(module: ModuleType, names: list[str]) -> Iterator[str]:
    for name in names:
        value = getattr(module, name)
        full = f"{module.__name__}.{name}"
        if inspect.isclass(value):
            yield from members(full, value)
        else:
            yield full + signature(value)


def api() -> Iterator[str]:
    """Describes the public API. The keyword arguments of the starts are in the generated `_options.py`."""
    yield from described(mcpm, mcpm.__all__)
    yield from described(sync, [name for name, value in vars(sync).items() if public_class(name, value)])


def public_class(name: str, value: object) -> bool:
    return inspect.isclass(value) and value.__module__ == "mcpm.sync" and not name.startswith("_")


def test_api_has_not_changed() -> None:
    """A change of the API must be described in `docs/changelog.md`; `MCPM_UPDATE=1` writes the snapshot."""
    text = "".join(f"{line}\n" for line in api())
    if os.environ.get("MCPM_UPDATE") == "1":
        SNAPSHOT.write_text(text)
    assert text == SNAPSHOT.read_text()
