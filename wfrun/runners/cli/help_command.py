"""The command ``help``."""

from __future__ import annotations

import sys

import click

from wfrun.engine.explain.visible import visible


def _complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from wfrun.runners.display.help_pages import names

    found = {*names(), *_commands(ctx).list_commands(ctx)}
    return sorted(name for name in found if name.startswith(incomplete))


@click.command("help")
@click.argument("topic", required=False, shell_complete=_complete_topics)
@click.pass_context
def help_(ctx: click.Context, topic: str | None) -> None:
    """Show a page of the documentation, or list the pages.

    The pages are installed with wfrun, so that no network is needed. If no page has the name of a
    COMMAND, `wfrun help COMMAND` shows `wfrun COMMAND --help`. In a pipe, a page is printed as
    Markdown.
    """
    from wfrun.runners.display.help_pages import drawn, names, page

    if topic is None:
        _list_topics(ctx)
        return
    command = _commands(ctx).get_command(ctx, topic)
    if command is not None and topic not in names():
        with click.Context(command, info_name=f"wfrun {topic}") as inner:
            click.echo(command.get_help(inner))
        return
    text = page(topic)
    if sys.stdout.isatty():
        click.echo_via_pager(drawn(text))
    else:
        click.echo(text, nl=False)


def _commands(ctx: click.Context) -> click.Group:
    group = ctx.find_root().command
    assert isinstance(group, click.Group)
    return group


def _list_topics(ctx: click.Context) -> None:
    from wfrun.runners.display.help_pages import sections

    formatter = ctx.make_formatter()
    for section, topics in sections().items():
        with formatter.section(section):
            formatter.write_dl([(topic.name, topic.summary) for topic in topics])
    click.echo(visible(formatter.getvalue().strip("\n")))
    click.echo(
        "\n`wfrun help TOPIC` shows a page, `wfrun COMMAND --help` the options of a command."
    )
