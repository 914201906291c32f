"""Handles operations that end after their event loop was closed."""

from __future__ import annotations

import contextlib
from typing import Any

from ._native import mcpm as _native


@_native._UNIFFI_RUST_FUTURE_CONTINUATION_CALLBACK  # type: ignore[untyped-decorator]
def _continue(handle: Any, code: Any) -> None:
    loop, future = _native._UniffiContinuationHandleMap.remove(handle)
    # On a closed loop, nothing waits for the operation.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_native._uniffi_set_future_result, future, code)


def install() -> None:
    """Replaces the callback of the generated module, which prints an error about a closed event loop."""
    _native._uniffi_continuation_callback = _continue
