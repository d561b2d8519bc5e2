"""Writes generated workloads as bag documents whose command, ``sleep``, really runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from wfrun.engine.errors import InvalidError
from wfrun.parsers.atomic import replacing
from wfrun.parsers.generate.bot_workload import BotWorkload, SubmittedBag
from wfrun.parsers.logs.write_swf import number_text

_COMMAND = "command: sleep {runtime}"


def write_bags(workload: BotWorkload, path: str | Path) -> None:
    """Write all bags as one YAML document (docs/bags.md), in order of arrival.

    Each task sleeps for its run time on the reference processor. The document states the owner, the
    application and, if they differ from the run times, the estimates of each bag. It has no keys
    for arrival times and clusters, so these are comments.

    Raises InvalidError when ``path`` cannot be written.
    """
    with replacing(path) as stream:
        stream.write(f"# {len(workload.bags)} bags of {workload.tasks} tasks: {workload.source}\n")
        stream.write(f"{_COMMAND}\nbags:\n")
        for number, bag in enumerate(workload.bags, 1):
            comment, *lines = _lines(workload, number, bag)
            stream.write(f"  {comment}\n  - {lines[0]}\n")
            stream.writelines(f"    {line}\n" for line in lines[1:])


def write_bag_files(workload: BotWorkload, folder: str | Path) -> None:
    """Write each bag as a document of its own, ``bag-00001.yaml`` and so on, into ``folder``.

    The folder is created. Raises InvalidError when a document cannot be written.
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidError(
            f"cannot be made: {error.strerror}",
            source=str(folder),
            hint="Give a folder where you can write.",
        ) from error
    for number, bag in enumerate(workload.bags, 1):
        with replacing(target / f"{_name(number)}.yaml") as stream:
            comment, *lines = _lines(workload, number, bag)
            stream.writelines(f"{line}\n" for line in (comment, *lines, _COMMAND))


def _name(number: int) -> str:
    return f"bag-{number:05}"


def _lines(workload: BotWorkload, number: int, bag: SubmittedBag) -> Iterator[str]:
    """Yield a comment and the keys of a bag's document, except the command."""
    cluster = workload.clusters[bag.cluster]
    yield f"# arrives at {number_text(bag.arrival_s)} s at {' '.join(cluster.split())}"
    yield f"bag: {_name(number)}"
    yield f"owner: {json.dumps(bag.user)}"
    yield f"application: {json.dumps(bag.application)}"
    runtimes = f"runtime: [{', '.join(map(number_text, bag.runtime_s))}]"
    if bag.estimate_s == bag.runtime_s:
        yield 'estimate: "{runtime}"'
        yield "parameters:"
        yield f"  {runtimes}"
    else:
        yield 'estimate: "{estimate}"'
        yield "parameters:"
        yield "  task:"
        yield "    zip:"
        yield f"      {runtimes}"
        yield f"      estimate: [{', '.join(map(number_text, bag.estimate_s))}]"
