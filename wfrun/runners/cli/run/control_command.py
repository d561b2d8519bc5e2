"""The command ``control``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from wfrun.runners.cli.completion import complete_sites, complete_tasks, complete_workflows
from wfrun.runners.cli.runs import run_argument, trust_option

if TYPE_CHECKING:
    from wfrun.engine.core.state import RunState
    from wfrun.runners.run.user_requests import Request


@click.command()
@run_argument
@click.option("--pause", multiple=True, metavar="SITE", shell_complete=complete_sites,
              help="Give SITE no more tasks; those that run there go on.")  # fmt: skip
@click.option("--free", multiple=True, metavar="SITE", shell_complete=complete_sites,
              help="Give SITE tasks again.")  # fmt: skip
@click.option("--raise", "raised", multiple=True, metavar="TASK", shell_complete=complete_tasks,
              help="Place TASK, and what it depends on, first in its workflow.")  # fmt: skip
@click.option("--raise-workflow", multiple=True, metavar="WORKFLOW",
              shell_complete=complete_workflows,
              help="Place the tasks of WORKFLOW before those of all others.")  # fmt: skip
@click.option("--cancel", multiple=True, metavar="TASK", shell_complete=complete_tasks,
              help="Cancel TASK; what depends on it is blocked.")  # fmt: skip
@trust_option
def control(
    run: str | None,
    pause: tuple[str, ...],
    free: tuple[str, ...],
    raised: tuple[str, ...],
    raise_workflow: tuple[str, ...],
    cancel: tuple[str, ...],
    trust: bool,
) -> None:
    """Pause sites, raise priorities and cancel tasks of RUN while it runs.

    RUN is `last` by default. All options can be repeated. The command returns once the requests are
    in the log of the run. They stay in force after a crash and `wfrun resume`.
    """
    from wfrun.runners.run import user_requests as ur
    from wfrun.runners.run.directory.run_directory import is_driven
    from wfrun.runners.run.directory.trust import find_own
    from wfrun.runners.run.prepare.plugins import load_policies
    from wfrun.runners.run.store.checkpoints import read_state
    from wfrun.runners.simulate.simulated_run import refuse_simulated

    if not (pause or free or raised or raise_workflow or cancel):
        raise click.UsageError("nothing is asked for: see the options")
    load_policies()
    found = find_own(run, "control", trust=trust)
    if is_driven(found):
        refuse_simulated(found, "it takes no requests")
    else:
        raise ur.not_driven(found)
    state = read_state(found)
    requests: list[Request] = [ur.PauseSite(site) for site in pause]
    requests += [ur.FreeSite(site) for site in free]
    requests += [ur.RaisePriority(number) for number in _workflows(state, raise_workflow)]
    requests += [ur.RaisePriority(*numbers) for numbers in _tasks(state, found.name, raised)]
    requests += [ur.CancelTask(*numbers) for numbers in _tasks(state, found.name, cancel)]
    for request in requests:
        ur.check(request, state)
    for request in requests:
        ur.send(found, request)
        click.echo(ur.effect(request, state))


def _tasks(state: RunState, run: str, names: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Numbers of workflow and task for each name. Raises InvalidError if no task or several tasks
    have the name."""
    from wfrun.engine.errors import InvalidError
    from wfrun.runners.inspect.tables.task_names import find_tasks

    for name in names:
        found = find_tasks(state, run, name)
        if len(found) > 1:
            raise InvalidError(
                f"{len(found)} workflows of the run have a task {name!r}",
                hint="choose one in `wfrun watch`",
            )
        yield found[0]


def _workflows(state: RunState, names: tuple[str, ...]) -> Iterator[int]:
    """Number of the workflow for each name. Raises InvalidError if no workflow or several workflows
    have the name."""
    from wfrun.engine.errors import InvalidError
    from wfrun.engine.explain.visible import name_line
    from wfrun.runners.display.workflow_names import distinct_names

    shown = distinct_names([w.workflow for w in state.workflows])
    for name in names:
        found = [number for number, one in enumerate(shown) if one == name]
        if len(found) != 1:
            known = ", ".join(name_line(one) for one in shown[:5])
            what = f"{len(found)} workflows" if found else "no workflow"
            raise InvalidError(f"the run has {what} named {name!r}", hint=f"workflows: {known}")
        yield found[0]
