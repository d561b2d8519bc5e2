"""``wfrun graph``: the shape of workflows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from wfrun.engine.model import Workflow
    from wfrun.runners.display.graph import Nodes


@click.command()
@click.argument("documents", nargs=-1, required=True, type=click.Path(path_type=Path),
                metavar="DOCUMENT...")  # fmt: skip
@click.option("--dot", "dot_file", type=click.Path(path_type=Path, allow_dash=True), metavar="FILE",
              help="Write the graph for Graphviz; - is standard output.")  # fmt: skip
@click.option("--picture", type=click.Path(path_type=Path), metavar="FILE",
              help="Draw the graph, as PNG, PDF or SVG.")  # fmt: skip
@click.option("--nodes", type=click.Choice(["tasks", "kinds"]),
              help="Nodes of drawings: tasks, or kinds, which are all tasks of one name in one "
              "layer. Default: tasks for small workflows, otherwise kinds.")  # fmt: skip
def graph(
    documents: tuple[Path, ...], dot_file: Path | None, picture: Path | None, nodes: str | None
) -> None:
    """Show the layers, critical path, width and parallelism of workflows.

    Run times are those of the documents, on the reference processor. Nothing is run.
    """
    from wfrun.parsers.read import read_workflows
    from wfrun.parsers.workflows.shape import shape_of
    from wfrun.runners.display import graph as display
    from wfrun.runners.display.console import make_console
    from wfrun.runners.display.pictures import check_picture

    if picture is not None:
        check_picture(picture)
    workflows = [w for document in documents for w in read_workflows(document, emulate=True)]
    if len(workflows) > 1 and (dot_file or picture):
        raise click.UsageError(
            f"--dot and --picture draw one workflow, and the documents have {len(workflows)}."
        )
    console = make_console(stderr=dot_file == Path("-"))
    for workflow in workflows:
        shape = shape_of(workflow)
        console.print(display.shape_table(workflow, shape))
        if dot_file is None and picture is None:
            continue
        drawing = display.drawing_of(workflow, shape, _nodes(nodes, workflow))
        if dot_file is not None:
            _write(dot_file, display.dot(workflow, drawing))
        if picture is not None:
            display.draw(workflow, drawing, picture)


def _nodes(chosen: str | None, workflow: Workflow) -> Nodes:
    from wfrun.runners.display.graph import MAX_TASKS_DRAWN

    if chosen is not None:
        return "tasks" if chosen == "tasks" else "kinds"
    return "tasks" if len(workflow.tasks) <= MAX_TASKS_DRAWN else "kinds"


def _write(path: Path, text: str) -> None:
    if path == Path("-"):
        click.echo(text, nl=False)
        return
    from wfrun.parsers.atomic import replacing

    with replacing(path) as stream:
        stream.write(text)
