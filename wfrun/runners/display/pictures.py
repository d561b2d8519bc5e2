"""Figures of matplotlib (matplotlib is not a dependency), and their files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.parsers.atomic import drafted
from wfrun.runners.display.extras import install_command

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(size_inches: tuple[float, float]) -> Figure:
    """An empty figure. Raises InfeasibleError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InfeasibleError(
            "pictures need matplotlib", hint=f"install it: {install_command('matplotlib')}"
        ) from error
    return Figure(figsize=size_inches, layout="constrained")


def check_picture(path: Path) -> None:
    """Check that a picture can be saved to ``path``. Call it before computing the picture.

    Raises InvalidError if the ending names no format, InfeasibleError without matplotlib or if the
    file cannot be written.
    """
    kinds = new_figure((1.0, 1.0)).canvas.get_supported_filetypes()
    kind = path.suffix.removeprefix(".").lower()
    if kind not in kinds:
        raise InvalidError(
            f"cannot draw {path}: {kind!r} is not a format of pictures"
            if kind
            else f"cannot draw {path}: without an ending its name does not tell the format",
            hint=f"give it one of the endings .{', .'.join(sorted(kinds))}",
        )
    if not path.parent.is_dir():
        raise InfeasibleError(f"cannot draw {path}: there is no folder {path.parent}")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InfeasibleError(f"cannot draw {path}: it is a folder, or you may not write it")


def save_picture(figure: Figure, path: Path) -> None:
    """Save ``figure`` in the format that the ending of ``path`` names.

    Raises InfeasibleError if the file cannot be written.
    """
    try:
        with drafted(path) as stream:
            figure.savefig(stream, format=path.suffix.removeprefix("."), dpi=150)
    except (OSError, ValueError) as error:
        raise InfeasibleError(f"cannot draw {path}: {error}") from error
