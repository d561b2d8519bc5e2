"""The command ``events``."""

from __future__ import annotations

import click

from wfrun.runners.cli.runs import run_argument


def _complete_kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [kind for kind in _kinds() if kind.startswith(incomplete)]


def _kinds() -> list[str]:
    from typing import get_args

    from wfrun.engine.events import AnyEvent

    return sorted(kind.__struct_config__.tag for kind in get_args(AnyEvent))


def _known(ctx: click.Context, param: click.Parameter, kinds: tuple[str, ...]) -> tuple[str, ...]:
    from difflib import get_close_matches

    for kind in kinds:
        if kind not in _kinds():
            near = get_close_matches(kind, _kinds(), n=2)
            what = f"did you mean {' or '.join(near)}?" if near else f"kinds: {', '.join(_kinds())}"
            raise click.BadParameter(f"there is no kind {kind!r}; {what}")
    return kinds


@click.command()
@run_argument
@click.option("--follow", "-f", is_flag=True,
              help="Also print events to come, until no engine drives the run.")  # fmt: skip
@click.option("--last", "-n", type=click.IntRange(min=0), metavar="N",
              help="Print only the last N events, and with --follow those to come.")  # fmt: skip
@click.option("--kind", "kinds", multiple=True, metavar="KIND", callback=_known,
              shell_complete=_complete_kinds,
              help="Print events of this kind, such as `attempt-ended`. Repeatable.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True,
              help="Print each event as a line of JSON, with its number and the version of the "
              "log.")  # fmt: skip
@click.option("--schema", is_flag=True,
              help="Print the JSON Schema of these lines, and read no log.")  # fmt: skip
def events(
    run: str | None,
    follow: bool,
    last: int | None,
    kinds: tuple[str, ...],
    as_json: bool,
    schema: bool,
) -> None:
    """Print the log of RUN (default: `last`), an event a line.

    Each line has the time since the start of the run, the kind of the event, and what it is about.
    docs/run-directory.md describes the kinds and the fields of the JSON lines.
    """
    if schema:
        from wfrun.runners.inspect.events.event_printing import event_schema

        click.echo(event_schema())
        return
    from wfrun.runners.inspect.events.event_printing import print_events
    from wfrun.runners.run.directory.run_directory import find
    from wfrun.runners.run.prepare.plugins import load_policies

    load_policies()
    print_events(find(run), kinds=kinds, last=last, follow=follow, as_json=as_json)
