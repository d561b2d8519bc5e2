"""Packages that some outputs need and that an installation of wfrun may lack."""

from __future__ import annotations

import sys

from wfrun.engine.explain.visible import command_line


def install_command(package: str) -> str:
    """The command that installs a package for this installation of wfrun, which may have been made
    by pip or pipx or in an environment of its own."""
    return f"`{command_line(sys.executable, '-m', 'pip', 'install', package)}`"
