"""Options of commands: those made from `Settings`, sections and old names."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from wfrun.engine.errors import InvalidError
from wfrun.engine.settings import Settings, all_settings
from wfrun.parsers.syntax.units import parse_duration
from wfrun.runners.cli.options import settings_from, settings_options
from wfrun.runners.cli.run.jobs_command import jobs
from wfrun.runners.cli.run.running import run
from wfrun.runners.cli.sections import SectionedCommand, option


@click.command(cls=SectionedCommand)
@option("--separately", is_flag=True, old_names=("--each",), help="One by one.")
@settings_options("simulate", without=("policy", "seed"))
def simulate(separately: bool, **options: Any) -> None:
    print(separately, settings_from(options, policy="heft", seed=7))


def told(*words: str) -> str:
    done = CliRunner().invoke(simulate, words)
    if isinstance(done.exception, Exception):
        raise done.exception
    return done.output.strip()


def test_options_become_settings() -> None:
    assert told() == f"False {Settings('heft', seed=7)}"
    words = "-O size=5 -O way=a=b --retries 0 --retry-delay 3 --on-failure stop --replica-share 0"
    expected = Settings(
        "heft", {"size": "5", "way": "a=b"}, retries=0, retry_delay_s=3.0, on_failure="stop",
        replica_share=0.0, seed=7,
    )  # fmt: skip
    assert told(*words.split()) == f"False {expected}"


def test_a_command_has_the_options_that_concern_it() -> None:
    names = {param.name for param in simulate.params} - {"separately"}
    settings = all_settings()
    assert names == {n for n, s in settings.items() if s.option.simulate} - {"policy", "seed"}
    assert {"emulate", "pack_logs"}.isdisjoint(names)
    of_jobs = {name for name, setting in settings.items() if setting.option.only_jobs}
    assert set(settings) - of_jobs <= {param.name for param in run.params}
    assert {n for n, s in settings.items() if s.option.jobs} == {
        param.name for param in jobs.params if param.name in settings
    }
    assert {"policy", "replicas"}.isdisjoint(param.name for param in jobs.params)
    assert of_jobs <= {param.name for param in jobs.params}
    assert of_jobs.isdisjoint(param.name for param in run.params)


def test_wrong_values_are_refused_with_the_flag() -> None:
    with pytest.raises(InvalidError, match=r"^--replicas is -2, but must be at least 0"):
        told("--replicas", "-2")
    assert "'soon' cannot be understood" in told("--retry-delay", "soon")
    assert "'size' is not NAME=VALUE" in told("-O", "size")


def test_durations_have_units() -> None:
    settings = all_settings().values()
    assert {setting.name for setting in settings if setting.is_duration} == {
        setting.name for setting in settings if setting.option.metavar == "DURATION"
    }
    for setting in settings:
        if setting.is_duration:
            assert parse_duration(setting.shown_default) == setting.default
    assert all_settings()["stalled_after_s"].shown_default == "1h"
    assert all_settings()["reallocate_gain_s"].shown_default == "60s"
    shown = CliRunner().invoke(jobs, ["--help"]).output
    assert "[default: 1h; x>=1]" in " ".join(shown.split())


def test_an_old_name_works_and_is_not_shown() -> None:
    assert told("--each").startswith("True ")
    assert told("--separately").startswith("True ")
    help_text = told("--help")
    assert "--each" not in help_text
    assert "--separately" in help_text


def test_help_has_sections_and_ends_with_the_others() -> None:
    headings = [line for line in told("--help").splitlines() if line and line[0] != " "]
    assert headings[1:] == ["Scheduling:", "Failures:", "Replicas:", "Other options:"]
