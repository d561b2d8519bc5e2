"""Claims by hard links, where a file system answers that a link exists which it has just made."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sites.node.launchers.test_launcher import Talk
from wfrun.testing.probe import request

REPLY_IS_LOST = """
import errno, os, runpy, sys
link = os.link
def link_twice(source, target):
    link(source, target)
    if target.endswith(".out"):
        link(source, target)
os.link = link_twice
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""A program for `python -c`: each claim is sent to the file system twice, as an NFS client does
when the reply to the first request is lost, and the launcher sees the answer to the second."""


@pytest.fixture(params=[(), ("-c", REPLY_IS_LOST)], ids=["local", "reply lost"])
def talk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Talk]:
    talk = Talk(tmp_path / "site", flags=request.param)
    yield talk
    talk.close()


def test_claims_that_were_made_count_although_the_reply_was_lost(talk: Talk) -> None:
    run = secrets.token_hex(8)
    for n in range(6):  # one after the other: all but the first are claimed by a link
        talk.run(request(f"{run}.{n}", "true"))
        assert talk.until_ended(f"{run}.{n}")["cause"] == "done"


def test_an_attempt_that_has_ended_here_is_not_started_again(talk: Talk) -> None:
    run = secrets.token_hex(8)
    counter = talk.directory / "counter"
    for n in range(4):
        talk.run(request(f"{run}.{n}", "sh", "-c", f"echo x >> {counter}"))
        assert talk.until_ended(f"{run}.{n}")["cause"] == "done"
    talk.run(request(f"{run}.3", "sh", "-c", f"echo x >> {counter}"))
    talk.ended.clear()
    assert talk.until_ended(f"{run}.3")["cause"] == "done"
    assert counter.read_text() == "x\n" * 4


def test_a_claim_of_another_process_is_respected(talk: Talk) -> None:
    run = secrets.token_hex(8)
    for n in range(4):
        talk.run(request(f"{run}.{n}", "true"))
        assert talk.until_ended(f"{run}.{n}")["cause"] == "done"
    (talk.directory / "attempts" / f"{run}.4.out").touch()
    talk.run(request(f"{run}.4", "true"))
    assert talk.until_ended(f"{run}.4")["cause"] == "lost"
