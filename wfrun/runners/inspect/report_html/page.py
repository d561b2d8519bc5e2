"""The HTML page of a report. All text of the run passes `escape`."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from html import escape
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import msgspec
from rich.table import Table

from wfrun.engine.core.state import RunState
from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.engine.explain.visible import command_line, message_block, name_line
from wfrun.engine.model import SiteSpec
from wfrun.engine.settings import all_settings
from wfrun.parsers.atomic import write_file
from wfrun.runners.display.counts import counted
from wfrun.runners.display.durations import duration
from wfrun.runners.display.extras import install_command
from wfrun.runners.inspect.failures.failure_report import FailureGroupRecord, failure_records
from wfrun.runners.inspect.report_html.chart import Figure
from wfrun.runners.inspect.report_html.figures import figures
from wfrun.runners.inspect.report_html.gantt import MAX_BARS
from wfrun.runners.inspect.report_html.parts import MAX_STEPS
from wfrun.runners.inspect.statistics.statistics_table import (
    METRICS,
    NEGLIGIBLE,
    has_use,
    notes,
    owner_table,
    site_table,
    step_table,
    type_table,
    use_table,
    wait_table,
    workflow_table,
)
from wfrun.runners.metrics.critical_path import PARTS, CriticalPath
from wfrun.runners.metrics.statistics import RunReading, RunStatistics, read_statistics
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.directory.simulated import SIMULATED_ID
from wfrun.runners.run.prepare.prepare_jobs import has_parallel_jobs

_CAPTIONS = {
    "path": (
        "Critical path",
        "the task that ended last, before it its parent that ended last, and so on: what the time "
        f"from one end to the next went into. Of more than {MAX_STEPS} tasks, sums by type",
    ),
    "plan": (
        "Plan",
        "when each job of the packing was planned to run, from the first start on, on each of its "
        "processors",
    ),
    "gantt": (
        "Attempts by site and slot",
        f"a bar is an attempt; with more than {MAX_BARS}, the share of time for which a slot was "
        "in use. Click a type in the legend to hide it, drag to zoom, double-click for the whole",
    ),
    "activity": ("Tasks over time", "eligible: no site was chosen yet; files or queue: at a site"),
    "sizes": ("Sizes of malleable jobs", "processors that each has, from its start to its end"),
    "cores": ("Utilization", "cores in use by site, one above the other, and cores of all sites"),
    "waits": ("Waits and run times", "means over successful attempts, by type of task"),
    "transfers": ("Files copied", "from the row to the column"),
}
MAX_SITES = 20
"""Maximum number of sites at the top of the page; the table of sites has all."""
_SECURITY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; img-src data: blob:; "
    "form-action 'none'; base-uri 'none'"
)
"""Content Security Policy of the page. The page loads nothing, sends nothing, and runs only its own
scripts, which are allowed by their hashes, even if a name in it contains HTML."""


def write_report(run: RunDir, path: Path, *, replace: bool) -> None:
    """Write the report of a run. An existing file is replaced atomically; without ``replace``, only
    if it is a report of this run. Raises InvalidError for another existing file, InfeasibleError
    without plotly or if the file cannot be written, and what ``await_start`` and ``Store``
    raise."""
    library = _library()
    if not path.parent.is_dir():
        raise InfeasibleError(f"{path} cannot be written: there is no folder {path.parent}")
    reading = read_statistics(run)
    if not replace and not _is_replaceable(path, reading):
        raise InvalidError(
            f"{path} exists, and is no report of the run {name_line(run.name)}",
            hint=f"name another file with -o; `-o {path}` replaces it",
        )
    page = _page(reading, library)
    try:
        write_file(path, page.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise InfeasibleError(f"{path} cannot be written: {error.strerror or error}") from error


def _is_replaceable(path: Path, reading: RunReading) -> bool:
    """Whether a file does not exist or is a report of the same run."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return _identity(reading) in file.read(5000)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _identity(reading: RunReading) -> str:
    """The part of a page that identifies its run. It has the name of the run, too, because all
    simulated runs have the same id."""
    name = escape(name_line(Path(reading.statistics.path).name))
    run_id = escape(name_line(reading.state.run_id))
    return f'<meta name="wfrun-run" content="{run_id}">\n<title>wfrun: {name}</title>'


def _library() -> str:
    """The JavaScript of plotly. Its Python modules are not used."""
    spec = find_spec("plotly")
    if spec is None or not spec.submodule_search_locations:
        raise InfeasibleError(
            "a report needs plotly", hint=f"install it: {install_command('plotly')}"
        )
    folder = Path(spec.submodule_search_locations[0])
    return (folder / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def _page(reading: RunReading, library: str) -> str:
    statistics = reading.statistics
    drawn = figures(reading)
    records = failure_records(Path(statistics.path), reading.state, driven=reading.driven)
    name = escape(name_line(Path(statistics.path).name))
    sections = {
        "summary": ("Summary", _summary(statistics)),
        **{key: (_CAPTIONS[key][0], _chart(key)) for key in drawn},
        "failures": ("Failures", _failures(records)),
        "types": ("Types of tasks", _types(statistics)),
        "use": ("Requested and used", _use(statistics)),
        "sites": ("Sites", _table(site_table(statistics)) + _rows(*_described(reading))),
        "options": ("Options and versions", _options(reading)),
    }
    if not has_use(statistics):
        del sections["use"]
    if statistics.critical_path is not None:
        title, body = sections["path"]
        sections["path"] = title, body + _path(statistics.critical_path)
    links = "".join(f'<a href="#s-{key}">{title}</a> ' for key, (title, _) in sections.items())
    bodies = "".join(
        f'<section id="s-{key}"><h2>{title}</h2>{body}</section>\n'
        for key, (title, body) in sections.items()
    )
    here = files(__package__)
    # As a browser reads it, for which a carriage return is a line end.
    own = (here / "page.js").read_text(encoding="utf-8")
    scripts = [text.replace("\r\n", "\n").replace("\r", "\n") for text in (library, own)]
    # The page inflates the library: 1.9 of 4.8 MB.
    packed = base64.b64encode(gzip.compress(scripts[0].encode(), mtime=0)).decode()
    policy = _SECURITY.format(scripts=" ".join(map(_hash, scripts)))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{_identity(reading)}\n"
        f"<style>{(here / 'page.css').read_text(encoding='utf-8')}</style></head>\n"
        f"<body><h1>{name}: {escape(statistics.state)}</h1>\n{_facts(reading)}"
        f"<nav>{links}</nav>\n{bodies}"
        f'<script type="application/json" id="figures">{_json(drawn)}</script>\n'
        f'<script type="application/gzip;base64" id="library">{packed}</script>\n'
        f"<script>{scripts[1]}</script>\n</body></html>\n"
    )


def _hash(script: str) -> str:
    """The source expression that allows a script in the Content Security Policy.

    Source: https://www.w3.org/TR/CSP3/, section 2.3.1 (hash-source).
    """
    digest = hashlib.sha256(script.encode("utf-8", "backslashreplace")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _facts(reading: RunReading) -> str:
    """When, what and where: the lines below the title."""
    state = reading.state
    sites = [
        f"{name_line(site.name)} ({site.kind}, {counted(site.slots, 'slot')})"
        for site in reading.timings.sites
    ]
    more = f" and {len(sites) - MAX_SITES} more" if len(sites) > MAX_SITES else ""
    begun = "in virtual time"
    if state.run_id != SIMULATED_ID:
        begun = datetime.fromtimestamp(state.started_s).astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return _rows(
        [
            ("started", f"{begun}, took {duration(reading.statistics.elapsed_s)}"),
            ("command", _command(state)),
            ("sites", ", ".join(sites[:MAX_SITES]) + more),
        ]
    ).replace('class="scroll"', 'class="facts"', 1)


def _command(state: RunState) -> str:
    """Return a command line for a run of these documents with the settings of this run. It leaves
    out ``--on``, whose targets may be secrets, and options that are no settings, such as
    ``--sites``."""
    are_jobs = has_parallel_jobs(state)
    words: list[object] = ["wfrun", "jobs" if are_jobs else "run"]
    words += dict.fromkeys(w.workflow.source for w in state.workflows)
    for setting in all_settings().values():
        value = getattr(state.settings, setting.name)
        if value == setting.default or setting.name == "on":  # targets may be secrets
            continue
        flag = "--allocate" if are_jobs and setting.name == "policy" else setting.flag
        if setting.type is Mapping:
            for name, each in value.items():
                words += [flag, f"{name}={each}"]
        else:
            words += [flag, *([] if setting.type is bool else [value])]
    return command_line(*words)


def _json(drawn: dict[str, Figure]) -> str:
    """JSON without ``<``, so that no text in it can end the HTML element that contains it."""
    return json.dumps(drawn, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _chart(key: str) -> str:
    title, note = map(escape, _CAPTIONS[key])
    return (
        f'<p class="note">{note}</p><div class="scroll"><div class="chart" id="{key}" '
        f'role="figure" aria-label="Chart: {title}"></div></div>'
    )


def _rows(
    rows: Iterable[tuple[str, ...]], head: tuple[str, ...] = (), numbers: Collection[int] = ()
) -> str:
    """A table whose cells are all text. ``numbers`` are the columns that are aligned right."""
    lines = ["".join(_cells("td", row, numbers)) for row in rows]
    if head:
        lines.insert(0, "".join(_cells("th", head, numbers)))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="scroll"><table>{body}</table></div>'


def _cells(tag: str, row: tuple[str, ...], numbers: Collection[int]) -> Iterator[str]:
    for column, cell in enumerate(row):
        right = ' class="n"' if column in numbers else ""
        yield f"<{tag}{right}>{escape(cell)}</{tag}>"


def _table(table: Table) -> str:
    """A table of the command line as HTML."""
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    heads = tuple(str(column.header) for column in table.columns)
    numbers = [n for n, column in enumerate(table.columns) if column.justify == "right"]
    return _rows(zip(*columns, strict=True), heads, numbers)


def _summary(statistics: RunStatistics) -> str:
    """The metrics of the run, in columns."""
    items = []
    for metric in METRICS:
        text = metric.text(statistics)
        if text is not None:
            indent = ' class="part"' if metric.label.startswith(" ") else ""
            items.append(
                f"<div{indent}><dt>{escape(metric.label.strip())}</dt><dd>{escape(text)}</dd></div>"
            )
    lines = "".join(f'<p class="note">{escape(note)}</p>' for note in notes(statistics))
    more = _table(workflow_table(statistics)) if len(statistics.workflows) > 1 else ""
    if statistics.optional is not None:
        more += _table(owner_table(statistics.optional))
    return f"<dl>{''.join(items)}</dl>{lines}{more}"


def _path(path: CriticalPath) -> str:
    parts = zip(PARTS.values(), path.parts_s, strict=True)
    sums = ", ".join(
        f"{label} {duration(part_s)} ({part_s / path.length_s:.0%})"
        for label, part_s in sorted(parts, key=lambda part: -part[1])
        if part_s >= NEGLIGIBLE * path.length_s > 0
    )
    head = f"{counted(len(path.steps), 'task')} in {duration(path.length_s)}"
    return (
        f"<p><b>{head}</b>{': ' if sums else ''}{sums}</p>"
        f"<details><summary>Its tasks</summary>{_table(step_table(path))}</details>"
    )


def _types(statistics: RunStatistics) -> str:
    return _table(type_table(statistics.types)) + _table(wait_table(statistics.types))


def _use(statistics: RunStatistics) -> str:
    note = (
        "for each type: the largest request, the largest use of a task that is done, and what to "
        "request next time; measured: number of tasks with measurements"
    )
    return f'<p class="note">{note}</p>{_table(use_table(statistics.types))}'


def _described(reading: RunReading) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Rows and headings of a table of the sites as the catalog describes them."""
    heads = ("site", "kind", "slots", "speed", "memory", "walltime", "hosts", "price", "watts")
    return [_site(site) for site in reading.timings.sites], heads


def _site(site: SiteSpec) -> tuple[str, ...]:
    hosts = ", ".join(site.access.hosts) if site.access is not None else ""
    price = "-" if site.price_per_core_hour is None else f"{site.price_per_core_hour:g}"
    return (
        name_line(site.name),
        site.kind,
        str(site.slots),
        f"{site.speed_ratio:g}",
        f"{site.memory_bytes / 2**30:.3g} GiB" if site.memory_bytes else "-",
        "-" if site.walltime_s is None else duration(site.walltime_s),
        name_line(hosts) or "this machine",
        f"{price} {site.currency or ''}".strip(),
        "-" if site.watts_per_core is None else f"{site.watts_per_core:g}",
    )


def _failures(records: list[FailureGroupRecord]) -> str:
    if not records:
        return "<p>No attempt has failed since the run was started or resumed.</p>"
    return "".join(map(_failure, records))


def _failure(record: FailureGroupRecord) -> str:
    counts = f"{counted(record.tasks, 'failed task')}, {counted(record.attempts, 'failed attempt')}"
    places = ", ".join(f"{site} {count}" for site, count in record.sites.items())
    hosts = ", ".join(f"{host} {count}" for host, count in list(record.hosts.items())[:10])
    head = f"{record.cause}: {record.message}" if record.message else record.cause
    example = record.example
    title = f"task {name_line(example.task)} at {name_line(example.site)}"
    return (
        f"<details><summary><b>{escape(name_line(head))}</b> ({counts})</summary>"
        f"<p>sites: {escape(name_line(places, 1000))}<br>hosts: "
        f"{escape(name_line(hosts, 1000) or 'unknown')}</p>"
        f"<p>{escape(title)}</p><pre>{escape(message_block(example.message))}</pre>"
        f"<p>{escape(record.advice or '')}</p></details>"
    )


def _options(reading: RunReading) -> str:
    state = reading.state
    settings = msgspec.to_builtins(state.settings)
    settings["on"] = ", ".join(settings["on"])  # targets may be secrets, and pages are passed on
    statistics = reading.statistics
    rows = [
        ("wfrun of the run", name_line(state.version) or "unknown"),
        ("wfrun of this report", version("wfrun")),
        ("run", name_line(statistics.path, 1000)),
        ("time", duration(statistics.elapsed_s)),
    ]
    rows += [(name, name_line(str(value), 1000)) for name, value in settings.items()]
    return _rows(rows)
