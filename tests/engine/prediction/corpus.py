"""The real logs that predictors are measured on."""

from __future__ import annotations

from functools import cache

from tests.places import CORPUS
from wfrun.parsers.logs import read_swf
from wfrun.runners.forecast.log_accuracy import LogHistory, log_history


@cache
def history_of(name: str) -> LogHistory:
    """The history of the log whose file name begins with ``name``."""
    (path,) = (CORPUS / "swf").glob(f"{name}*.swf.gz")
    return log_history(read_swf(path).jobs, is_grid=False)
