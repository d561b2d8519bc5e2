"""``wfrun watch``: a run that goes on, seen from terminals and pipes of its own."""

from __future__ import annotations

import pytest

from tests.runners.harness import WFRUN, Job, User, wait_until
from tests.runners.terminal import Terminal

ALTERNATE, NORMAL = "\x1b[?1049h", "\x1b[?1049l"
"""What switches a terminal to the screen of an application, and back."""


@pytest.mark.slow
def test_watching_ends_alone(user: User) -> None:
    """By a key, Ctrl-C and a hangup; then from a pipe and a dumb terminal to the end of the run."""
    go = user.folder / "go"
    script = f"echo x > {user.folder}/begun; until test -e {go}; do sleep 0.1; done"
    engine = user.start(user.write([Job("job-a", script)]), "--run-dir", "run")
    assert wait_until((user.folder / "begun").exists), engine.told
    watchers = [Terminal(user, 80, "watch", "run") for _ in range(3)]
    for watcher in watchers:
        assert wait_until(lambda w=watcher: "1overview" in w.text), watcher.drawn  # type: ignore[misc]
        assert ALTERNATE in watcher.drawn
    watchers[0].type(b"4")
    assert wait_until(lambda: "job-a" in watchers[0].text), watchers[0].drawn
    watchers[0].type(b"q")
    watchers[1].type(b"\x03")
    assert [watcher.done() for watcher in watchers[:2]] == [0, 0]
    assert all(NORMAL in watcher.drawn for watcher in watchers[:2])
    watchers[2].close()
    dumb = Terminal(user, 80, "watch", "run", argv=["env", "TERM=dumb", str(WFRUN)])
    pipe = user.start("watch", "run")
    assert not engine.ended
    go.touch()
    assert engine.done().status == 0
    done = pipe.done()
    assert done.status == 0
    assert done.out.startswith("done: 1/1 tasks done")
    assert dumb.done() == 0
    assert "\x1b" not in dumb.drawn


@pytest.mark.slow
def test_no_color(user: User) -> None:
    """Of a run that has ended."""
    assert user.wfrun(user.write([Job("a", "exit 1")]), "--run-dir", "run", "--retries", "0").status
    plain = Terminal(user, 80, "watch", "run", argv=["env", "NO_COLOR=1", str(WFRUN)])
    coloured = Terminal(user, 80, "watch", "run")
    for watcher in (plain, coloured):
        assert wait_until(lambda w=watcher: "1overview" in w.text), watcher.drawn  # type: ignore[misc]
        watcher.type(b"q")
        assert watcher.done() == 0
        assert "failed" in watcher.text
    assert "\x1b[31m" in coloured.drawn or ";31m" in coloured.drawn
    assert not any(f"{code}m" in plain.drawn for code in range(31, 38))


def test_a_run_that_is_not_there(user: User) -> None:
    done = user.ask("watch", "nothing")
    assert done.status == 2
    assert "nothing" in done.err
