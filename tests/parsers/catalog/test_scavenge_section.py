"""Which idle processors owners may use, in site catalogs: defaults, and what each mistake gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parsers.catalog.test_catalog import written
from wfrun.engine.errors import InvalidError
from wfrun.engine.jobs.scavenging.idleness import ScavengeRules
from wfrun.sites.catalog import read_catalog

CLUSTER = """\
sites:
  alpha:
    kind: slurm
    host: alpha
    slots: 128
"""


def rules(tmp_path: Path, *lines: str) -> ScavengeRules | None:
    text = CLUSTER + "".join(f"    {line}\n" for line in lines)
    return read_catalog(written(tmp_path, text)).sites[0].scavenge


def test_all_keys(tmp_path: Path) -> None:
    found = rules(
        tmp_path, "scavenge:", "  idle_share: 0.2", "  hours: 20:00-08:30", "  queue_empty: true",
        "  most: 64", "  queue: low",
    )  # fmt: skip
    assert found == ScavengeRules(
        idle_share=0.2, hours=(72_000.0, 30_600.0), queue_empty=True, most=64, queue="low"
    )


def test_without_rules(tmp_path: Path) -> None:
    assert rules(tmp_path) is None
    assert rules(tmp_path, "scavenge: {}") == ScavengeRules()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("idle_share: 1.5", "idle_share of the scavenging of site alpha: it must be from 0 to 1"),
        ("hours: night", "it must be two times of the day, such as 20:00-08:00, not night"),
        ("hours: 20", "it must be two times of the day"),
        ("hours: 20:00-24:30", "a day ends at 24:00, and 20:00-24:30 does not"),
        ("hours: 8:00-08:00", "it begins and ends at the same time"),
        ("most: 129", "most of the scavenging of site alpha is 129, but site alpha has 128 slots"),
        ("queue_empty: 3", "queue_empty of the scavenging of site alpha"),
        ("share: 1", "'scavenge' of site alpha has no key 'share'"),
    ],
)
def test_mistakes(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(InvalidError) as caught:
        rules(tmp_path, "scavenge:", f"  {line}")
    assert message in caught.value.message
    assert caught.value.line == 7


def test_sites_without_a_queue_have_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="scavenge"):
        read_catalog(written(tmp_path, "sites:\n  a:\n    slots: 4\n    scavenge: {}\n"))
