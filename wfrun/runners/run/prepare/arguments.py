"""Keyword arguments of functions that take the options of a run. `wfrun.engine.settings.Settings`
describes each; ``make options`` writes this file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict


class SimulateArguments(TypedDict, total=False):
    """Options that the runs of an experiment have in common."""

    policy_options: Mapping[str, int | float | str]
    predictor: Literal["es", "rm", "sm", "last", "last2", "auto"]
    retries: int
    retry_delay_s: float
    on_failure: Literal["continue", "stop"]
    replicas: int | None
    replication: Literal["idle", "stragglers"]
    replica_share: float
    straggler_quantile: float
    straggler_factor: float
    scavenge: Literal["persite", "all"] | None
    most_scavengers: int | None
    preempt: str


class RunArguments(SimulateArguments, total=False):
    """The other options of a real run."""

    policy: str
    selection: str
    throttle: int | Literal["auto", "none"] | None
    seed: int
    wait: bool
    emulate: bool
    time_scale: float
    size_scale: float
    pack_logs: bool
    max_log_bytes: int | None
    checksums: Literal["copies", "all", "off"]
    keep: Literal["all", "outputs", "failed"]
    input_catalog: str
    allow_urls: str
    metrics_file: str
    on: Mapping[Literal["finished", "failed", "needs-login", "stalled"], str]
    stalled_after_s: float


class ResumeArguments(TypedDict, total=False):
    """Options that a resume can change."""

    policy: str
    policy_options: Mapping[str, int | float | str]
    throttle: int | Literal["auto", "none"] | None
    retries: int
    retry_delay_s: float
    on_failure: Literal["continue", "stop"]
    replicas: int | None
    replication: Literal["idle", "stragglers"]
    replica_share: float
    straggler_quantile: float
    straggler_factor: float
    keep: Literal["all", "outputs", "failed"]
    metrics_file: str
    on: Mapping[Literal["finished", "failed", "needs-login", "stalled"], str]
    stalled_after_s: float
    most_scavengers: int | None
    preempt: str
