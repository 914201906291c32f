"""Runs MCP servers as container workloads behind an HTTP proxy."""

import atexit as _atexit
import sys as _sys

# Type checkers know this name; importing `typing` would take most of the time of the import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._api import *  # noqa: F403
    from ._api import __all__ as __all__
else:

    def __getattr__(name):
        # At the first use of a public name: asyncio and the shared library take most of the time of an import.
        if not name.startswith("_") or name == "__all__":
            from . import _api  # noqa: PLC0415

            names = {public: getattr(_api, public) for public in ["__all__", *_api.__all__]}
            globals().update(names)
            if name in names:
                return names[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=_sys.modules[__name__])

    def __dir__():
        return sorted({*globals(), *__getattr__("__all__")})


def _shut_down() -> None:
    if native := _sys.modules.get("mcpm._native.mcpm"):
        native.shutdown()


# Threads that call into an interpreter that is ending would abort the process, and leave their workloads behind.
# This is registered at the import, not at the first use, so that exit handlers of the program run before it.
_atexit.register(_shut_down)
