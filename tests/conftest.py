"""Settings and fixtures of all tests; marks tests by what they need.

Property tests draw the same examples at every run, so that a failure repeats.
``HYPOTHESIS_PROFILE=explore`` draws others.
"""

from __future__ import annotations

import importlib
import os
import secrets
import signal
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from tests.draw import commit, is_drawn
from tests.network.fixture import _networks, network
from tests.places import CORPUS, ROOT
from tests.servers.fixture import faulty_ssh
from tests.testbed.fixture import _gridftp, _testbed, testbed

__all__ = ["_gridftp", "_networks", "_testbed", "faulty_ssh", "network", "testbed"]

# No deadline: other tests run beside these, so the time of an example says nothing about the code.
settings.register_profile("repeat", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "repeat")
settings.load_profile(_PROFILE)
if _PROFILE == "repeat":
    # Hypothesis also draws the constants of all imported modules of the package. The examples of a
    # test would then depend on the tests beside it, and a test that fails might pass alone.
    pytest.MonkeyPatch().setattr(providers, "is_local_module_file", lambda path: False)

WAITING_WORKERS = 2
"""Worker processes beyond the number of cores, since tests often wait: those of a testbed wait for
its servers nearly all the time."""

SLOW_TIMEOUT_S = 600
"""Timeout of a test of the slow part: real clusters on a busy machine take their time."""

INTEGRATION = ROOT / "tests" / "integration"
SITES = ROOT / "tests" / "sites"

WITH_LAUNCHERS = (INTEGRATION, *(SITES / room for room in ("local", "node")))
"""Rooms of tests that start launchers or jobs with fixed keys of attempts, as those do that stand
in SITES itself. No two of their files have the same keys; see test_marks.py."""


@pytest.fixture(scope="session", autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep runs of fixtures that serve several tests out of the user's index of runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state" / "fixtures"))
        yield


@pytest.fixture(autouse=True)
def _own_environment(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hide the home of the user who runs the tests, whose profile every login shell would run, and
    the runs of other tests."""
    base = tmp_path_factory.getbasetemp()
    (base / "home").mkdir(exist_ok=True)  # One for all tests: matplotlib keeps its fonts there.
    monkeypatch.setenv("HOME", str(base / "home"))
    (base / "xdg").mkdir(mode=0o700, exist_ok=True)  # for sockets, also of engines that are killed
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(base / "xdg"))
    monkeypatch.setenv("XDG_STATE_HOME", str(base / "state" / secrets.token_hex(4)))
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest-xdist sets it, and tables follow it.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape bytes of names that are no UTF-8 in captured output: a worker process of pytest-xdist
    that reports them ends."""
    report = yield
    report.sections = [
        (title, text.encode("utf-8", "backslashreplace").decode())
        for title, text in report.sections
    ]
    return report


def pytest_sessionstart(session: pytest.Session) -> None:
    """Import the modules of all tests in shares, one for each worker process. The first import of
    a module rewrites its assertions and keeps the result, which takes longer than the collection of
    all tests; otherwise each worker would rewrite all of them at the same time."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell ignores SIGINT for its background commands, and programs under test inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers == 1 or session.config.args != session.config.getini("testpaths"):
        return
    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    for path in sorted((ROOT / "tests").rglob("test_*.py"))[number::workers]:
        with suppress(Exception, pytest.skip.Exception):  # Collecting the module shows the error.
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option by which CI runs the slow tests in turns."""
    parser.addoption(
        "--share", type=int, default=1, metavar="N",
        help="Of the tests that `make test` leaves out, run one in N, which the hash of the "
        "commit draws, and all that are marked `always`.",
    )  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that use the testbed or the test network, and skip those that need an absent
    corpus.

    With several worker processes, the tests of a group run in one of them, one after another. Each
    worker has a testbed, and tests that use it are in the group of their file. So are those with
    fixed keys of attempts: a launcher that recovers the attempts of a dead one kills all processes
    with their keys on the machine.
    """
    seen: set[tuple[Path, str]] = set()
    for item in items:
        if item.get_closest_marker("cases") is not None:
            function = item.path, item.nodeid.partition("[")[0]
            if function in seen:
                item.add_marker("slow")
            seen.add(function)
        if _is_below(item.path, INTEGRATION):
            item.add_marker("slow")  # Played back batch systems take as long as real ones.
        with_launchers = item.path.parent == SITES or _is_below(item.path, *WITH_LAUNCHERS)
        group = item.path.stem if with_launchers else None
        if "testbed" in getattr(item, "fixturenames", ()):
            item.add_marker("testbed")
            group = item.path.stem
        if "network" in getattr(item, "fixturenames", ()):
            item.add_marker("testbed")
            group = "network"  # One process has its hosts.
        slow = any(map(item.get_closest_marker, ("slow", "corpus", "testbed")))
        if slow and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_S))
        if group is not None and config.pluginmanager.hasplugin("xdist"):
            item.add_marker(pytest.mark.xdist_group(group))
        if item.get_closest_marker("corpus") is not None and not CORPUS.is_dir():
            item.add_marker(pytest.mark.skip(reason=f"no corpus at {CORPUS} (WFRUN_CORPUS)"))
    _draw(config, items)


def _draw(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the slow tests that the commit does not draw."""
    parts = config.getoption("--share")
    if parts < 1:
        raise pytest.UsageError(f"--share is {parts}, but must be at least 1")
    if parts == 1:
        return
    now, left = commit(), []
    for item in list(items):
        is_slow = any(map(item.get_closest_marker, ("slow", "corpus", "testbed")))
        is_optional = is_slow and item.get_closest_marker("always") is None
        if is_optional and not is_drawn(item.nodeid, now, parts):
            items.remove(item)
            left.append(item)
    config.hook.pytest_deselected(items=left)


@cache
def _is_below(path: Path, *rooms: Path) -> bool:
    return any(path.is_relative_to(room) for room in rooms)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Number of worker processes for ``-n auto``."""
    return len(os.sched_getaffinity(0)) + WAITING_WORKERS
