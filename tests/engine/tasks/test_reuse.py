"""Tasks that earlier runs did, in the state of a run."""

from __future__ import annotations

from wfrun.engine import events as ev
from wfrun.engine.core import actions as act
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import TaskStatus
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import ORIGIN, File, SiteSpec, Task, Workflow

CHAIN = Workflow(
    "w",
    "w.dax",
    [
        Task("a", "x", "x", outputs=(0,)),
        Task("b", "x", "x", inputs=(0,), outputs=(1, 3), optional=(3,)),
        Task("c", "x", "x", inputs=(1,), outputs=(2,)),
    ],
    [
        File("a", producer=0),
        File("b", producer=1),
        File("c", producer=2, collect=True),
        File("maybe", producer=1, collect=True),
    ],
    [(), (0,), (1,)],
)
STARTED = ev.RunStarted(
    0.0,
    "r",
    ev.Settings("round-robin"),
    (SiteSpec("s", 2), SiteSpec("t", 2)),
    (),
    1,
    own_outputs=True,
)


def begun(*reused: ev.ReusedTasks) -> tuple[Core, list[ev.Event], list[act.Action]]:
    """A core after the start of a run that reuses tasks, with its decisions and actions."""
    core = Core({"w": CHAIN})
    core.step(STARTED)
    decided, actions = core.step(ev.WorkflowAdded(0.0, 0, "w", "w", reused=reused))
    return core, decided, actions


def statuses(core: Core) -> list[str]:
    return [TaskStatus(status).name for status in core.state.workflows[0].status]


def test_only_tasks_that_are_not_reused_are_placed() -> None:
    reused = ev.ReusedTasks("one", (0, 1), ((1, 7, ORIGIN),), lost=(0,))
    core, decided, actions = begun(reused)
    assert statuses(core) == ["DONE", "DONE", "DISPATCHED"]
    (placed,) = decided
    assert isinstance(placed, ev.AttemptPlaced)
    assert placed.task == 2
    assert actions == [act.CopyFile(0, 1, ORIGIN, placed.site)]
    assert core.state.reused == 2
    assert core.state.workflows[0].to_collect == 1  # the optional one was not written
    core.step(ev.TransferEnded(1.0, 0, 1, ORIGIN, placed.site, 7, 0.1))
    core.step(ev.AttemptEnded(2.0, placed.key, Outcome("done", sizes=(5,))))
    decided, _ = core.step(ev.TransferEnded(3.0, 0, 2, placed.site, ORIGIN, 5, 0.1))
    assert [type(event) for event in decided] == [ev.FilesDiscarded, ev.RunEnded]
    assert core.state.ended == "done"


def test_a_run_of_which_all_is_reused_ends_at_once() -> None:
    reused = ev.ReusedTasks("one", (0, 1, 2), ((2, 5, ORIGIN),), lost=(0, 1))
    core, decided, actions = begun(reused)
    assert statuses(core) == ["DONE"] * 3
    assert [type(event) for event in decided] == [ev.RunEnded]
    assert actions == [act.EndRun("done")]


def test_a_final_output_at_a_site_is_collected() -> None:
    _, _, actions = begun(ev.ReusedTasks("one", (0, 1, 2), ((2, 5, 1),), lost=(0, 1)))
    assert actions == [act.CopyFile(0, 2, 1, ORIGIN)]


def test_a_reused_file_that_is_lost_is_made_again_with_what_it_needs() -> None:
    """The file of the first task was at no place from the start, since nothing needed it."""
    reused = ev.ReusedTasks("one", (0, 1), ((1, 7, 1),), lost=(0,))
    core, decided, _ = begun(reused)
    (placed,) = decided
    assert isinstance(placed, ev.AttemptPlaced)
    core = Core({"w": CHAIN})
    core.replay([STARTED, ev.WorkflowAdded(0.0, 0, "w", "w", reused=(reused,)), placed])
    decided, _ = core.step(ev.RunResumed(1.0, lost=((0, 1, 1),)))
    assert [event.task for event in decided if isinstance(event, ev.AttemptPlaced)] == [0]
    assert statuses(core)[1:] == ["WAITING", "WAITING"]
