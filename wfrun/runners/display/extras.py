"""Packages that some outputs need and that an installation of wfrun may lack."""

from __future__ import annotations

import sys

from wfrun.engine.explain.visible import command_line


def install_command(package: str) -> str:
    """The command that installs a package where this wfrun is installed, whether by pip, by pipx or
    in an environment of its own."""
    return f"`{command_line(sys.executable, '-m', 'pip', 'install', package)}`"
