"""Modes of ``wfrun predict``. Each mode is one `Mode` in a file of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import click


class Mode(NamedTuple):
    """A mode of the command, chosen by an option. At most one mode has no such option; it is used
    if no other mode is chosen."""

    title: str
    """The mode in messages, such as ``the accuracy on a log``."""
    chosen_by: str
    """Name of the parameter that chooses the mode; empty: the mode is used if no other is
    chosen."""
    options: Sequence[click.Parameter]
    run: Callable[[tuple[str, ...], dict[str, Any]], None]
    """Called with the arguments and all parameters of the command."""
    shares: Collection[str] = ()
    """Parameters of other modes that this mode uses, too."""
    arguments: str = ""
    """The arguments of the mode in messages, such as ``documents``; empty: it has none."""


def choose(modes: Sequence[Mode], subjects: tuple[str, ...], given: Sequence[click.Option]) -> Mode:
    """Choose the first mode whose parameter is ``given``, or else the mode without such a
    parameter.

    Raises UsageError if no mode fits, if an option or argument has no effect on the mode, or if the
    mode needs arguments and none are given.
    """
    names = {str(param.name) for param in given}
    chosen = (mode for mode in modes if not mode.chosen_by or mode.chosen_by in names)
    mode = next(chosen, None)
    if mode is None:
        choices = " or ".join(f"--{mode.chosen_by}" for mode in modes)
        raise click.UsageError(f"Give what to predict: {choices}.")
    used = {str(param.name) for param in mode.options} | set(mode.shares)
    for param in given:
        if param.name not in used and any(param in other.options for other in modes):
            others = [other.title for other in modes if param in other.options]
            raise click.UsageError(
                f"{param.opts[0]} has no effect on {mode.title}; it is for {' or '.join(others)}."
            )
    if subjects and not mode.arguments:
        raise click.UsageError(f"{mode.title} has no arguments, but {subjects[0]!r} is given.")
    if mode.arguments and not subjects:
        raise click.UsageError(f"Give {mode.arguments}, or another of the options in --help.")
    return mode
