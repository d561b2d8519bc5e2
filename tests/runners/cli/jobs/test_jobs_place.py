"""``wfrun jobs --place``: one job over several clusters."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wfrun.engine import events as ev
from wfrun.engine.errors import InvalidError
from wfrun.runners.cli.main import cli
from wfrun.runners.run.store.event_store import Store

SITES = "sites: {alpha: {slots: 16}, beta: {slots: 16}, gamma: {slots: 16}}\n"


def jobs(tmp_path: Path, text: str, *arguments: str, sites: str = SITES) -> Result:
    tmp_path.joinpath("jobs.yaml").write_text(f"walltime: 100 s\ncommand: ./wave\n{text}")
    tmp_path.joinpath("sites.yaml").write_text(sites)
    command = ["jobs", str(tmp_path / "jobs.yaml"), "--sites", str(tmp_path / "sites.yaml")]
    return CliRunner().invoke(cli, [*command, *arguments])


def claims_of(run: Path) -> list[tuple[float, list[tuple[int, int]]]]:
    """When claims were asked for, and site and size of their parts."""
    store = Store(run)
    asked = [event for event in store.load() if isinstance(event, ev.ClaimsAsked)]
    store.close()
    return [
        (e.at_s, [(p.site, p.launcher.cores * p.launcher.nodes) for p in e.parts]) for e in asked
    ]


def test_the_example_of_figure_2_2(tmp_path: Path) -> None:
    """A job of 24 processors on three clusters with 16 idle ones each: worst fit uses all three,
    flexible cluster minimization two."""
    for policy, components, expected in (
        ("wf", "[8, 8, 8]", [(0, 8), (1, 8), (2, 8)]),
        ("fcm", "{}", [(0, 16), (1, 8)]),
    ):
        text = f"jobs: [{{size: 24, components: {components}}}]\n"
        run = tmp_path / policy
        result = jobs(tmp_path, text, "--place", policy, "--simulate", "--run-dir", str(run))
        assert result.exit_code == 0, result.output
        assert f"1/1 tasks done in 1:40 (36 tasks/h), policy place {policy}" in result.output
        assert claims_of(run) == [(0.0, expected)]


def test_jobs_wait_for_idle_processors_and_do_not_block_others(tmp_path: Path) -> None:
    text = """\
jobs:
  - {job: first, size: 40, components: {}}
  - {job: whole, size: 48, components: {}}
  - {job: small, size: 8}
  - {job: last, components: [{site: gamma, size: 4}]}
"""
    run = tmp_path / "run"
    result = jobs(tmp_path, text, "--place", "fcm", "--simulate", "--run-dir", str(run))
    assert result.exit_code == 0, result.output
    assert "launchers of" not in result.output
    said = " ".join(result.output.split())
    # The jobs waited 0, 0, 100 and 200 s.
    assert "4 claims; mean 1:15 in the placement queue, 0.0 s for all processors" in said
    assert "0.0 s to start, 1:40 execution" in said
    assert [(round(at_s, 2), len(parts)) for at_s, parts in claims_of(run)] == [
        (0.0, 3), (0.0, 1), (100.05, 1), (200.1, 3),
    ]  # fmt: skip


NODE_LINKS = """\
node_links:
  - {within: alpha, latency: 0.05 ms}
  - {within: beta, latency: 0.03 ms}
  - {within: gamma, latency: 0.04 ms}
  - {between: [alpha, beta], latency: 1.1 ms}
  - {between: [alpha, gamma], latency: 1.2 ms}
  - {between: [beta, gamma], latency: 0.4 ms}
"""


def test_ca_picks_the_near_clusters(tmp_path: Path) -> None:
    for size, expected in ((24, [(1, 16), (2, 8)]), (16, [(1, 16)])):
        text = f"jobs: [{{size: {size}, components: {{}}}}]\n"
        run = tmp_path / f"run-{size}"
        options = "--place", "ca", "--metric", "latency", "--simulate", "--run-dir", str(run)
        result = jobs(tmp_path, text, *options, sites=SITES + NODE_LINKS)
        assert result.exit_code == 0, result.output
        assert claims_of(run) == [(0.0, expected)]


@pytest.mark.parametrize(
    ("metric", "links", "message"),
    [
        ("latency", "", "needs the latency within alpha"),
        ("latency", NODE_LINKS[: NODE_LINKS.rindex("  -")], "between the nodes of beta and gamma"),
        ("bandwidth", NODE_LINKS, "needs the bandwidth within alpha"),
    ],
)  # fmt: skip
def test_ca_needs_the_links_between_all_nodes(
    metric: str, links: str, message: str, tmp_path: Path
) -> None:
    options = "--place", "ca", "--metric", metric, "--simulate"
    result = jobs(tmp_path, "jobs: [{size: 2}]\n", *options, sites=SITES + links)
    assert isinstance(result.exception, InvalidError)
    assert message in str(result.exception)
    assert result.exception.line is not None


def test_explain_shows_tries_and_claims(tmp_path: Path) -> None:
    text = """\
jobs:
  - {job: first, size: 40, components: {}}
  - {job: second, size: 24, components: {}}
"""
    run = tmp_path / "run"
    result = jobs(tmp_path, text, "--place", "fcm", "--simulate", "--run-dir", str(run))
    assert result.exit_code == 0, result.output
    shown = CliRunner().invoke(cli, ["explain", str(run), "second"])
    assert shown.exit_code == 0, shown.output
    lines = [" ".join(line.split()) for line in shown.output.splitlines()]
    tried = "0.0 s into the run it could not be placed; idle: alpha 0, beta 0, gamma 8"
    assert tried in lines
    claimed = next(line for line in lines if "it claimed" in line)
    assert "it claimed alpha 16, gamma 8; all were there after 0.0 s; given back" in claimed, lines
    assert lines.index(tried) < lines.index(claimed)
    assert "policy" not in shown.output


def test_a_job_fails_after_its_last_try(tmp_path: Path) -> None:
    text = """\
jobs:
  - {job: long, size: 40, components: {}, walltime: 1 h}
  - {job: whole, size: 48, components: {}}
"""
    result = jobs(tmp_path, text, "--place", "fcm", "--tries", "5", "--simulate")
    assert result.exit_code == 1
    assert "the job 'whole' could not be placed in 5 tries" in result.output


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("size: 49, components: {}", "asks for 49 processors, which no division over the sites"),
        ("size: 40, components: {most: 2}", "asks for 40 processors, which no division"),
        ("components: [8, 17]", "has a component of 17 processors, wider than every site"),
        ("components: [{site: beta, size: 17}]", "a component of 17 processors, wider than beta"),
        ("components: [{site: bets, size: 7}]", "has a component at 'bets'"),
        ("size: 17", "fits no site: it asks for 17 cores"),
        ("size: 8, components: {}, memory: 1 TiB", "fits no site: it asks for 1 cores, 1048576"),
    ],
)
def test_jobs_that_can_never_be_placed_are_refused_with_their_line(
    entry: str, message: str, tmp_path: Path
) -> None:
    text = f"jobs:\n  - {{size: 2}}\n  - {{{entry}}}\n"
    sites = SITES.replace("16}", "16, memory: 8 GiB}")
    result = jobs(tmp_path, text, "--place", "fcm", "--simulate", sites=sites)
    assert isinstance(result.exception, InvalidError)
    assert result.exception.line == 5
    assert message in str(result.exception)


def test_a_component_is_no_wider_than_the_nodes_of_its_site(tmp_path: Path) -> None:
    """Its queue would refuse it, or let it wait for ever."""
    sites = SITES.replace("alpha: {", "alpha: {kind: slurm, host: h, node_cores: 4, ")
    run = tmp_path / "run"
    text = "jobs: [{components: [8, 4]}]\n"
    result = jobs(tmp_path, text, "--place", "wf", "--simulate", "--run-dir", str(run), sites=sites)
    assert result.exit_code == 0, result.output
    assert claims_of(run) == [(0.0, [(1, 8), (0, 4)])]
    text = "jobs: [{components: [{site: alpha, size: 8}]}]\n"
    result = jobs(tmp_path, text, "--place", "wf", "--simulate", sites=sites)
    assert isinstance(result.exception, InvalidError)
    assert "a component of 8 processors, wider than alpha" in str(result.exception)
    assert result.exception.hint == "a component can have: alpha: 4, beta: 16, gamma: 16"


def test_worst_fit_divides_no_job(tmp_path: Path) -> None:
    result = jobs(tmp_path, "jobs: [{size: 8, components: {}}]\n", "--place", "wf", "--simulate")
    assert isinstance(result.exception, InvalidError)
    assert "is to be divided, which worst fit does not" in str(result.exception)
    assert result.exception.line == 3


def test_a_job_with_components_needs_a_placement(tmp_path: Path) -> None:
    result = jobs(tmp_path, "jobs: [{components: [8, 8]}]\n", "--simulate")
    assert isinstance(result.exception, InvalidError)
    assert "has components, and each job of this run goes to one site" in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--place", "fcm"), "site 'alpha' has no batch system"),
        (("--place", "fcm", "--simulate", "--size", "binary"), "give it or --size"),
        (("--place", "fcm", "--simulate", "--allocate", "mpl"), "give it or --allocate"),
        (("--place", "wf", "--simulate", "--metric", "bandwidth"), "without --place ca"),
        (("--simulate", "--tries", "3"), "--tries has no effect without --place"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    result = jobs(tmp_path, "jobs: [{size: 2}]\n", *arguments)
    assert result.exit_code != 0
    assert message in result.output + str(result.exception)
