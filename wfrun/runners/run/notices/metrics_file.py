"""The metrics file of a run for Prometheus, in the text format that the textfile collector of
node_exporter reads.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4, and
https://prometheus.io/docs/practices/naming/ for names and units.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from wfrun.engine.capabilities.notifications import Notifications
from wfrun.engine.core.state import Phase, RunState, SiteState, TaskStatus
from wfrun.engine.errors import InvalidError
from wfrun.engine.explain.visible import name_line
from wfrun.engine.settings import Settings
from wfrun.parsers.atomic import write_file

_LOGGER = logging.getLogger(__name__)
INTERVAL_S = 15.0
"""Interval between two writes, in seconds: the usual scrape interval of Prometheus."""
FIRST_S = 1.0
"""Delay of the first write, in seconds."""

Labels = tuple[tuple[str, str], ...]
Samples = Iterator[tuple[Labels, float]]


class Metric(NamedTuple):
    """A metric family of Prometheus: samples of one name, with different labels."""

    name: str
    type: Literal["gauge", "counter"]
    help: str
    samples: Callable[[RunState], Samples]


def _one(value: Callable[[RunState], float]) -> Callable[[RunState], Samples]:
    def samples(state: RunState) -> Samples:
        yield (), value(state)

    return samples


def _by_site(value: Callable[[SiteState], float]) -> Callable[[RunState], Samples]:
    def samples(state: RunState) -> Samples:
        for site in state.sites:
            yield (("site", site.spec.name),), value(site)

    return samples


def _states(state: RunState) -> Samples:
    for name in ("running", "done", "failed", "cancelled"):
        yield (("state", name),), float((state.ended or "running") == name)


def _tasks(state: RunState) -> Samples:
    for status in TaskStatus:
        yield (("status", status.name.lower()),), state.counts[status]


def _attempts(state: RunState) -> Samples:
    for site in state.sites:
        for phase in Phase:
            labels = (("site", site.spec.name), ("phase", phase.name.lower()))
            yield labels, site.phases[phase]


def _ended(state: RunState) -> Samples:
    for site in state.sites:
        for outcome, count in (("done", site.done), ("failed", site.failed)):
            yield (("site", site.spec.name), ("outcome", outcome)), count


def _used_cores(state: RunState) -> Samples:
    used = [0] * len(state.sites)
    for attempt in state.attempts.values():
        used[attempt.site] += attempt.cores if attempt.phase is Phase.RUNNING else 0
    for site, cores in zip(state.sites, used, strict=True):
        yield (("site", site.spec.name),), cores


def _logins(state: RunState) -> Samples:
    logins = state.get(Notifications).logins
    for index, site in enumerate(state.sites):
        yield (("site", site.spec.name),), float(index in logins)


METRICS = (
    Metric("wfrun_run_start_time_seconds", "gauge", "Start of the run, since the epoch.",
           _one(lambda state: state.started_s)),
    Metric("wfrun_run_last_event_time_seconds", "gauge", "Last event of the run, since the epoch.",
           _one(lambda state: state.now_s)),
    Metric("wfrun_run_state", "gauge", "1 for the state that the run is in.", _states),
    Metric("wfrun_tasks", "gauge", "Tasks by status; delayed ones wait to be tried again.", _tasks),
    Metric("wfrun_retries_total", "counter", "Attempts that were tried again.",
           _one(lambda state: state.retried)),
    Metric("wfrun_site_open", "gauge", "Whether the site gets tasks.",
           _by_site(lambda site: float(site.is_healthy))),
    Metric("wfrun_site_needs_login", "gauge", "Whether the site waits for its user.", _logins),
    Metric("wfrun_site_slots", "gauge", "Cores that tasks of the run could use now.",
           _by_site(lambda site: site.slots_now)),
    Metric("wfrun_site_used_cores", "gauge", "Cores of tasks that run.", _used_cores),
    Metric("wfrun_site_attempts", "gauge", "Open attempts by phase.", _attempts),
    Metric("wfrun_site_ended_attempts_total", "counter", "Attempts that ended.", _ended),
    Metric("wfrun_site_core_seconds_total", "counter", "Core seconds that attempts used.",
           _by_site(lambda site: site.used_core_s)),
    Metric("wfrun_site_received_files_total", "counter", "Files copied to the site.",
           _by_site(lambda site: site.transfers_in)),
    Metric("wfrun_site_received_bytes_total", "counter", "Bytes copied to the site.",
           _by_site(lambda site: site.bytes_in)),
    Metric("wfrun_site_head_node_commands_total", "counter", "Commands run on the head node.",
           _by_site(lambda site: site.commands.total())),
    Metric("wfrun_site_head_node_cpu_seconds_total", "counter", "CPU time used on the head node.",
           _by_site(lambda site: site.head_cpu_s)),
)  # fmt: skip
"""All metrics, as docs/metrics-file.md lists them. Each sample also has the label ``run``."""


def as_text(state: RunState, run: str) -> str:
    """The metrics of a run in Prometheus's text format."""
    lines = []
    for metric in METRICS:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.type}"]
        for labels, value in metric.samples(state):
            named = ",".join(f'{name}="{_escaped(text)}"' for name, text in (("run", run), *labels))
            lines.append(f"{metric.name}{{{named}}} {value!r}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return name_line(text).replace("\\", "\\\\").replace('"', '\\"')


def check_metrics_file(settings: Settings) -> None:
    """Raise InvalidError if the settings name a metrics file that cannot be written."""
    path = Path(settings.metrics_file)
    if not settings.metrics_file:
        return
    try:
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a directory")
        with contextlib.suppress(FileNotFoundError):
            os.lstat(path)  # a name that is too long
        tempfile.TemporaryFile(dir=path.parent).close()
    except (OSError, ValueError) as error:
        raise InvalidError(
            f"--metrics-file cannot be written: {error}",
            hint="name a file in a folder that you may write to",
        ) from error


class MetricsFile:
    """Writes the metrics file while a run is driven. If the file cannot be written, warns once."""

    def __init__(self, state: RunState, run: str) -> None:
        self._state, self._run = state, run
        self._has_failed = False

    async def watch(self) -> None:
        """Write after `FIRST_S`, then every `INTERVAL_S`, and once more when cancelled."""
        delay_s = FIRST_S
        try:
            while True:
                await asyncio.sleep(delay_s)
                self._write()
                delay_s = INTERVAL_S
        finally:
            self._write()

    def _write(self) -> None:
        """Replace the file atomically, if the settings name a file and the run has begun."""
        path = Path(self._state.settings.metrics_file)
        if not self._state.settings.metrics_file or not self._state.run_id:
            return
        try:
            write_file(path, as_text(self._state, self._run).encode())
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                _LOGGER.warning("the metrics file cannot be written: %s", error)
