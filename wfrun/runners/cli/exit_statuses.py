"""Exit statuses of the command."""

from __future__ import annotations

DONE = 0
FAILED = 1
"""Some tasks failed, or some sites cannot be used (``wfrun sites``)."""
INVALID = 2
"""Wrong input or usage."""
SITE = 3
"""A site or the run directory cannot be used."""
INTERRUPTED = 130
