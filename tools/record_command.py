"""Make a picture of what a command prints on a terminal.

    python tools/record_command.py SVG wfrun plan montage.dax --sites sites.yaml

docs/images/plan.svg is that of `wfrun plan CyberShake_1000.xml --sites sites.yaml --emulate
--at-sites --size-scale 0.001` over the testbed, after a run there, while jobs of others fill alpha.
The command runs here, on a terminal of `COLUMNS` columns. README and docs show such pictures of
real runs.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

COLUMNS = 94


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("svg", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    printed = output_of(options.command)
    console = terminal(record=True)
    console.print(Text(f"$ {shlex.join(options.command)}"))
    console.print(Text.from_ansi(printed), end="")
    save_svg(console, options.svg)
    print(options.svg)


def output_of(command: list[str]) -> str:
    """What a command prints on a terminal; what it writes to stderr is shown here."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    with subprocess.Popen(command, env=environment, stdout=theirs) as process:
        os.close(theirs)
        printed = bytearray()
        try:
            while part := os.read(ours, 65536):
                printed += part
        except OSError:  # EIO: the command has closed the terminal
            pass
    os.close(ours)
    if process.returncode:
        sys.exit(process.returncode)
    return printed.decode().replace("\r\n", "\n")


def terminal(*, record: bool = False) -> Console:
    """A terminal of which nothing is seen."""
    return Console(
        record=record,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )


def save_svg(console: Console, svg: Path) -> None:
    """Save what a console has recorded, without the web fonts, which a picture in a page cannot
    load anyway."""
    form = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    form = form.replace("font-family: Fira Code, monospace", "font-family: monospace")
    console.save_svg(str(svg), title="wfrun", code_format=form, unique_id="wfrun")


if __name__ == "__main__":
    main()
