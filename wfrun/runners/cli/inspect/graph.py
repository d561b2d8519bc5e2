"""``wfrun graph``: the shape of the workflows in documents or in a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from wfrun.engine.model import Workflow
    from wfrun.parsers.workflows.shape import Shape
    from wfrun.runners.inspect.graph.graph_drawing import Drawing, Nodes
    from wfrun.runners.inspect.graph.graph_states import TaskWords


@click.command()
@click.argument("documents", nargs=-1, required=True, type=click.Path(path_type=Path),
                metavar="DOCUMENT|RUN...")  # fmt: skip
@click.option("--dot", "dot_file", type=click.Path(path_type=Path, allow_dash=True), metavar="FILE",
              help="Write the graph for Graphviz; - is standard output.")  # fmt: skip
@click.option("--picture", type=click.Path(path_type=Path), metavar="FILE",
              help="Draw the graph, as PNG, PDF or SVG.")  # fmt: skip
@click.option("--nodes", type=click.Choice(["tasks", "kinds", "layers"]),
              help="Nodes of drawings: tasks, kinds, which are all tasks of one name in one "
              "layer, or layers. Default: the finest that can be read.")  # fmt: skip
def graph(
    documents: tuple[Path, ...], dot_file: Path | None, picture: Path | None, nodes: str | None
) -> None:
    """Show the layers, critical path, width and parallelism of workflows.

    Run times are those of the documents, on the reference processor. Nothing is run. If a document
    is the directory of a run, drawings show the states of its tasks in colour.
    """
    from wfrun.parsers.workflows.shape import shape_of
    from wfrun.runners.display.console import make_console
    from wfrun.runners.display.pictures import check_picture
    from wfrun.runners.inspect.graph import graph as display

    if picture is not None:
        check_picture(picture)
    workflows = [pair for document in documents for pair in _read(document)]
    if len(workflows) > 1 and (dot_file or picture):
        raise click.UsageError(
            f"--dot and --picture draw one workflow, and the documents have {len(workflows)}."
        )
    console = make_console(stderr=dot_file == Path("-"))
    for workflow, words in workflows:
        shape = shape_of(workflow)
        console.print(display.shape_table(workflow, shape))
        if dot_file is None and picture is None:
            continue
        drawing = _drawing(workflow, shape, nodes, words)
        if dot_file is not None:
            _write(dot_file, display.dot(workflow, drawing))
        if picture is not None:
            display.draw(workflow, drawing, picture)


def _read(path: Path) -> list[tuple[Workflow, TaskWords | None]]:
    """Read the workflows of a document, or of a run if ``path`` is a directory. Returns each
    workflow with the states of its tasks, or with None if it is from a document."""
    if not path.is_dir():
        from wfrun.parsers.read import read_workflows

        return [(workflow, None) for workflow in read_workflows(path, emulate=True)]
    from wfrun.runners.inspect.graph.graph_states import task_words
    from wfrun.runners.inspect.tables.followed_run import FollowedRun
    from wfrun.runners.run.directory.run_directory import find
    from wfrun.runners.run.prepare.plugins import load_policies

    load_policies()
    with FollowedRun(find(str(path))) as run:
        return [(w.workflow, task_words(run.state, w)) for w in run.state.workflows]


def _drawing(
    workflow: Workflow, shape: Shape, chosen: str | None, words: TaskWords | None
) -> Drawing:
    from wfrun.runners.inspect.graph.graph_drawing import drawing_of, readable_drawing

    if chosen is None:
        return readable_drawing(workflow, shape, words)
    nodes: Nodes = "tasks" if chosen == "tasks" else "kinds" if chosen == "kinds" else "layers"
    return drawing_of(workflow, shape, nodes, words)


def _write(path: Path, text: str) -> None:
    if path == Path("-"):
        click.echo(text, nl=False)
        return
    from wfrun.parsers.atomic import replacing

    with replacing(path) as stream:
        stream.write(text)
