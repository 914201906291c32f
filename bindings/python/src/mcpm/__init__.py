"""Runs MCP servers as container workloads behind one HTTP proxy."""

from ._native.mcpm import *  # noqa: F403
from ._native.mcpm import McpmError
from ._secret import Secret

# Every variant has one message; without this Python would print its field.
McpmError.__str__ = lambda self: self.message  # type: ignore[method-assign]

__all__ = [name for name in globals() if not name.startswith("_")]
