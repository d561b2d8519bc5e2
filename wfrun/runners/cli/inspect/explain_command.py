"""The command ``explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from wfrun.runners.cli.completion import complete_runs, complete_sites, complete_tasks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msgspec import Struct
    from rich.console import RenderableType


@click.command()
@click.argument("run", shell_complete=complete_runs)
@click.argument("task", required=False, shell_complete=complete_tasks)
@click.option("--site", metavar="NAME", shell_complete=complete_sites,
              help="In place of TASK: explain why this site has idle cores.")  # fmt: skip
@click.option("--attempt", type=click.IntRange(min=1), metavar="N",
              help="Explain the placement of this attempt. Default: the last one.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def explain(
    run: str, task: str | None, site: str | None, attempt: int | None, as_json: bool
) -> None:
    """Explain why TASK of RUN waits, or why it went to its site.

    Prints what the task waits for, its attempts, and the scores by which the placement policy chose
    a site, as they were when it chose. With --site: why the site has idle cores, and where the next
    task would go.
    """
    from wfrun.runners.display.ascii_json import print_json
    from wfrun.runners.display.console import make_console
    from wfrun.runners.run.directory.run_directory import find
    from wfrun.runners.run.prepare.plugins import load_policies

    if (task is None) == (site is None):
        raise click.UsageError("Name either a TASK or a site with --site")
    if site is not None and attempt is not None:
        raise click.UsageError("--attempt has no effect with --site")
    load_policies()
    parts: Iterable[RenderableType]
    if task is not None:
        from wfrun.runners.inspect.explain.explain import explain as explain_task
        from wfrun.runners.inspect.explain.explain_text import explanation_text

        explanation = explain_task(find(run), task, attempt)
        document: Struct = explanation
        parts = explanation_text(explanation)
    else:
        from wfrun.runners.inspect.explain.explain_site import explain_site, site_text

        explained = explain_site(find(run), site or "")
        document, parts = explained, site_text(explained)
    if as_json:
        print_json(document)
        return
    console = make_console()
    for part in parts:
        console.print(part)
