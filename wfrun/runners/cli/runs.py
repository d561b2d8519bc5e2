"""The argument RUN of commands."""

from __future__ import annotations

import shlex

import click


def complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of runs in ./wfrun-runs, the latest first, and ``last``."""
    from wfrun.runners.run.directory import existing

    # A shell inserts a completion as it is, without quotes.
    names = [run.name for run in existing() if shlex.quote(run.name) == run.name]
    return [name for name in [*reversed(names), "last"] if name.startswith(incomplete)]


run_argument = click.argument("run", required=False, shell_complete=complete_runs)
"""Optional: the last run by default."""

trust_option = click.option("--trust", is_flag=True,
                            help="Use RUN although other users own or may write its "
                            "directory.")  # fmt: skip
