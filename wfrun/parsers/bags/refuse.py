"""How the checks of bags say what is wrong with a document."""

from __future__ import annotations

from typing import Protocol

from wfrun.engine.errors import InvalidError


class Refuse(Protocol):
    """Makes the error of what stands in a document."""

    def __call__(self, message: str, what: str, hint: str | None = None) -> InvalidError:
        """``what``: the template or the name of the parameter that is wrong, as it stands there."""
