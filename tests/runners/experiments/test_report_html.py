"""``wfrun report``: one HTML file, from real runs, and in a browser."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import wfrun
from tests.runners.harness import Job, User, assert_refused, make_workflow
from wfrun.engine.model import Task, Workflow
from wfrun.runners.inspect.report_html import gantt as report_gantt
from wfrun.runners.inspect.report_html.figures import figures
from wfrun.runners.inspect.report_html.gantt import lanes, run_spans
from wfrun.runners.metrics.statistics import read_statistics
from wfrun.runners.metrics.workflows import TaskTiming
from wfrun.runners.run.directory.run_directory import find

NAMES = (
    "</script><img src=x onerror=alert(1)>\x1b[31m",
    "<script>document.title = 'x'</script>",
    "<a href='javascript:alert(1)'>go</a><br>",
    "%{x}<extra>",
    "x" * 300,
    "good",
)
HOSTILE = NAMES[0]


def report_of(user: User, run: Path) -> str:
    page = user.folder / "report.html"
    done = user.ask("report", run, "-o", page)
    assert done.status == 0, done.text
    return page.read_text(encoding="utf-8")


def figures_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, re.S)
    assert found is not None
    figures: dict[str, Any] = json.loads(found[1])
    return figures


def hostile_run(user: User) -> Path:
    """A run whose names and messages would be HTML; its last task fails."""
    run = user.folder / "run"
    files = make_workflow([Job("a", "true")]).files
    say = ("-c", f"echo '{HOSTILE}' >&2; exit 3")
    tasks = [Task(f"{number}{name}", name, "true") for number, name in enumerate(NAMES)]
    tasks.append(Task("last", "bad", "sh", say))
    workflow = Workflow(NAMES[1], "jobs", tasks, files, [() for _ in tasks])
    assert wfrun.run(workflow, run_dir=run, retries=0).outcome == "failed"
    return run


@pytest.mark.slow
def test_a_report_is_one_file_in_which_names_are_text(user: User) -> None:
    page = report_of(user, hostile_run(user))
    own = page.partition("<script type=")[0]  # without the library
    assert "<img" not in page.partition('id="figures">')[0]
    assert "&lt;img src=x" in own  # the type of a task, and what a task printed
    assert "\x1b" not in page
    assert "exit 3" in own
    number = re.escape(version("wfrun"))
    assert re.search(f"<td>wfrun of the run</td><td>{number}</td>", own)
    assert not re.search(r"<(?:script|link|img)[^>]*(?:src|href)=", own)
    drawn = figures_of(page)
    assert {"path", "activity", "cores", "gantt", "waits"} <= set(drawn)
    names = [bar["name"] for bar in drawn["gantt"]["data"]]
    assert "failed or cancelled" in names
    assert all("<" not in name for name in names)
    assert not any(tag in str(drawn) for tag in ("<img", "<script", "<a "))  # under the pointer


@pytest.mark.slow
def test_date_command_and_sites_are_at_the_top(user: User) -> None:
    run = user.folder / "run"
    document = user.write([Job("a", "true")])
    wfrun.run(
        document, run_dir=run, throttle=3, policy="heft", emulate=True,
        on={"finished": "mail -s secret"},
    )  # fmt: skip
    page = report_of(user, run)
    top = page.partition("<nav>")[0]
    assert re.search(r"<td>started</td><td>\d{4}-\d\d-\d\d \d\d:\d\d \w+, took ", top)
    assert f"<td>wfrun run {document} --policy heft --throttle 3 --emulate</td>" in top
    assert "<td>local (local, " in top
    assert "secret" not in page.partition("application/gzip")[0]
    assert len(page) < 2_500_000


def test_attempts_that_share_a_core_share_a_lane_also_if_ends_are_reported_late() -> None:
    """By the clock of a site that is an hour late."""

    def timing(start_s: float, end_s: float, reported_s: float) -> TaskTiming:
        return TaskTiming(
            0, 0, 0, 1, 0, 0, 0, start_s, reported_s, True,
            runtime_s=end_s - start_s, stated_start_s=start_s - 3600,
        )  # fmt: skip

    tasks = [timing(0, 10, 13), timing(10, 20, 21), timing(20, 30, 30)]
    assert run_spans(tasks) == [(0, 10), (10, 20), (20, 30)]
    assert lanes(tasks, run_spans(tasks)) == [0, 0, 0]
    assert lanes(tasks, [(0, 10), (5, 15), (10, 20)]) == [0, 1, 0]


def test_many_attempts_are_shown_as_cores_in_use(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = user.folder / "run"
    wfrun.run(make_workflow([Job(name, "true") for name in "abc"]), run_dir=run)
    reading = read_statistics(find(str(run)))
    bars = figures(reading)["gantt"]["data"]
    assert sum(len(bar["x"]) for bar in bars) == 3
    monkeypatch.setattr(report_gantt, "MAX_BARS", 2)
    (heat,) = figures(reading)["gantt"]["data"]
    assert heat["type"] == "heatmap"
    assert max(map(max, heat["z"])) > 0


@pytest.mark.slow
def test_a_run_with_nothing_finished_has_a_report(user: User) -> None:
    run = user.folder / "run"
    wfrun.run(make_workflow([Job("a", "true", ["absent"])]), run_dir=run, emulate=True)
    assert "Summary" in report_of(user, run)
    refused = user.ask("report", run, "-o", user.folder / "none" / "r.html")
    assert refused.status == 3
    assert "there is no folder" in refused.err


@pytest.mark.slow
def test_only_the_scripts_of_the_page_run(user: User) -> None:
    """The policy has the hash of each, so that nothing that came into the page runs, also where the
    escaping of a name failed."""
    page = report_of(user, hostile_run(user))
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    packed = re.search(r'id="library">([^<]*)<', page)
    assert packed is not None
    scripts = [gzip.decompress(base64.b64decode(packed[1])).decode()]
    scripts += re.findall(r"<script>(.*?)</script>", page, re.S)
    assert len(scripts) == 2
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    hashes = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
    assert rules["script-src"].split() == hashes
    assert rules["default-src"] == "'none'"
    assert "\r" not in "".join(scripts)


@pytest.mark.slow
def test_only_a_report_of_the_same_run_is_replaced(user: User) -> None:
    page = user.folder / "report.html"
    page.write_text("mine")
    for name in "ab":
        wfrun.run(make_workflow([Job("a", "true")]), run_dir=user.folder / name)
    for words in (("report", "a"), ("report", "b")):
        refused = user.ask(*words)
        assert_refused(refused, 2, ["report.html exists, and is no report of the run", "-o"])
        assert page.read_text() == "mine"
    assert user.ask("report", "a", "-o", "report.html").status == 0
    assert user.ask("report", "b").status == 2
    assert user.ask("report", "a").out == "report.html written\n"


_CLICK = """<script>
started.then(() => {
  const bars = () => document.querySelectorAll("#gantt .trace.bars").length;
  const facts = document.body.dataset, page = document.documentElement;
  const charts = [...document.querySelectorAll(".chart")];
  const marks = ".bars path, .scatterlayer path, .heatmaplayer image";
  const isEmpty = (chart) => !chart.querySelector(marks);
  facts.before = bars();
  const toggle = document.querySelector("#gantt .legendtoggle");
  for (const kind of ["mousedown", "mouseup"])
    toggle.dispatchEvent(new MouseEvent(kind, {bubbles: true, view: window}));
  setTimeout(() => {
    facts.after = bars();
    facts.fits = page.scrollWidth <= page.clientWidth;
    facts.empty = charts.filter(isEmpty).length;
    facts.dark = getComputedStyle(document.body).backgroundColor === "rgb(13, 17, 23)";
    dispatchEvent(new Event("beforeprint"));
    const widths = charts.map((chart) => chart.querySelector("svg").getBoundingClientRect().width);
    facts.printed = Math.max(...widths) <= 700 && !document.querySelector("details:not([open])");
    facts.title = document.title.startsWith("wfrun");
  }, 1000);  // longer than the time that Plotly waits for a second click
});
</script></body>"""
"""Clicks the first type in the legend, and notes the number of types shown before and after,
whether the page is as wide as the window, the number of charts that show nothing, whether the page
is dark, and whether what is printed fits the paper and is unfolded."""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (500, True)])
def test_a_browser_draws_every_chart_and_a_click_hides_a_type(
    user: User, width: int, dark: bool
) -> None:
    page = report_of(user, hostile_run(user))
    clicked = user.folder / "clicked.html"
    allowed = re.sub("script-src [^;]*;", "script-src 'unsafe-inline';", page)  # for the test's own
    clicked.write_text(allowed.replace("</body>", _CLICK), encoding="utf-8")
    words = [
        "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        "--no-first-run", "--disable-background-networking", "--disable-component-update",
        "--disable-sync", "--disable-extensions",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        f"--window-size={width},900", f"--user-data-dir={user.folder / 'profile'}",
        "--virtual-time-budget=10000", "--dump-dom", f"file://{clicked}",
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
    # Plotly warns when the labels of 300 characters of this run let no margin fit; it draws them.
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert [line for line in said if "Too many auto-margin redraws" not in line] == []
    drawn = figures_of(page)
    types = len(drawn["gantt"]["data"])
    facts = dict(re.findall(r'data-(\w+)="(\w+)"', done.stdout.partition("<body")[2][:500]))
    assert facts == {
        "drawn": str(len(drawn)), "before": str(types), "after": str(types - 1), "fits": "true",
        "empty": "0", "dark": str(dark).lower(), "printed": "true", "title": "true",
    }  # fmt: skip
    body = done.stdout.partition('id="figures"')[0]
    assert len(re.findall(r'class="chart [^"]*js-plotly-plot', body)) == len(drawn)
    assert "<img" not in body
    assert "<a href='java" not in body
