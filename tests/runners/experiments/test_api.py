"""`wfrun.simulate`: experiments from Python."""

from __future__ import annotations

from inspect import signature
from math import inf
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest
from rich.console import Console

import wfrun
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Catalog, LinkSpec, SiteSpec
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.placement.round_robin import RoundRobin
from wfrun.engine.policies.policy_error import PolicyError
from wfrun.runners.cli.simulate.simulate import simulate as command
from wfrun.runners.experiments.api import _FLAGS
from wfrun.runners.experiments.concerns import CONCERNS
from wfrun.runners.experiments.tables.parts import LoadTables, size_table
from wfrun.runners.experiments.tables.table import ResultTable

CATALOG = Catalog(
    (SiteSpec("near", slots=4), SiteSpec("far", slots=8, speed_ratio=2.0)),
    (LinkSpec("near", "far", 1e7, 0.01), LinkSpec("far", "near", 1e7, 0.01)),
)
SOUND = {
    "makespan_s": 9.0, "nsl": 2.0, "failed": 0, "failure": None, "class_nsl": (2.0,) * 10,
    "class_makespan_s": (9.0,) * 10,
}  # fmt: skip
"""Measures of a run that finished."""
MONTAGE = wfrun.generate("montage", 30, seed=1)


def test_a_policy_that_raises_is_among_the_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(RoundRobin):
        name = "broken"

        def place(self, *_: object) -> NoReturn:
            raise KeyError("no such site")

    monkeypatch.setitem(PLACEMENT, "broken", Broken)
    result = wfrun.simulate(MONTAGE, sites=CATALOG, policy=["broken", "heft"], jobs=1)
    assert [row.policy for row in result.rows] == ["heft"]
    assert any("policy 'broken' raised KeyError: 'no such site'" in w for w in result.warnings)
    with pytest.raises(PolicyError, match="policy 'broken' raised"):
        wfrun.simulate(MONTAGE, sites=CATALOG, policy="broken", jobs=1)


def test_a_run_that_did_not_finish_has_no_makespan_and_is_never_the_best(tmp_path: Path) -> None:
    """It would look fastest: it ended early."""
    result = wfrun.simulate(
        MONTAGE, sites=CATALOG, policy=["heft", "round-robin"], failure_rate=0.05, retries=0,
        seeds=8, output=tmp_path / "rows.csv", jobs=1,
    )  # fmt: skip
    failed = [row for row in result.rows if row.failed]
    assert failed
    assert all(row.makespan_s is None and row.nsl is None for row in failed)
    assert all(row.makespan_s for row in result.rows if not row.failed)
    with pytest.raises(InvalidError, match="tasks failed under all of them"):
        result.best()
    sound = next(row for row in result.rows if row.makespan_s)
    other = msgspec.structs.replace(failed[0], policy="ect", seed=sound.seed)
    console = Console(width=200)
    with console.capture() as shown:
        console.print(ResultTable([other, msgspec.structs.replace(sound, policy="heft")]))
    assert other.failure is not None
    assert other.failure.startswith(f"{other.failed} of 30 tasks ")
    heading, first, last, *_ = shown.get().splitlines()
    assert heading.split()[:4] == ["policy", "makespan", "s", "vs"]
    assert first.split()[0] == "heft"
    assert first.split()[2] == "best"
    assert last.split()[:4] == ["ect", "-", "-", "-"]
    assert f"ect did not finish: {other.failure}" in shown.get()


def test_policies_and_throttles_are_compared() -> None:
    result = wfrun.simulate(
        MONTAGE, sites=CATALOG, policy=["heft", "round-robin"], throttle=[None, 1], seeds=2
    )
    assert len(result.rows) == 8
    assert {(row.policy, row.throttle) for row in result.rows} == {
        ("heft", None), ("heft", 1), ("round-robin", None), ("round-robin", 1),
    }  # fmt: skip
    assert result.best().makespan_s == min(row.makespan_s or inf for row in result.rows)
    assert result.best().throttle is None


def test_what_is_simulated_is_what_the_command_simulates(tmp_path: Path) -> None:
    path = tmp_path / "m.dax"
    wfrun.write_dax(MONTAGE, path)
    given = {"sites": CATALOG, "policy": "heft", "output": tmp_path / "out.csv"}
    first = wfrun.simulate(path, **given)  # type: ignore[arg-type]
    assert wfrun.simulate(path, **given).rows == first.rows  # type: ignore[arg-type]
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 2


def test_workloads_of_bags() -> None:
    result = wfrun.simulate(
        "average", sites=CATALOG, tasks=100, policy="fplt", architecture=["csp", "sep-c"], load=0.5
    )
    assert [row.architecture for row in result.rows] == ["csp", "sep-c"]
    assert all(row.done == 100 for row in result.rows)
    assert any("too few" in warning or "cut" in warning for warning in result.warnings)


def test_workloads_of_bags_with_failed_tasks_have_no_makespan() -> None:
    result = wfrun.simulate(
        "average", sites=CATALOG, tasks=100, policy=["fplt", "rr"], load=[0.3, 0.6],
        failure_rate=0.02, retries=0,
    )  # fmt: skip
    bad = [row for row in result.rows if row.failed]
    assert bad
    for row in bad:
        assert (row.makespan_s, row.nsl) == (None, None)
        assert (row.class_nsl, row.class_makespan_s) == ((), ())
        assert row.failure is not None
        assert row.failure.startswith(f"{row.failed} of 100 tasks ")
    good = msgspec.structs.replace(bad[0], policy="rr", **SOUND)
    worse = msgspec.structs.replace(bad[0], policy="fplt", load=0.9)
    other = msgspec.structs.replace(good, policy="fplt")
    console = Console(width=200)
    with console.capture() as shown:
        for part in (LoadTables([good, other, worse, msgspec.structs.replace(worse, policy="rr")]),
                     size_table([good, bad[0]])):  # fmt: skip
            console.print(part)
    text = shown.get()
    assert "fplt load 0.9 did not finish: " in text
    assert "rr load 0.9 did not finish: " in text
    assert "  -" in text


def test_options_of_runs() -> None:
    given = {"sites": CATALOG, "policy": "heft", "failure_rate": 0.3}
    never = wfrun.simulate(MONTAGE, retries=0, **given)  # type: ignore[arg-type]
    assert never.rows[0].failed
    with pytest.raises(wfrun.InvalidError, match="no best variant"):
        never.best()
    assert not wfrun.simulate(MONTAGE, retries=9, **given).rows[0].failed  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("subjects", "options", "message"),
    [
        (("average",), {"runtime_s": 3.0}, "--runtime does not apply to workloads of bags"),
        ((MONTAGE,), {"architecture": "sep-c"}, "--architecture does not apply to documents"),
        ((MONTAGE, "average"), {}, "montage stands for documents, and average for workloads"),
        (("x.swf",), {}, "only `wfrun simulate` prints"),
        ((MONTAGE,), {"retries": -1}, "retries is -1"),
        ((MONTAGE,), {"load": 0.3}, "--load scales a background"),
        ((), {}, "nothing to simulate"),
    ],
)
def test_wrong_arguments_are_refused(
    subjects: tuple[object, ...], options: dict[str, object], message: str
) -> None:
    with pytest.raises(wfrun.InvalidError, match=message):
        wfrun.simulate(*subjects, **options)  # type: ignore[arg-type]


def test_arguments_and_options_are_those_of_the_command() -> None:
    flags = {param.opts[0] for param in command.params}
    arguments = set(signature(wfrun.simulate).parameters) - {"subjects", "options"}
    assert {_FLAGS.get(name, f"--{name.replace('_', '-')}") for name in arguments} <= flags
    assert set(CONCERNS) <= flags
