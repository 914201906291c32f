"""Runs MCP servers as container workloads behind one HTTP proxy."""

import atexit as _atexit

from . import _user_prompt  # noqa: F401
from ._native.mcpm import *  # noqa: F403
from ._native.mcpm import McpmError, shutdown
from ._secret import Secret

# Every variant has one message; without this Python would print its field.
McpmError.__str__ = lambda self: self.message  # type: ignore[method-assign]

# A prompt that raises one has only a message.
for _kind in McpmError.__subclasses__():
    _kind.__init__.__defaults__ = (None, {})  # type: ignore[misc]

# Threads that call into an interpreter that is going down would abort the process, and what they run would stay behind.
_atexit.register(shutdown)

__all__ = [name for name in globals() if not name.startswith("_")]
