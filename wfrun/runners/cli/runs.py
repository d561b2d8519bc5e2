"""The argument RUN of commands."""

from __future__ import annotations

import click

from wfrun.runners.cli.completion import complete_runs

run_argument = click.argument("run", required=False, shell_complete=complete_runs)
"""The argument RUN, which is optional. Without it a command uses the last run."""

trust_option = click.option("--trust", is_flag=True,
                            help="Use RUN although other users own or may write its "
                            "directory.")  # fmt: skip
