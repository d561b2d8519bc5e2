"""The formats of files of results before the present one: one without the reasons of failures, one
also without the tasks done later, and the two of before version 0.2, for documents and for
workloads of bags. Such a file is converted when an experiment is continued in it. Runs that did not
finish have no makespan then, as far as they are known by their failed tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from wfrun.parsers.generate.bots import LIKENESS
from wfrun.runners.experiments.cells import Row
from wfrun.runners.experiments.documents import Documents
from wfrun.runners.experiments.experiment import Experiment, label, some
from wfrun.runners.experiments.results import OldFormat
from wfrun.runners.experiments.workloads import Workloads

_OF_DOCUMENTS = (
    "workflows", "sites", "background", "world", "workflow", "policy", "throttle", "load", "seed",
    "makespan_s", "nsl", "qwt_s", "ftd_s", "transfers", "moved_bytes", "core_s", "failed",
    "makespans_s",
)  # fmt: skip
_OF_BAGS = (
    "sites", "workload", "architecture", "selection", "policy", "replicas", "load", "tasks", "seed",
    "arrival", "median_size", "mean_runtime_s", "inaccuracy", "makespan_s", "nsl", "bags", "done",
    "completed_share", "utilization", "replicas_started", "wasted_share", "last_arrival_s",
    "last_end_s", "class_bags", "class_makespan_s", "class_nsl",
)  # fmt: skip


def old_formats(experiment: Experiment) -> tuple[OldFormat, ...]:
    """The earlier formats of this experiment, the latest first. The identity of the first two says
    nothing of settings that could not be chosen then, so that a file with results of other settings
    is refused."""
    latest = (without_failure(Row, experiment.identity()), _without_later(experiment))
    if isinstance(experiment.subject, Documents):
        return (*latest, _of_documents(experiment, experiment.subject))
    return (*latest, _of_bags(experiment))


def without_failure(row: type[Row], identity: Mapping[str, str]) -> OldFormat:
    """The present format before it had the reasons of failures."""
    columns = [name for name in row.__struct_fields__ if name != "failure"]
    return OldFormat((*identity, *columns), identity, _finished)


_OF_FINISHED = ("makespan_s", "nsl", "makespans_s", "class_makespan_s", "class_nsl")
"""Measures that only runs have that finished."""


def _finished(row: dict[str, str]) -> dict[str, str]:
    """The row, without these measures if it has failed tasks."""
    if not float(row["failed"] or 0):
        return row
    return {**row, **dict.fromkeys(_OF_FINISHED, ""), "failure": f"{row['failed']} tasks failed"}


def _without_later(experiment: Experiment) -> OldFormat:
    """The present format before it had the tasks done by twice the time of the last arrival."""
    identity = experiment.identity()
    later = ("completed_later_share", "failure")
    columns = [name for name in Row.__struct_fields__ if name not in later]
    return OldFormat((*identity, *columns), _of_alike(experiment, identity), _finished)


def _of_alike(experiment: Experiment, identity: Mapping[str, str]) -> dict[str, str]:
    """The identity; with a value that no file has if the bags of an application are not alike as
    those of generated workloads were then."""
    subject = experiment.subject
    if not isinstance(subject, Workloads) or subject.likeness == LIKENESS:
        return dict(identity)
    if all(subject.log(label) is not None for label in subject.labels):
        return dict(identity)
    return {**identity, "sites": f"{identity['sites']} with independent bags"}


def _of_documents(experiment: Experiment, documents: Documents) -> OldFormat:
    platform, settings, present = experiment.platform, experiment.settings, experiment.identity()
    content: list[object] = [platform.model, platform.sharing, platform.head_bytes_per_s]
    words = f"{platform.model.lrm} {platform.sharing}"
    (selection,) = experiment.selections if len(experiment.selections) == 1 else (None,)
    if selection is not None or settings.replicas is not None:
        content += [selection or "", settings.replicas]
        words += f" {selection or ''}"
    names = ", ".join(site.name for site in platform.catalog.sites)
    identity = {
        "workflows": "each on its own" if documents.separately else documents.identity,
        "sites": f"{names} #{present['sites'].rpartition('#')[2]}",
        "background": present["background"],
        "world": label(words, content),
    }

    def convert(row: dict[str, str]) -> dict[str, str]:
        row["workload"] = row.pop("workflow")
        row["selection"] = selection or ""
        added = {"architecture": "csp", "arrival": "realistic", "inaccuracy": "0.0"}
        return _finished({**row, **added})

    return OldFormat(_OF_DOCUMENTS, _checked(experiment, identity), convert)


def _of_bags(experiment: Experiment) -> OldFormat:
    sites = experiment.platform.catalog.sites
    known = [(site.name, site.slots, site.speed_ratio) for site in sites]
    digest = hashlib.sha256(msgspec.msgpack.encode(known)).hexdigest()[:10]
    replicas = experiment.settings.replicas
    identity = {
        "sites": f"{some([site.name for site in sites])} #{digest}",
        "replicas": "" if replicas is None else str(replicas),
    }

    def convert(row: dict[str, str]) -> dict[str, str]:
        return {**row, "failed": "0"}

    return OldFormat(_OF_BAGS, _of_alike(experiment, _checked(experiment, identity)), convert)


def _checked(experiment: Experiment, identity: Mapping[str, str]) -> dict[str, str]:
    """The identity, with a value that no file has if the experiment could not be described then."""
    known = {"replicas"}
    model = set()
    if isinstance(experiment.subject, Documents):
        model = set(experiment.platform.model.__struct_fields__) | {"head_bytes_per_s"}
    news = set(experiment.changed()) - known - model
    if not news:
        return dict(identity)
    first = next(iter(identity))
    return {**identity, first: f"{identity[first]} with {', '.join(sorted(news))}"}
