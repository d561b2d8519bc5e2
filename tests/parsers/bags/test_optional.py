"""The key ``optional`` of bags."""

from __future__ import annotations

import re
import time
from datetime import datetime
from pathlib import Path

import pytest

from wfrun import InvalidError, read_workflows
from wfrun.engine.model import Catalog, OptionalTasks, SiteSpec
from wfrun.engine.settings import make_settings
from wfrun.runners.run.prepare.deadlines import time_of_day_deadline
from wfrun.runners.run.prepare.prepare import prepare


def read(folder: Path, optional: str) -> OptionalTasks | None:
    path = folder / "bag.yaml"
    path.write_text(f"bag: a\ncommand: echo\noptional: {optional}\n")
    (workflow,) = read_workflows(path)
    assert workflow.bag is not None
    return workflow.bag.optional


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{min: 3, max: 9, deadline: 08:00}", OptionalTasks(3, 9, until_s=8 * 3600.0)),
        ("{deadline: 18:30}", OptionalTasks(until_s=18.5 * 3600)),  # a number to YAML 1.1
        ("{min: 3, deadline: '8:05'}", OptionalTasks(3, until_s=8 * 3600.0 + 300)),
        ("{min: 1, deadline: 2 h}", OptionalTasks(1, within_s=7200.0)),
        ("{max: 4}", OptionalTasks(0, 4)),
    ],
)
def test_it_is_read(tmp_path: Path, text: str, expected: OptionalTasks) -> None:
    assert read(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{min: 5, max: 3}", "bag.yaml:3: 'optional' of the bag 'a' has min 5, above its max 3"),
        ("{min: 5}", "bag.yaml:3: .* has neither 'deadline' nor 'max'"),
        ("{}", "bag.yaml:3: .* has neither 'deadline' nor 'max'"),
        ("{deadline: 30}", "bag.yaml:3: deadline .* 30 has no unit"),
        ("{deadline: 25:00}", "bag.yaml:3: deadline .* is no time of day"),
        ("{deadline: '24:00'}", "bag.yaml:3: deadline .* is no time of day"),
        ("{deadline: -3 s}", "bag.yaml:3: deadline .* must be above 0"),
        ("{least: 5}", "bag.yaml:3: .* has no key 'least'"),
        ("3", "bag.yaml:3: .* must be a mapping"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        read(tmp_path, text)


def test_a_time_of_day_is_the_next_one(tmp_path: Path) -> None:
    read(tmp_path, "{deadline: 08:00}")
    (workflow,) = read_workflows(tmp_path / "bag.yaml")
    evening, morning = datetime(2026, 3, 2, 19, 0), datetime(2026, 3, 3, 8, 0)
    assert time_of_day_deadline(workflow, evening.timestamp()) == morning.timestamp()
    next_morning = datetime(2026, 3, 4, 8, 0)
    assert time_of_day_deadline(workflow, morning.timestamp()) == next_morning.timestamp()


@pytest.mark.parametrize(
    ("min_", "deadline", "slots", "cores", "now", "expected"),
    [
        (10, "60 s", 2, 1, None, r"bag.yaml:4: .* \(min 10\) of the bag a cannot end"),
        (10, "100 s", 2, 1, None, None),  # 5 rounds of 20 s
        (10, "100 s", 2, 2, None, "is in 100 s: .* they take 200 s on all slots"),
        (1, "19 s", 8, 1, None, "is in 19 s: .* they take 20 s"),  # one task is not divided
        (0, "1 s", 1, 1, None, None),
        (10, "00:01", 2, 1, None, "is in 60 s"),
        (10, "00:01", 2, 1, datetime(2026, 3, 2, 19, 0), None),
        (10, "19:01", 2, 1, datetime(2026, 3, 2, 19, 0), "is in 60 s"),
    ],
)
def test_mandatory_work_that_cannot_end_in_time_is_warned_of(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    min_: int,
    deadline: str,
    slots: int,
    cores: int,
    now: datetime | None,
    expected: str | None,
) -> None:
    """Tasks of 20 s. ``now`` is None in simulations."""
    if now is not None:
        monkeypatch.setattr(time, "time", now.timestamp)
    path = tmp_path / "bag.yaml"
    path.write_text(
        "bag: a\ncommand: sleep {n}\nparameters: {n: {range: [1, 20]}}\n"
        f"optional: {{min: {min_}, deadline: {deadline}}}\nestimate: 20 s\ncores: {cores}\n"
    )
    catalog = Catalog((SiteSpec("one", slots=slots),))
    plan = prepare([path], catalog, make_settings({}), needs_files=now is not None)
    found = [warning for warning in plan.warnings if "deadline" in warning]
    assert len(found) == (expected is not None)
    assert expected is None or re.search(expected, found[0])
