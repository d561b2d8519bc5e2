"""``wfrun sites links``, and what a simulation takes from the same history."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.runners.harness import User
from wfrun.engine.files.link_samples import LinkSample
from wfrun.engine.model import Access, LinkSpec, SiteSpec
from wfrun.parsers.generate import generate
from wfrun.parsers.workflows.writers.write_dax import write_dax
from wfrun.runners.admin.links.link_table import FoundLink, LinkNow, ago, keep, links_now
from wfrun.runners.admin.links.links import Measured
from wfrun.runners.run.history.history_file import HistoryFile, history_file
from wfrun.runners.run.history.link_history import PlacePair, load_links, write_links
from wfrun.sites.catalog import read_catalog

CATALOG = """\
sites:
  one: {kind: ssh, host: one.org, user: ann, slots: 4}
  two: {kind: ssh, host: two.org, slots: 4}
  here: {slots: 2}
links:
  - {from: origin, to: two, bandwidth: 3 MB/s, latency: 5 ms}
  - {from: two, to: one, bandwidth: 2 MB/s}
"""


@pytest.fixture
def catalog(user: User) -> str:
    (user.folder / "sites.yaml").write_text(CATALOG)
    return "sites.yaml"


def learn(source: str, destination: str, copies: int = 4, rate: float = 7e6) -> None:
    """Fill the history of the user."""
    history = history_file(None)
    assert history is not None
    now_s = time.time()
    small = [LinkSample(now_s - 7300 - n, 10, 0.25) for n in range(copies)]
    large = [LinkSample(now_s - 7300 - n, 10**7, rate) for n in range(copies)]
    write_links(history, {PlacePair(source, destination): ([*small, *large], "stream")})


def test_the_table_says_where_each_figure_is_from(user: User, catalog: str) -> None:
    here = socket.gethostname()
    learn(here, "ann@one.org")
    learn("@two.org", "ann@one.org", copies=2)  # too few
    done = user.wfrun("sites", "links", "--sites", catalog)
    assert done.status == 0, done.text
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0] == ["from", "to", "latency", "MB/s", "method", "known", "from", "latest"]
    assert [line[:2] for line in lines[1:5]] == [
        ["origin", "one"], ["origin", "two"], ["origin", "here"], ["one", "origin"]
    ]  # fmt: skip
    rows = {(line[0], line[1]): line[2:] for line in lines[1:]}
    learned = ["250", "ms", "7", "stream", "8", "copies", "2", "h", "ago"]
    assert rows["origin", "one"] == rows["here", "one"] == learned
    assert rows["origin", "two"] == ["5", "ms", "3", "-", "catalog", "-"]
    assert rows["two", "one"][:4] == ["0", "ms", "2", "stream"]
    assert rows["one", "two"] == ["-", "100", "-", "assumed", "-"]
    assert rows["origin", "here"] == ["-", "-", "-", "same", "host", "-"]
    assert len(rows) == 12


def test_the_table_as_json_and_without_a_history(user: User, catalog: str) -> None:
    learn(socket.gethostname(), "ann@one.org")
    words = ("sites", "links", "--sites", catalog, "--json")
    rows = {(r["source"], r["destination"]): r for r in json.loads(user.wfrun(*words).out)}
    row = rows["origin", "one"]
    assert row["bandwidth_bytes_per_s"] == 7e6
    assert (row["latency_s"], row["method"], row["known_from"]) == (0.25, "stream", ["history"])
    rows = {
        (r["source"], r["destination"]): r
        for r in json.loads(user.wfrun(*words, "--no-history").out)
    }
    assert rows["origin", "one"]["known_from"] == ["assumed"]


def test_sites_that_cannot_be_reached_are_not_measured(user: User) -> None:
    """Each site has one reason for all of its links."""
    text = "sites:\n" + "".join(
        f"  {name}: {{kind: ssh, host: 127.0.0.1, port: {port}, directory: ~/{name}, slots: 1}}\n"
        for name, port in (("one", 1), ("two", 2))
    )
    (user.folder / "sites.yaml").write_text(text)
    done = user.wfrun("sites", "links", "--measure")
    assert done.status == 1
    reasons = [line for line in done.out.splitlines() if "measured: " in line]
    assert len(reasons) == 2, done.text
    assert reasons[0].startswith("3 links of one were not measured: 127.0.0.1 cannot be reached")
    assert reasons[1].startswith("3 links of two were not measured: 127.0.0.1 cannot be reached")


def test_a_simulation_takes_links_that_the_catalog_lacks(user: User, catalog: str) -> None:
    learn(socket.gethostname(), "ann@one.org")
    learn(socket.gethostname(), "@two.org")  # the catalog has it
    write_dax(generate("montage", 20, 1), user.folder / "m.dax")
    words = ("simulate", "m.dax", "--sites", catalog, "-p", "file-aware")
    done = user.wfrun(*words)
    assert done.status == 0, done.text
    said = " ".join(done.err.split())
    assert "links that earlier runs have learned: origin to one and 1 more;" in said
    without = user.wfrun(*words, "--overheads", "none")
    assert "earlier runs" not in without.err

    def makespan_s(text: str) -> float:
        return float(text.splitlines()[1].split()[1].replace(",", ""))

    assert makespan_s(done.out) > makespan_s(without.out)


def test_a_link_too_slow_for_several_copies_is_known_as_slow(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "history")
    sites = [SiteSpec("one", 1, kind="ssh", access=Access(hosts=("one.org",)))]
    samples = [LinkSample(10.0, 1000, 2.0), LinkSample(20.0, 131_072, 5e4)]
    keep(history, sites, [Measured(LinkSpec("origin", "one", 5e4, 2.0), "stream", samples)])
    (link,) = (load_links(history) or {}).values()
    assert (link.bandwidth_bytes_per_s, link.latency_s, link.at_s) == (5e4, 2.0, 20.0)


def test_measured_figures_are_those_that_the_next_run_assumes(user: User) -> None:
    (user.folder / "sites.yaml").write_text(CATALOG)
    catalog = read_catalog(user.folder / "sites.yaml")
    small = [LinkSample(10.0 + n, 1000, 0.01 * n) for n in (1, 2, 3)]
    large = [LinkSample(20.0 + n, 10**6, 1e6 * n) for n in (1, 2, 9)]
    way = Measured(LinkSpec("origin", "one", 9e6, 0.02), "stream", [*small, *large])
    ends = (way.link.source, way.link.destination)
    history = HistoryFile(user.folder / "history")

    def shown(found: FoundLink) -> LinkNow:
        rows = links_now(catalog, load_links(history) or {}, found)
        return next(row for row in rows if (row.source, row.destination) == ends)

    now = shown(FoundLink({ends: way}, {}))
    keep(history, catalog.sites, [way])
    later = shown(FoundLink({}, {}))
    assert now.known_from == ("measured",)
    assert later.known_from == ("history",)
    assert (now.bandwidth_bytes_per_s, now.latency_s) == (2e6, 0.02)
    assert replace(later, known_from=now.known_from) == replace(now, latest_s=later.latest_s)


def test_times_in_words() -> None:
    assert [ago(s) for s in (-5, 59, 60, 7199, 7200, 86400 * 3)] == [
        "now", "now", "1 min ago", "1 h ago", "2 h ago", "3 d ago"
    ]  # fmt: skip
