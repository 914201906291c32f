"""Text that must not leak."""

from __future__ import annotations


class Secret:
    """Text that is not shown when it is printed or formatted."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def expose(self) -> str:
        """Returns the text itself; keep it out of logs."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(..)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


def expose(secret: Secret | str) -> str:
    """Returns the text of a secret; a plain text is taken as it is."""
    return secret.expose() if isinstance(secret, Secret) else secret
