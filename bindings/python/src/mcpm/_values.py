"""Converts the values that programs pass as options to the types of the generated module."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from ._native import mcpm as _native

Conversion = Callable[[Any], Any]


def plain(value: Any) -> Any:
    """Returns the value itself; the generated module checks its type."""
    return value


def path(value: str | os.PathLike[str]) -> str:
    """Returns the text of a path."""
    return os.fspath(value)


def duration(value: timedelta | float) -> timedelta:
    """Returns a duration, which may be given in seconds."""
    return value if isinstance(value, timedelta) else timedelta(seconds=value)


def texts(value: Iterable[str]) -> list[str]:
    """Returns a list of strings; a single string is rejected, since it is iterable, too."""
    if isinstance(value, str):
        raise TypeError(f"expected several strings, not the string {value!r}")
    return list(value)


def records(value: Iterable[Any]) -> list[Any]:
    """Returns a list of records."""
    return list(value)


def pairs(record: Callable[..., Any], key: str, value: str) -> Conversion:
    """Returns a conversion to records with two fields, which may be given as a mapping."""

    def convert(given: Mapping[str, Any] | Iterable[Any]) -> list[Any]:
        if not isinstance(given, Mapping):
            return list(given)
        return [record(**{key: name, value: text}) for name, text in given.items()]

    return convert


def attributes(value: _native.Attributes | Mapping[str, str]) -> _native.Attributes:
    """Returns attributes, which may be given as a mapping."""
    if isinstance(value, _native.Attributes):
        return value
    return _native.Attributes(entries=[_native.KeyValue(key=key, value=text) for key, text in value.items()])


def choice(choices: type[enum.Enum]) -> Conversion:
    """Returns a conversion to one of several choices, which may be given as their text on the command line."""

    def convert(value: enum.Enum | str) -> enum.Enum:
        if not isinstance(value, str):
            return value
        known = {member.name.lower().replace("_", "-"): member for member in choices}
        if value not in known:
            raise ValueError(f"expected one of {', '.join(known)}, not {value!r}")
        return known[value]

    return convert


def profile(value: Any) -> Any:
    """Returns a permission profile: `none`, `network` or the path of a file."""
    if isinstance(value, _native.PermissionProfile):
        return value
    profiles: Any = _native.PermissionProfile
    name = os.fspath(value)
    if name == "none":
        return profiles.NOTHING()
    if name == "network":
        return profiles.NETWORK()
    return profiles.FILE(name)


def record(kind: Callable[..., Any], conversions: Mapping[str, Conversion], options: Mapping[str, Any]) -> Any:
    """Returns the options of a start; values that are None are left out."""
    given = {}
    for name, value in options.items():
        if name not in conversions:
            raise TypeError(f"there is no option {name!r}")
        if value is not None:
            given[name] = conversions[name](value)
    return kind(**given)
