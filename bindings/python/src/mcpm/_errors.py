"""Errors, one class for each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._native import mcpm as _native

if TYPE_CHECKING:
    from collections.abc import Mapping

    class McpmError(Exception):
        """An error of an operation; its text says what happened and what to do next, in one line."""

        kind: str
        """The stable name of the kind, as in JSON output of the command line."""
        message: str
        """The text."""
        hint: str | None
        """What to do next; the text contains it, too."""
        context: Mapping[str, str]
        """The inputs of the operation by their names, for example `option` or `file`."""

        def __init__(self, message: str, hint: str | None = None, context: Mapping[str, str] | None = None) -> None: ...

    class InvalidOptionError(McpmError):
        """An option has an invalid value, or options contradict each other."""

    class UnsupportedError(McpmError):
        """The option, value or operation is known, but is not implemented or not included in this build."""

    class NotFoundError(McpmError):
        """No workload, group or file with that name exists."""

    class NameTakenError(McpmError):
        """A workload or group with that name exists already."""

    class PortTakenError(McpmError):
        """The port to listen on is in use."""

    class EngineUnavailableError(McpmError):
        """No container engine responded, or it denied access."""

    class ImageUnavailableError(McpmError):
        """The image is not present locally and cannot be pulled."""

    class ImageUnverifiedError(McpmError):
        """The image must be signed, and has no valid signature."""

    class SecretsUnavailableError(McpmError):
        """The secret store cannot be opened: a wrong or missing password, no keyring, or a failing program."""

    class StartFailedError(McpmError):
        """The server exited or did not respond before it was ready."""

    class IoError(McpmError):
        """A file or folder could not be read or written, or a prompt failed."""

    class CorruptStateError(McpmError):
        """A stored file is damaged or of an unsupported version."""

    class EngineError(McpmError):
        """The engine rejected an operation or sent an invalid response."""

    class RegistryError(McpmError):
        """The registry cannot be read, or its entry for a server is not usable."""

    class LoginRequiredError(McpmError):
        """The remote server requires a login, and no user can be asked to log in."""

    class UpstreamError(McpmError):
        """The MCP server or an identity provider failed."""

    class OperationInterruptedError(McpmError):
        """The operation was cancelled by its caller, by the user in a prompt, or by a shutdown."""

    class InternalError(McpmError):
        """A defect in mcpm."""

else:
    # The classes that the generated module raises, with names that end as those of errors do.
    McpmError = _native.McpmError
    InvalidOptionError = McpmError.InvalidOption
    UnsupportedError = McpmError.Unsupported
    NotFoundError = McpmError.NotFound
    NameTakenError = McpmError.NameTaken
    PortTakenError = McpmError.PortTaken
    EngineUnavailableError = McpmError.EngineUnavailable
    ImageUnavailableError = McpmError.ImageUnavailable
    ImageUnverifiedError = McpmError.ImageUnverified
    SecretsUnavailableError = McpmError.SecretsUnavailable
    StartFailedError = McpmError.StartFailed
    IoError = McpmError.Io
    CorruptStateError = McpmError.CorruptState
    EngineError = McpmError.Engine
    RegistryError = McpmError.Registry
    LoginRequiredError = McpmError.LoginRequired
    UpstreamError = McpmError.Upstream
    OperationInterruptedError = McpmError.Interrupted
    InternalError = McpmError.Internal

    def _init(self, message, hint=None, context=None):
        Exception.__init__(self, message)
        self.message = message
        self.hint = hint
        self.context = {} if context is None else dict(context)

    for _name, _class in list(globals().items()):
        if _name.endswith("Error") and _class is not McpmError:
            _class.__module__ = "mcpm"
            _class.__name__ = _class.__qualname__ = _name
            _class.__init__ = _init
            _class.__repr__ = Exception.__repr__
            _class.kind = property(_class.kind)

__all__ = [
    "CorruptStateError",
    "EngineError",
    "EngineUnavailableError",
    "ImageUnavailableError",
    "ImageUnverifiedError",
    "InternalError",
    "OperationInterruptedError",
    "InvalidOptionError",
    "IoError",
    "LoginRequiredError",
    "McpmError",
    "NameTakenError",
    "NotFoundError",
    "PortTakenError",
    "RegistryError",
    "SecretsUnavailableError",
    "StartFailedError",
    "UnsupportedError",
    "UpstreamError",
]
