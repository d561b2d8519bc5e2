"""The command ``wfrun``. Slow modules are imported only by the commands that use them."""

from __future__ import annotations

import errno
import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from wfrun.runners.cli.exit_statuses import INTERRUPTED, INVALID, SITE
from wfrun.runners.cli.streams import escape_standard_streams

_WORD = re.compile(r"[A-Za-z][A-Za-z-]*")
_GROUPS = {
    "Run": {
        "run": (
            "wfrun.runners.cli.run.running",
            "Run workflows and bags of tasks together, as one run.",
        ),
        "jobs": (
            "wfrun.runners.cli.run.jobs_command",
            "Run parallel jobs on several clusters, each in its own batch job.",
        ),
        "resume": (
            "wfrun.runners.cli.run.running",
            "Continue RUN after a crash, an interrupt or a failure.",
        ),
        "cancel": (
            "wfrun.runners.cli.run.running",
            "Stop RUN; `wfrun resume` can continue it later.",
        ),
        "add": (
            "wfrun.runners.cli.run.add_command",
            "Add documents to RUN while it runs, or before it is resumed.",
        ),
        "control": (
            "wfrun.runners.cli.run.control_command",
            "Pause sites, raise priorities and cancel tasks of RUN while it runs.",
        ),
        "clean": (
            "wfrun.runners.cli.run.cleaning",
            "Remove all that RUN has left, on every site and here.",
        ),
    },
    "Look": {
        "list": (
            "wfrun.runners.cli.inspect.looking",
            "List the runs in ./wfrun-runs.",
        ),
        "status": (
            "wfrun.runners.cli.inspect.looking",
            "Show the state of RUN (default: `last`).",
        ),
        "watch": (
            "wfrun.runners.cli.inspect.watch_command",
            "Show RUN (default: `last`) live, from any terminal.",
        ),
        "tasks": (
            "wfrun.runners.cli.inspect.tasks_command",
            "List tasks of RUN (default: `last`).",
        ),
        "failures": (
            "wfrun.runners.cli.inspect.failures_command",
            "Show the failures of RUN (default: `last`), by cause and error text.",
        ),
        "logs": (
            "wfrun.runners.cli.inspect.looking",
            "Print the output of TASK of RUN.",
        ),
        "results": (
            "wfrun.runners.cli.inspect.looking",
            "Tabulate the tasks of RUN (default: `last`).",
        ),
        "explain": (
            "wfrun.runners.cli.inspect.explain_command",
            "Explain why TASK of RUN waits, or why it went to its site.",
        ),
        "events": (
            "wfrun.runners.cli.inspect.events_command",
            "Print the log of RUN (default: `last`), an event a line.",
        ),
        "files": (
            "wfrun.runners.cli.inspect.looking",
            "Show where the files of RUN are (default: `last`).",
        ),
        "launchers": (
            "wfrun.runners.cli.inspect.looking",
            "Show the launchers of RUN (default: `last`).",
        ),
        "stats": (
            "wfrun.runners.cli.inspect.stats_command",
            "Show statistics of RUN (default: `last`), or compare several runs.",
        ),
        "shares": (
            "wfrun.runners.cli.inspect.shares_command",
            "Show what each owner in RUN holds and has got (default: `last`).",
        ),
        "report": (
            "wfrun.runners.cli.inspect.report_command",
            "Write a report of RUN (default: `last`) as one HTML file.",
        ),
        "export": (
            "wfrun.runners.cli.inspect.export_command",
            "Write RUN (default: `last`) in a format that other programs read.",
        ),
    },
    "Sites": {
        "sites": (
            "wfrun.runners.cli.sites.sites",
            "Add clusters to a catalog, check them, and show their state.",
        ),
        "bench": (
            "wfrun.runners.cli.sites.sites",
            "Measure sites.",
        ),
    },
    "Before a run": {
        "plan": (
            "wfrun.runners.cli.simulate.plan_command",
            "Plan a run of workflows and bags, and start nothing.",
        ),
        "predict": (
            "wfrun.runners.cli.predict.predict_command",
            "Predict run times, waits and ends; measure how accurate predictions are.",
        ),
        "simulate": (
            "wfrun.runners.cli.simulate.simulate",
            "Simulate SUBJECTS in virtual time, and compare policies.",
        ),
        "policies": (
            "wfrun.runners.cli.inspect.looking",
            "List the placement and selection policies.",
        ),
        "graph": (
            "wfrun.runners.cli.inspect.graph",
            "Show the layers, critical path, width and parallelism of workflows.",
        ),
        "generate": (
            "wfrun.runners.cli.simulate.generate",
            "Write a synthetic workflow of a family, or a workload of bags.",
        ),
    },
    "Research": {
        "study": (
            "wfrun.runners.cli.simulate.simulate",
            "Simulate the experiments of a paper.",
        ),
    },
    "Help": {
        "help": (
            "wfrun.runners.cli.help_command",
            "Show a page of the documentation, or list the pages.",
        ),
    },
}
"""Commands by the heading of their group in `wfrun --help`: the module and the summary of each. The
summary is the first line of the command's help text, repeated here so that `wfrun --help` imports
no command. A test compares the two texts."""

_COMMANDS = {name: each for group in _GROUPS.values() for name, each in group.items()}

_FUNCTIONS = {"help": "help_", "list": "list_"}
"""Names of the functions of commands whose own name would hide a builtin."""


class _Commands(click.Group):
    """Imports the module of a command when the command is used. ``wfrun DOCUMENT`` is short for
    ``wfrun run DOCUMENT``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(_COMMANDS[cmd_name][0])
        found: click.Command = getattr(module, _FUNCTIONS.get(cmd_name, cmd_name))
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _COMMANDS))
        for heading, group in _GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:{width}}", group[name][1]) for name in group])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {"--help", "-h", "--version", *_COMMANDS}:
            _refuse_mistyped(ctx, args[0])
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands, or of files if no command matches."""
        commands = [
            CompletionItem(name, help=summary)
            for name, (_, summary) in _COMMANDS.items()
            if name.startswith(incomplete)
        ]
        own = [*commands, *click.Command.shell_complete(self, ctx, incomplete)]
        return own or [CompletionItem(incomplete, type="file")]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. A Ctrl-C outside a run, for example while a document is read, ends it
        without a traceback."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)


_OTHER_NAMES = {
    "abort": "cancel", "check": "sites check", "clusters": "sites", "continue": "resume",
    "delete": "clean", "eta": "predict", "estimate": "predict", "init": "sites init",
    "kill": "cancel", "log": "logs", "ls": "list", "nodes": "sites",
    "output": "logs", "plot": "graph", "ps": "list", "queue": "status", "restart": "resume",
    "show": "status", "sim": "simulate", "start": "run", "stat": "status", "stop": "cancel",
    "submit": "run", "why": "explain",
}  # fmt: skip
"""Commands of wfrun by their names in other systems."""


def _refuse_mistyped(ctx: click.Context, word: str) -> None:
    """Fail with a suggestion if ``word`` is neither a file nor looks like a path."""
    from difflib import get_close_matches

    if not _WORD.fullmatch(word) or Path(word).exists():
        return
    commands = {name: name for name in _COMMANDS} | _OTHER_NAMES
    other = _OTHER_NAMES.get(word.lower())
    close = [other] if other else get_close_matches(word.lower(), commands, n=2)
    near = dict.fromkeys(commands.get(name, name) for name in close)
    hint = (
        f"Did you mean {' or '.join(map(repr, near))}?"
        if near
        else f"Commands are: {', '.join(_COMMANDS)}."
    )
    ctx.fail(f"There is no command and no file {word!r}. {hint}")


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 all done, 1 some tasks failed, 2 wrong input or usage, 3 a site or the "
    "run directory cannot be used, 130 interrupted.",
)
@click.version_option(package_name="wfrun")
def cli() -> None:
    """Run workflows and bags of tasks on several clusters.

    `wfrun DOCUMENT…` is short for `wfrun run DOCUMENT…`. RUN is the path of a run directory, its
    name, or `last`.
    """


def _open_standard_streams() -> None:
    """Open standard streams that the caller has closed (`>&-`). Otherwise other files would get
    their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - never closed
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def main() -> None:
    """Run the command. Print expected errors without a traceback, and exit with their status."""
    from wfrun.engine.errors import InvalidError, WfrunError

    _open_standard_streams()
    escape_standard_streams()
    try:
        cli(prog_name="wfrun")
    except WfrunError as error:
        click.echo(f"wfrun: {error}", err=True)
        sys.exit(INVALID if isinstance(error, InvalidError) else SITE)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:  # stdout is on a full disk; sites and stores raise other errors
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        reason = error.strerror
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for the rest of the output, flushed at exit
        click.echo(f"wfrun: the output cannot be written: {reason}", err=True)
        sys.exit(SITE)


if __name__ == "__main__":
    main()
