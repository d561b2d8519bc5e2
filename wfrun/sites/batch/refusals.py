"""Classifies refused submissions by the output of the submission command."""

from __future__ import annotations

import re
from typing import NamedTuple

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.sites.batch.common import how_it_ended
from wfrun.sites.batch.system import ArrayTooLargeError, BackPressureError

_FIRST = 300
_LAST = 200
"""Maximum numbers of characters from the start and from the end of a text that is shortened for a
message."""
_USAGE = re.compile(r"^usage: .*", re.MULTILINE | re.DOTALL | re.IGNORECASE)
_NOTHING = re.compile(r"(?!)")


class Refusals(NamedTuple):
    """Patterns of the messages with which a submission command refuses a job. A message that
    matches none of them is a transient fault."""

    limits: re.Pattern[str]
    """A limit on jobs is reached, or the queue is closed: the batch system may accept the same
    request later."""
    never: re.Pattern[str]
    """The request cannot be accepted as it is."""
    too_large: re.Pattern[str] = _NOTHING
    """The array has more elements than are allowed."""
    limit_codes: frozenset[int] = frozenset()
    """Exit codes that mean ``limits``, whatever the text."""

    def error(self, program: str, exit_code: int | None, output: str, errors: str) -> WfrunError:
        """The error for a submission that returned no id.

        If the program prints a usage text, its version does not know our command line. This is no
        property of the task, so the error is transient.
        """
        words = f"{errors.strip()}\n{output.strip()}".strip()
        said = _USAGE.sub("", words).strip()
        message = f"{program} {how_it_ended(exit_code)}: {_shortened(said or words)}"
        if exit_code in self.limit_codes or self.limits.search(said):
            return BackPressureError(message)
        if exit_code is None or _USAGE.search(words):
            return TransientError(message)
        if self.too_large.search(said):
            return ArrayTooLargeError(message)
        if self.never.search(said):
            return InfeasibleError(
                message,
                hint="Change the site's queue, account or options in the catalog, or the task.",
            )
        return TransientError(message)


def _shortened(text: str) -> str:
    """The text without its middle if it is long: programs name the cause first or last."""
    if not text:
        return "it printed nothing"
    return text if len(text) <= _FIRST + _LAST else f"{text[:_FIRST]} … {text[-_LAST:]}"
