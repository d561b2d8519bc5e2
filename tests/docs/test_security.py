"""docs/security.md promises nothing that no test holds.

Each sentence of the page has its tests in security_proofs.yaml, found by its first words; one that
is new or begins anew has none, and fails. Each number of the page is that of the code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest
import yaml

from tests.places import ROOT
from wfrun.engine.explain import visible
from wfrun.parsers import foreign
from wfrun.parsers.bags.jsdl_documents import sweep
from wfrun.parsers.syntax import limits
from wfrun.runners.admin.links import links
from wfrun.runners.run import user_requests
from wfrun.runners.run.store import event_store
from wfrun.sites.launchers import command_relay
from wfrun.sites.launchers.channels import channels, limited_log, signed_link
from wfrun.sites.node.channels import channels as node_channels
from wfrun.sites.node.channels import signing
from wfrun.sites.remote import agent
from wfrun.sites.transfers.endpoints import clean_tree
from wfrun.sites.transfers.gridftp import gridftp_client
from wfrun.sites.transfers.relay import relay_scp, stall
from wfrun.sites.transfers.urls import http_source

HERE = ROOT / "tests" / "docs"
EXPLAINS = "explains"
PROOFS: dict[str, str | list[str]] = yaml.safe_load((HERE / "security_proofs.yaml").read_text())

SPELT = {0.5: "half a second", 5: "five", 60: "a minute"}
NUMBERS = (
    f"at most {limits.MAX_ID} characters, no `/`",
    f"with at most {sweep.MAX_STEPS} steps",
    f"a 64th and {relay_scp._BESIDE_BYTES >> 10} KiB later",
    f"longer than {clean_tree._MAX_NAME_BYTES:,} bytes "
    f"or deeper than {clean_tree._MAX_DEPTH} levels",
    f"at most {links._MAX_BYTES >> 20} MiB each",
    f"ASCII digits, {foreign.MAX_DIGITS} at most",
    f"for {stall.STALL_S / 60:g} minutes, {gridftp_client.STALL_S / 60:g} by GridFTP "
    f"and {http_source.SILENCE_S / 60:g} by HTTP",
    f"at most {agent.UNADMITTED_BYTES >> 10} KiB are read from a caller",
    f"nothing for {signing.HANDSHAKE_S:g} s",
    f"At most {channels.MAX_STRANGERS} callers wait for admission, or {4 * channels.MAX_STRANGERS} "
    f"while they are younger than {SPELT[channels.BURST_S]}",
    f"at most {agent.MAX_CONNECTIONS} connections",
    f"may have {signed_link.MAX_LINE_BYTES >> 20} MiB, "
    f"one of the engine {node_channels.MAX_LINE_BYTES >> 20} MiB",
    f"At most {SPELT[limited_log.MAX_WARNINGS]} warnings {SPELT[limited_log.INTERVAL_S]}",
    f"at most {command_relay.MAX_OPEN:,} at a time",
    f"requests above {user_requests.MAX_BYTES >> 10} KiB",
    f"Rows above {event_store.ROW_BYTES >> 20} MiB",
    f"after {visible.MAX_NAME} characters",
)
"""Phrases of the page with the numbers of the code."""
ELSEWHERE = r"`[^`]*`|\b0\d{3}\b|SHA-256|UTF-8|16 random digits"
"""Numbers that the named tests hold: names of code, modes and the length of a random name."""


def page() -> str:
    """The page up to the section on how it is tested, without the table's head and the titles of
    points (in bold, with a full stop)."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    text = text.partition("## How this is tested")[0]
    text = re.sub(r"^\| who or what .*\n\|[-|]+\n", "", text, flags=re.MULTILINE)
    return re.sub(r"\*\*[^*]+\.\*\* ", "", text)


def sentences() -> Iterator[str]:
    """Sentences and rows of the page."""
    for block in re.split(r"\n\s*\n|\n(?=- |\| )", page()):
        lines = [line.strip() for line in block.strip().splitlines() if not line.startswith("#")]
        if lines:
            yield from re.split(
                r"(?<=[.!?]) (?=[A-Z`\[*]|wfrun )", " ".join(lines).removeprefix("- ")
            )


@cache
def names_in(path: str) -> frozenset[str]:
    """Names of the tests of a module."""
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def test_each_sentence_has_its_tests() -> None:
    for sentence in sentences():
        found = [begin for begin in PROOFS if sentence.startswith(begin)]
        assert len(found) == 1, f"{sentence[:60]!r} has the tests of {found}"


@pytest.mark.parametrize("begin", PROOFS)
def test_the_tests_are_there(begin: str) -> None:
    assert sum(sentence.startswith(begin) for sentence in sentences()) == 1
    proofs = PROOFS[begin]
    if proofs == EXPLAINS:
        return
    assert isinstance(proofs, list)
    for proof in proofs:
        path, _, name = proof.partition("::")
        assert (ROOT / "tests" / path).is_file(), proof
        assert name in names_in(path), proof


def test_numbers_are_those_of_the_code() -> None:
    text = " ".join(page().split())
    for phrase in NUMBERS:
        assert text.count(phrase) == 1, phrase
        text = text.replace(phrase, "")
    assert re.findall(r".{,40}\d.{,40}", re.sub(ELSEWHERE, "", text)) == [], "see NUMBERS"
