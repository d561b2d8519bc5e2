"""The description of the options of a run, and the checks made from it."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from wfrun.engine.errors import InvalidError
from wfrun.engine.settings import Settings, all_settings, as_flag, make_settings


def test_every_option_is_described_and_its_default_is_valid() -> None:
    for name in Settings.__struct_fields__:
        setting = all_settings()[name]
        assert setting.option.help.endswith(".")
        assert setting.option.section
        assert setting.option.metavar or setting.choices or setting.type is bool
        assert setting.default is None or setting.problem(setting.default) is None
    assert make_settings({}) == Settings()
    flags = [setting.flag for setting in all_settings().values()]
    assert len(set(flags)) == len(flags)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"retries": -1}, "--retries is -1, but must be at least 0"),
        ({"retries": 1.5}, "--retries is 1.5, but must be a whole number"),
        ({"retries": True}, "--retries is True, but must be a whole number"),
        ({"retry_delay_s": -0.5}, "--retry-delay is -0.5 s, but must be at least 0 s"),
        ({"retry_delay_s": math.nan}, "--retry-delay is nan, but must be at least 0"),
        ({"retry_delay_s": math.inf}, "--retry-delay is inf, but must be a finite number"),
        ({"retry_delay_s": "1"}, "--retry-delay is '1', but must be a number"),
        ({"replica_share": 1.01}, "--replica-share is 1.01, but must be from 0 to 1"),
        ({"replication": "all"}, "--replication is 'all', but must be idle or stragglers"),
        ({"policy": 1}, "--policy is 1, but must be a text"),
        ({"policy_options": [1]}, "--policy-option is [1], but must be a mapping"),
        ({"emulate": 1}, "--emulate is 1, but must be True or False"),
        ({"size_scale": 2}, "--size-scale has no effect without --emulate"),
    ],
)
def test_a_wrong_value_is_refused_under_the_name_that_the_user_writes(
    given: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidError) as refused:
        make_settings(given, as_flag)
    assert refused.value.message.startswith(problem)
    with pytest.raises(InvalidError) as refused:
        make_settings(given)
    (name,) = given
    said, _, _ = problem.removeprefix(all_settings()[name].flag).partition(" without ")
    assert refused.value.message.startswith(name + said)


def test_bounds_themselves_and_numbers_of_the_other_type_are_accepted() -> None:
    given = {"retries": 0, "retry_delay_s": 0, "replica_share": 1, "throttle": 1, "seed": -1}
    assert make_settings(given) == Settings(**given)  # type: ignore[arg-type]
    assert make_settings({"emulate": True, "time_scale": 2}).time_scale == 2


def test_none_is_the_default_and_other_names_are_refused() -> None:
    assert make_settings({"policy_options": None, "retries": None}) == Settings()
    with pytest.raises(TypeError, match="retrys"):
        make_settings({"retrys": 1})


def test_a_log_with_a_value_out_of_bounds_can_be_read() -> None:
    read = msgspec.json.decode(b'{"policy": "x", "retries": -1}', type=Settings)
    assert (read.policy, read.retries) == ("x", -1)
