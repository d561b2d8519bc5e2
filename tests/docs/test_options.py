"""What ``make options`` writes is up to date."""

from __future__ import annotations

from inspect import signature
from pathlib import Path

import pytest

import wfrun
from tools.write_options import derived, stale
from wfrun.engine.settings import all_settings


def test_the_derived_files_are_up_to_date(tmp_path: Path) -> None:
    assert stale(derived()) == [], "run `make options`"
    other = tmp_path / "running.md"
    other.write_text("an option less")
    assert stale({other: "an option"}) == [other]


@pytest.mark.parametrize("function", [wfrun.run, wfrun.run_async])
def test_the_signature_names_every_option(function: object) -> None:
    params = signature(function).parameters  # type: ignore[arg-type]
    for setting in all_settings().values():
        if setting.option.only_jobs:
            assert setting.name not in params
            continue
        assert params[setting.name].default == setting.default
