"""``wfrun watch`` in a terminal of a given size, with keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import SiteSpec, Task, Workflow
from wfrun.runners.inspect.tables.followed_run import FollowedRun
from wfrun.runners.inspect.watch.app import WatchApp
from wfrun.runners.inspect.watch.lines import TextLines
from wfrun.runners.inspect.watch.observation import RunObserver
from wfrun.runners.run.directory.lock import Lock
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.event_store import Store
from wfrun.runners.run.user_requests import RequestReader

BEGIN_S = 1_700_000_000.0
EVIL = "task\x1b[31m\x9b2J"


class Engine:
    """Writes the log of a run as an engine does, and holds its lock."""

    def __init__(self, path: Path, sites: int, tasks: int) -> None:
        path.mkdir(mode=0o700)
        self.run = RunDir(path)
        self.is_gone = False
        self.lock = Lock(self.run.lock)
        self.store = Store(path, create=True)
        some = [Task(EVIL if n == 0 else f"t{n}", "x", "x", runtime_s=60.0) for n in range(tasks)]
        workflow = Workflow("survey", "of/survey.dax", some, [], [()] * tasks)
        (digest,) = self.store.put_workflows([workflow])
        self.core = Core({digest: workflow})
        specs = tuple(SiteSpec(f"site-{n:02}", 4) for n in range(sites))
        settings = ev.Settings("round-robin", retries=0)
        self.log(
            ev.RunStarted(BEGIN_S, "run-1", settings, specs, (), 1, own_outputs=True),
            ev.WorkflowAdded(BEGIN_S, 0, "survey", digest),
        )

    def log(self, *events: ev.Event) -> None:
        for event in events:
            decisions, _ = self.core.step(event)
            self.store.append([event, *decisions])
        self.store.commit()

    def start_all(self) -> list[str]:
        keys = list(self.core.state.attempts)
        self.log(*(ev.AttemptStarted(BEGIN_S + n, key) for n, key in enumerate(keys)))
        return keys

    def leave(self) -> None:
        self.lock.release()
        self.is_gone = True

    def close(self) -> None:
        if not self.is_gone:
            self.lock.release()
        self.store.close()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine(tmp_path / "run-1", sites=30, tasks=100)
    yield engine
    engine.close()


def shown(app: WatchApp) -> list[str]:
    """The lines of the screen."""
    found = []
    for lines in app.query(TextLines):
        if lines.display:
            found += [lines.render_line(y).text.rstrip() for y in range(lines.size.height)]
    return found


@pytest.mark.cases
@pytest.mark.parametrize("size", [(80, 24), (200, 50), (20, 6)])
async def test_every_view_fits_and_escapes(engine: Engine, size: tuple[int, int]) -> None:
    keys = engine.start_all()
    message = f"no such file {EVIL}"
    engine.log(
        ev.AttemptEnded(BEGIN_S + 50, keys[3], Outcome("exit", exit_code=1, message=message))
    )
    with FollowedRun(engine.run) as followed:
        app = WatchApp(RunObserver(followed))
        async with app.run_test(size=size) as pilot:
            for key in "12345678":
                await pilot.press(key)
                await pilot.pause()
                text = shown(app)
                assert len(text) <= size[1]
                assert all(len(line) <= size[0] for line in text)
                assert not any(c in line for line in text for c in "\x1b\x9b")
            await pilot.press("q")
        assert app.return_code == 0


async def test_the_overview_has_all_sites_on_a_small_terminal(engine: Engine) -> None:
    keys = engine.start_all()
    engine.log(ev.AttemptEnded(BEGIN_S + 50, keys[3], Outcome("exit", exit_code=7)))
    with FollowedRun(engine.run) as followed:
        app = WatchApp(RunObserver(followed))
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            text = "\n".join(shown(app))
    assert all(f"site-{n:02}" in text for n in range(30))
    assert "run-1  running" in text
    assert "exit 7" in text
    assert "1/100" in text


async def test_what_the_engine_logs_is_drawn(engine: Engine) -> None:
    with FollowedRun(engine.run) as followed:
        app = WatchApp(RunObserver(followed))
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("4")
            assert not any("  running  " in line for line in shown(app)[2:])
            keys = engine.start_all()
            app.refresh_look()
            assert sum("  running  " in line for line in shown(app)[2:]) == 19
            engine.log(*(ev.AttemptEnded(BEGIN_S + 200, key, Outcome("done")) for key in keys[1:]))
            app.refresh_look()
            assert sum("  running  " in line for line in shown(app)[2:]) == 1


async def test_a_site_is_paused_when_the_user_confirms_it(engine: Engine) -> None:
    engine.start_all()
    asked = RequestReader(engine.run, engine.core.state)

    def take() -> None:
        for event in asked.read(BEGIN_S + 60):
            engine.log(event)
            asked.after_commit([event])

    with FollowedRun(engine.run) as followed:
        app = WatchApp(RunObserver(followed))
        async with app.run_test(size=(120, 24)) as pilot:
            await pilot.press("3", "down", "p")
            await pilot.pause()
            asks = "y yes  n no  site site-01 gets no more tasks; those that run there go on?"
            assert shown(app)[-1] == asks
            await pilot.press("n", "p", "escape", "down", "up", "p", "4")
            assert not engine.run.requests.exists()
            await pilot.press("y")
            assert shown(app)[-1].startswith("asked: site site-01")
            take()
            while not shown(app)[-1].startswith("done: site site-01"):
                await pilot.pause(0.01)
            (row,) = [line for line in shown(app) if line.startswith("site-01 ")]
            assert "paused by the user" in row
            await pilot.press("p", "y")
            take()
    assert engine.core.state.sites[1].is_healthy


async def test_a_task_is_raised_and_cancelled(engine: Engine) -> None:
    keys = engine.start_all()
    engine.log(*(ev.AttemptEnded(BEGIN_S + 50, key, Outcome("done")) for key in keys[:98]))
    asked = RequestReader(engine.run, engine.core.state)
    with FollowedRun(engine.run) as followed:
        app = WatchApp(RunObserver(followed))
        async with app.run_test(size=(120, 24)) as pilot:
            await pilot.press("4", "down", "x", "y")
            assert asked.read(0.0) == [ev.TaskCancelled(0.0, 0, 99)]
            engine.log(*asked._posted.values())
            app.refresh_look()
            await pilot.press("2", "plus", "y")
            assert asked.read(1.0) == [ev.PriorityRaised(1.0, 0)]


async def test_a_run_that_nothing_drives_takes_no_request(engine: Engine) -> None:
    engine.leave()
    with FollowedRun(engine.run) as followed:
        app = WatchApp(RunObserver(followed))
        async with app.run_test(size=(120, 24)) as pilot:
            await pilot.press("3", "p", "y")
            assert "the run run-1 is not running" in shown(app)[-1]
            await pilot.press("down")
            assert "q leave" in shown(app)[-1]


@pytest.mark.slow
async def test_the_mark_stays_with_its_row(engine: Engine) -> None:
    keys = engine.start_all()
    with FollowedRun(engine.run) as followed:
        app = WatchApp(RunObserver(followed))
        async with app.run_test(size=(100, 24)) as pilot:
            await pilot.press("4", *["down"] * 30, "r", "r")
            await pilot.pause()
            body = app.query_one("#body", TextLines)
            assert body._marked is not None
            assert body._lines[body._marked].plain.startswith("t30 ")
            engine.log(*(ev.AttemptEnded(BEGIN_S + 200, key, Outcome("done")) for key in keys[:9]))
            app.refresh_look()
            assert body._lines[body._marked].plain.startswith("t30 ")


async def test_rows_are_found_sorted_and_scrolled(engine: Engine) -> None:
    engine.start_all()
    with FollowedRun(engine.run) as followed:
        app = WatchApp(RunObserver(followed))
        async with app.run_test(size=(100, 24)) as pilot:
            await pilot.press("4", "end")
            await pilot.pause()
            assert any(line.startswith("t99 ") for line in shown(app))
            assert "82-100 of 100" in shown(app)[-1]
            await pilot.press("home", "slash", *"T9")
            await pilot.pause()
            rows = [line for line in shown(app) if " site-" in line]
            assert {row.split()[0] for row in rows} == {"t9", *(f"t{n}" for n in range(90, 100))}
            await pilot.press("enter", "s", "r")
            await pilot.pause()
            rows = [line for line in shown(app) if " site-" in line]
            assert rows[0].startswith("t99 ")
            assert "find 'T9'" in shown(app)[-1]
            await pilot.press("escape")
            await pilot.pause()
            assert "of 100" in shown(app)[-1]


async def test_a_resized_terminal_is_drawn_anew(engine: Engine) -> None:
    engine.start_all()
    with FollowedRun(engine.run) as followed:
        app = WatchApp(RunObserver(followed))
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.resize_terminal(160, 50)
            await pilot.pause()
            text = shown(app)
            assert len(text) == 50
            assert max(map(len, text)) > 100


async def test_a_damaged_log_ends_the_display_with_its_error(engine: Engine) -> None:
    with FollowedRun(engine.run) as followed:
        app = WatchApp(RunObserver(followed))
        async with app.run_test(size=(80, 24)):
            engine.store.next_seq += 5
            engine.log(ev.CancelAsked(BEGIN_S + 60, "drain"))
            app.refresh_look()
    assert "are missing" in str(app.return_value)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_overview_shows_tasks_against_their_expected_times(
    engine: Engine, size: tuple[int, int]
) -> None:
    engine.start_all()
    with FollowedRun(engine.run) as followed:
        app = WatchApp(RunObserver(followed))
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            text = shown(app)
    place = next(n for n, line in enumerate(text) if line.startswith("100 running  "))
    assert "1:00 ■" in text[place + 1]  # expected
    assert any("last events, latest first" in line for line in text) is (size[0] == 120)


async def test_sites_that_idle_for_one_reason_are_counted_where_names_do_not_fit(
    engine: Engine,
) -> None:
    keys = engine.start_all()
    engine.log(*(ev.AttemptEnded(BEGIN_S + 50, key, Outcome("done")) for key in keys[:60]))
    for site in range(30):
        engine.log(ev.SiteHeld(BEGIN_S + 51, site))
    with FollowedRun(engine.run) as followed:
        app = WatchApp(RunObserver(followed))
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            assert "30 sites: paused by the user" in shown(app)


@pytest.mark.parametrize("size", [(80, 24), (40, 30)])
async def test_all_keys_are_shown_on_request(engine: Engine, size: tuple[int, int]) -> None:
    with FollowedRun(engine.run) as followed:
        app = WatchApp(RunObserver(followed))
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            assert "? keys" in shown(app)[-1]
            for key, again in (("2", "question_mark"), ("3", "escape"), ("4", "5")):
                await pilot.press(key, "question_mark")
                await pilot.pause()
                text = "\n".join(shown(app))
                assert "cancel the marked task" in text
                assert "q, Ctrl-C" in text
                await pilot.press(again)
                await pilot.pause()
                assert "cancel the marked task" not in "\n".join(shown(app))


async def test_long_events_go_on_in_the_next_line(engine: Engine) -> None:
    keys = engine.start_all()
    message = "a message with many words " * 8 + "and an end"
    engine.log(ev.AttemptEnded(BEGIN_S + 50, keys[3], Outcome("exit", 1, message=message)))
    with FollowedRun(engine.run) as followed:
        app = WatchApp(RunObserver(followed))
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("8")
            await pilot.pause()
            text = shown(app)
            assert all(len(line) <= 80 for line in text)
            assert not any("…" in line for line in text)
            assert any(line.startswith(" " * 11) and "many words" in line for line in text)
            last = " ".join(RunObserver(followed).look().events[-1].split())
            assert len(last) > 80
            assert last in " ".join(" ".join(text).split())


async def test_bars_use_a_wide_terminal(engine: Engine) -> None:
    engine.start_all()
    with FollowedRun(engine.run) as followed:
        app = WatchApp(RunObserver(followed))
        async with app.run_test(size=(200, 50)) as pilot:
            await pilot.pause()
            (line,) = [line for line in shown(app) if line.startswith("survey ")]
            assert len(line) > 110
