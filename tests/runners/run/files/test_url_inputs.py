"""Runs whose document names an input by URL."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runners.harness import User
from tests.servers.web import DATA, Web

DOCUMENT = """\
pegasus: "5.0"
name: fetched
replicaCatalog:
  replicas:
  - {{lfn: data, pfns: [{{pfn: "{url}", site: web}}]}}
jobs:
- {{id: one, name: cp, type: job, arguments: [data, copy], uses: [
    {{lfn: data, type: input}}, {{lfn: copy, type: output}}]}}
- {{id: two, name: touch, type: job, arguments: [other], uses: [{{lfn: other, type: output}}]}}
"""


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web()
    yield server
    server.end()


def write(user: User, url: str) -> Path:
    path = user.folder / "fetched.yml"
    path.write_text(DOCUMENT.format(url=url))
    return path


def test_it_is_fetched_from_an_allowed_host(user: User, web: Web) -> None:
    document = write(user, f"{web.url}/data")
    refused = user.wfrun("run", document, "--quiet")
    assert refused.status == 2
    assert "--allow-urls 127.0.0.1" in refused.err
    assert not web.asked
    done = user.wfrun("run", document, "--quiet", "--allow-urls", "127.0.0.1", "--run-dir", "r")
    assert done.status == 0, done.err
    assert (user.folder / "r/outputs/copy").read_bytes() == DATA
    assert web.asked == ["/data"]
    assert not (user.folder / "r/inputs").exists()


def test_what_was_fetched_is_the_users_alone(user: User, web: Web) -> None:
    """Also once `chmod go+x` shares the outputs of the run."""
    words = ("--quiet", "--allow-urls", "127.0.0.1", "--run-dir", "r", "--keep", "all")
    before = os.umask(0)
    try:
        done = user.wfrun("run", write(user, f"{web.url}/data"), *words)
    finally:
        os.umask(before)
    assert done.status == 0, done.text
    assert stat.S_IMODE((user.folder / "r/inputs").stat().st_mode) == 0o700
    assert stat.S_IMODE((user.folder / "r/outputs").stat().st_mode) == 0o777


def test_a_file_that_is_here_is_not_fetched(user: User, web: Web) -> None:
    document = write(user, f"{web.url}/data")
    (user.folder / "data").write_bytes(b"here")
    assert user.wfrun("run", document, "--quiet", "--run-dir", "r").status == 0
    assert (user.folder / "r/outputs/copy").read_bytes() == b"here"
    assert not web.asked


def test_an_absent_file_fails_its_task_alone(user: User, web: Web) -> None:
    document = write(user, f"{web.url}/absent")
    words = ("--allow-urls", "127.0.0.1", "--run-dir", "r", "--retries", "0", "--quiet")
    done = user.wfrun("run", document, *words)
    assert done.status == 1
    said = done.text
    assert "input 'data' did not arrive" in said
    assert "the server answered 404 Not Found" in said
    assert (user.folder / "r/outputs/other").exists()
    assert not (user.folder / "r/outputs/copy").exists()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (
            "srm://host/data",
            "has the scheme srm; files are fetched by http, https, sftp, gsiftp, ftp",
        ),
        ("http:///data", "names no host"),
        ("http://user:hidden@host/data", "has a user or a password"),
        ("http://hidden@host/data", "has a user or a password"),
        ("http://host:port/data", "is no URL"),
    ],
)
def test_other_urls_are_refused(user: User, url: str, words: str) -> None:
    done = user.ask("run", write(user, url), "--quiet", "--allow-urls", "host")
    assert done.status == 2
    assert "the input file 'data' is at" in done.err
    assert words in done.err
    assert "hidden" not in done.err
