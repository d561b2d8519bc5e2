"""What runs leave of their links for later ones."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.files.link_samples import WINDOW, LinkSample
from wfrun.engine.model import ORIGIN, Access, Catalog, File, LinkSpec, SiteSpec, Task, Workflow
from wfrun.engine.settings import Settings
from wfrun.runners.run.history.history_file import HistoryFile
from wfrun.runners.run.history.link_history import (
    KnownLink,
    PlacePair,
    add_links,
    load_links,
    missing_links,
    place_of,
    read_links,
    write_links,
)

MB = 1_000_000
HERE = socket.gethostname()
SETTINGS = Settings("file-aware")


def ssh_site(name: str, host: str, user: str | None = None) -> SiteSpec:
    return SiteSpec(name, 2, kind="ssh", access=Access(hosts=(host,), user=user))


ALPHA, BETA = ssh_site("alpha", "a.org", "ann"), ssh_site("beta", "b.org")
TO_ALPHA = PlacePair(HERE, "ann@a.org")


def after_run(
    history: HistoryFile, sites: Sequence[SiteSpec] = (ALPHA, BETA), at_s: float = 1000.0,
    bytes_per_s: float = MB,
) -> Core:  # fmt: skip
    """A run that has copied three small and three large files from here to its first site."""
    files = [File(f"f{n}", size_bytes=10 * MB if n % 2 else 10) for n in range(6)]
    workflow = Workflow("w", "w", [Task("t", "x", "x", inputs=tuple(range(6)))], files, [()])
    core = Core({"w": workflow})
    core.step(ev.RunStarted(at_s, "r", SETTINGS, tuple(sites), (), 1, own_outputs=True))
    for event in read_links(history, SETTINGS, Catalog(tuple(sites)), at_s):
        core.step(event)
    core.step(ev.WorkflowAdded(at_s, 0, "w", "w"))
    for file in range(6):
        elapsed_s = 0.5 + (10 * MB / bytes_per_s if file % 2 else 0.0)
        size = files[file].size_bytes or 0
        ended_s = at_s + 100 * (file + 1)
        copied = ev.TransferEnded(ended_s, 0, file, ORIGIN, 0, size, elapsed_s, method="rsync")
        core.step(copied)
    return core


def add(history: HistoryFile, number: int, copies: int) -> None:
    samples = [LinkSample(1000.0 * number + n, 10, 0.5) for n in range(copies)]
    write_links(history, {PlacePair(HERE, f"{number}.org"): (samples, "stream")})


def test_a_run_knows_what_the_one_before_has_seen(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "state" / "history")
    first = after_run(history)
    add_links(history, first.state)
    (read,) = read_links(history, SETTINGS, Catalog((ALPHA, BETA)), 0.0)
    assert read.links == (ev.LinkHistory("origin", "alpha", MB, 0.5, 6),)
    assert known(history)[TO_ALPHA].method == "rsync"
    assert history.path.stat().st_mode & 0o777 == 0o600
    second = after_run(history)
    add_links(history, second.state)
    assert second.state.network.best_source(0b100, 0) == (ORIGIN, 1 / MB, 0.5)


def test_sites_are_known_by_their_hosts_and_not_by_their_names(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "history")
    add_links(history, after_run(history).state)
    other = (ssh_site("alpha", "c.org"), ssh_site("gamma", "a.org", "ann"))
    (read,) = read_links(history, SETTINGS, Catalog(other), 0.0)
    assert [(link.source, link.destination) for link in read.links] == [("origin", "gamma")]
    assert place_of(ssh_site("x", "h", "ann")) != place_of(ssh_site("x", "h", "bob"))
    assert place_of(SiteSpec("local", 2)) == place_of(None) == HERE


def test_runs_that_copy_nothing_between_hosts_read_nothing(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "history")
    add(history, 1, 3)
    assert read_links(history, SETTINGS, Catalog((SiteSpec("here", 2),)), 0.0) == []
    emulated = Settings("file-aware", emulate=True)
    assert read_links(history, emulated, Catalog((ALPHA,)), 0.0) == []


def test_a_link_that_has_changed_is_known_after_some_runs(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "history")
    for number in range(3):
        add_links(history, after_run(history, at_s=1e4 * number).state)
    assert known(history)[TO_ALPHA].bandwidth_bytes_per_s == MB
    for number in range(3, 7):
        add_links(history, after_run(history, at_s=1e4 * number, bytes_per_s=MB / 10).state)
    assert known(history)[TO_ALPHA].bandwidth_bytes_per_s == pytest.approx(MB / 10)


def known(history: HistoryFile) -> dict[PlacePair, KnownLink]:
    found = load_links(history)
    assert found is not None
    return found


def test_what_is_added_twice_counts_once(tmp_path: Path) -> None:
    """As a resumed run does, whose log has the copies of its first part."""
    history = HistoryFile(tmp_path / "history")
    state = after_run(history).state
    add_links(history, state)
    before = known(history)
    add_links(history, state)
    assert known(history) == before


def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = HistoryFile(tmp_path / "history")
    add(history, 1, 10 * WINDOW)
    add(history, 2, 2)
    with closing(sqlite3.connect(history.path)) as db:
        assert db.execute("SELECT count(*) FROM link_copies").fetchone() == (WINDOW + 2,)
    monkeypatch.setattr(
        "wfrun.runners.run.history.link_history._BOUND",
        "DELETE FROM link_copies WHERE rowid NOT IN "
        "(SELECT rowid FROM link_copies ORDER BY at_s DESC LIMIT 5)",
    )
    add(history, 3, 4)
    assert {pair.destination: link.copies for pair, link in known(history).items()} == {
        "3.org": 4, "2.org": 1
    }  # fmt: skip


def test_runs_that_end_at_once_lose_nothing(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "history")
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=add, args=(history, n, 5)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert {pair.destination: link.copies for pair, link in known(history).items()} == {
        f"{n}.org": 5 for n in range(8)
    }


DAMAGE = [
    ("x", "y", "later", 10, 0.5, ""),
    ("x", "y", 2.0, 10, float("inf"), ""),
    ("x", "y", 3.0, 10, 0.0, ""),
    ("x", "y", 4.0, -5, 0.5, ""),
    ("x", "y", 5.0, 10, None, ""),
    (b"\xff", "y", 6.0, 10, 0.5, ""),
    ("x", "y", 7.0, 10, 0.5, b"m"),
]


def test_damaged_copies_are_warned_of_once_and_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    history = HistoryFile(tmp_path / "history")
    add(history, 1, 3)
    with closing(sqlite3.connect(history.path)) as db, db:
        db.executemany("INSERT INTO link_copies VALUES (?, ?, ?, ?, ?, ?)", DAMAGE)
    assert [pair.destination for pair in known(history)] == ["1.org"]
    assert len(caplog.records) == 1
    assert f"{len(DAMAGE)} of its copies are damaged" in caplog.text


def test_a_damaged_file_is_warned_of_once_and_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    history = HistoryFile(tmp_path / "history")
    history.path.write_bytes(os.urandom(5000))
    before = history.path.read_bytes()
    core = after_run(history)
    add_links(history, core.state)
    assert len(caplog.records) == 1
    assert "the history of earlier runs cannot be read" in caplog.text
    assert history.path.read_bytes() == before


def test_a_text_that_is_no_utf8_is_damage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    history = HistoryFile(tmp_path / "history")
    add(history, 1, 3)
    with closing(sqlite3.connect(history.path)) as db, db:
        db.execute("UPDATE link_copies SET method = CAST(X'ff' AS TEXT)")
    assert not load_links(history)
    assert len(caplog.records) == 1


def test_a_catalog_is_completed_by_what_is_known(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "history")
    add_links(history, after_run(history).state)
    catalog = Catalog((ALPHA, BETA))
    link = LinkSpec("origin", "alpha", MB, 0.5)
    assert missing_links(known(history), catalog) == [link]
    how = LinkSpec("origin", "alpha", max_transfers=3)  # it states no speed
    assert missing_links(known(history), replace(catalog, links=(how,))) == [
        replace(link, max_transfers=3)
    ]
    stated = LinkSpec("origin", "alpha", 3.0)
    assert missing_links(known(history), replace(catalog, links=(stated,))) == []


def test_links_between_sites_follow_from_those_to_this_machine(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "history")
    for ends, rate in ((PlacePair("ann@a.org", HERE), 3e6), (PlacePair(HERE, "@b.org"), 2e6)):
        small = [LinkSample(1.0 + n, 10, 0.5) for n in range(3)]
        large = [LinkSample(9.0 + n, 10**7, rate) for n in range(3)]
        write_links(history, {ends: ([*small, *large], "stream")})
    (read,) = read_links(history, SETTINGS, Catalog((ALPHA, BETA)), 0.0)
    assert ev.LinkHistory("alpha", "beta", 2e6, 1.0, 0) in read.links
    assert len(read.links) == 3
    stated = Catalog((ALPHA, BETA), (LinkSpec("alpha", "beta", 9e6),))
    (read,) = read_links(history, SETTINGS, stated, 0.0)
    assert len(read.links) == 2
