"""Figures of matplotlib (the extra ``plots``), and the files that they are saved to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from wfrun.engine.errors import InfeasibleError, InvalidError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(size_inches: tuple[float, float]) -> Figure:
    """An empty figure. Raises InfeasibleError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InfeasibleError(
            "pictures need matplotlib", hint="install it: pip install 'wfrun[plots]'"
        ) from error
    return Figure(figsize=size_inches, layout="constrained")


def check_picture(path: Path) -> None:
    """Check that a picture can be saved to ``path``, before the work for it begins.

    Raises InvalidError for an ending that names no format, InfeasibleError without matplotlib or
    where the file cannot be written.
    """
    kinds = new_figure((1.0, 1.0)).canvas.get_supported_filetypes()
    kind = path.suffix.removeprefix(".").lower()
    if kind not in kinds:
        raise InvalidError(
            f"{path} can't be drawn: there is no kind of picture {kind!r}"
            if kind
            else f"{path} can't be drawn: its name does not say what kind of picture it is",
            hint=f"let the name end in one of .{', .'.join(sorted(kinds))}",
        )
    if not path.parent.is_dir():
        raise InfeasibleError(f"{path} can't be drawn: there is no folder {path.parent}")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InfeasibleError(f"{path} can't be drawn: it can't be written")


def save_picture(figure: Figure, path: Path) -> None:
    """Save ``figure``; the ending of ``path`` chooses the format.

    Raises InfeasibleError where the file cannot be written.
    """
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise InfeasibleError(f"{path} can't be drawn: {error}") from error
