"""One MPI program over three real clusters at once."""

from __future__ import annotations

import pwd
import re
import shutil
import socket
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.jobs.coallocated import SITES, Jobs, serial_result
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev

NODE_LINKS = [
    {"within": "alpha", "latency": "0.05 ms"},
    {"within": "beta", "latency": "0.04 ms"},
    {"within": "gamma", "latency": "0.03 ms"},
    {"between": ["alpha", "beta"], "latency": "1.1 ms"},
    {"between": ["alpha", "gamma"], "latency": "1.2 ms"},
    {"between": ["beta", "gamma"], "latency": "0.4 ms"},
]


@pytest.fixture
def jobs(testbed: Testbed, tmp_path: Path) -> Iterator[Jobs]:
    found = Jobs(testbed, tmp_path)
    try:
        yield found
    finally:
        found.close()


@pytest.mark.testbed
@pytest.mark.parametrize(
    ("policy", "job", "parts"),
    [
        ("wf", "{job: wave, components: [8, 8, 8, 4]}", [(1, 8), (1, 8), (2, 8), (0, 4)]),
        ("fcm", "{job: wave, size: 28, ppn: 4, components: {}}", [(0, 16), (1, 8), (2, 4)]),
        ("ca", "{job: wave, size: 24, ppn: 4, components: {}}", [(1, 8), (2, 4), (0, 12)]),
    ],
)
def test_an_mpi_program_runs_over_three_clusters(
    policy: str, job: str, parts: list[tuple[int, int]], jobs: Jobs
) -> None:
    jobs.build()
    jobs.catalog["node_links"] = NODE_LINKS
    jobs.write(f"  - {job}\n", stdout="said.txt")
    jobs.done(jobs.start("--place", policy, "--retries", "0"))
    (asked,) = [e for e in jobs.events() if isinstance(e, ev.ClaimsAsked)]
    held = [(part.site, part.launcher.cores * part.launcher.nodes) for part in asked.parts]
    assert sorted(held) == sorted(parts)
    folder = jobs.run / "outputs" / "wave"
    said = (folder / "said.txt").read_text()
    size = sum(count for _, count in parts)
    assert re.search(rf"^{size} processes, .* difference to the serial result 0$", said, re.M), said
    field = [float(line) for line in (folder / "field.txt").read_text().split()]
    assert field == serial_result()
    jobs.check_quiet()
    assert not jobs.shared_memory()


@pytest.mark.testbed
def test_daemons_share_no_directory_with_other_jobs_of_the_user(jobs: Jobs) -> None:
    jobs.build()
    jobs.write("  - {job: wave, components: [8, 8, 8, 4]}\n")
    uid = pwd.getpwnam(jobs.testbed.layout.user("alpha")).pw_uid
    shared = Path(tempfile.gettempdir(), f"ompi.{socket.gethostname()}.{uid}")
    shutil.rmtree(shared, ignore_errors=True)
    shared.touch()  # A directory cannot be made there.
    try:
        jobs.done(jobs.start("--place", "wf", "--retries", "0"))
    finally:
        shared.unlink()


@pytest.mark.testbed
def test_each_process_runs_at_its_site_beside_the_inputs(jobs: Jobs) -> None:
    """In a folder there, with the variables of the job and the user's own HOME, as many as the
    component has processors."""
    jobs.build()
    (jobs.folder / "where.sh").write_text(
        'test "$HOME" = "$(eval echo ~$(id -un))" && home=own\n'
        "echo $(id -un) $WORD $(cat word) $home\n"
    )
    (jobs.folder / "word").write_text("read\n")
    parts = "[{site: alpha, size: 3}, {site: beta, size: 1}, {site: gamma, size: 2}]"
    jobs.write(
        f"  - {{job: where, components: {parts}}}\n",
        command=["mpirun", "sh", "./where.sh"],
        stdout="said.txt", inputs=["where.sh", "word"], outputs=None, env={"WORD": "x"}, ppn=None,
    )  # fmt: skip
    jobs.done(jobs.start("--place", "wf", "--retries", "0"))
    said = (jobs.run / "outputs" / "where" / "said.txt").read_text().splitlines()
    users = [jobs.testbed.layout.site(name).user for name in SITES]
    counts = dict(zip(users, (3, 1, 2), strict=True))
    assert Counter(said) == {f"{user} x read own": count for user, count in counts.items()}
    jobs.check_quiet()


@pytest.mark.testbed
def test_a_job_over_several_clusters_is_emulated(jobs: Jobs) -> None:
    jobs.write(
        "  - {job: wave, components: [8, 8, 4], runtime: 1 s, command: none}\n",
        inputs=None,
        command=None,
    )
    jobs.done(jobs.start("--place", "wf", "--emulate"))
    (started,) = [e for e in jobs.events() if isinstance(e, ev.AttemptStarted)]
    (ended,) = [e for e in jobs.events() if isinstance(e, ev.AttemptEnded)]
    assert ended.outcome.cause == "done"
    assert ended.at_s - started.at_s >= 0.9
    jobs.check_quiet()
