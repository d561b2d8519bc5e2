"""Small files of this machine, many at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.engine.exchange import Content
from wfrun.engine.files.copies import SHARED_BYTES
from wfrun.sites.node.tasks.digests import digest_of_bytes
from wfrun.sites.transfers.endpoints.endpoint import DigestError
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint


@pytest.fixture
def endpoint(tmp_path: Path) -> LocalEndpoint:
    return LocalEndpoint(store=tmp_path)


async def test_one_bad_file_does_not_fail_the_others(
    endpoint: LocalEndpoint, tmp_path: Path
) -> None:
    (tmp_path / "blocked").write_text("a file where a directory has to be")
    digest = digest_of_bytes(b"another content")
    results = await asyncio.gather(
        endpoint.write_small("good", b"1", Content(1), False, "a"),
        endpoint.write_small("blocked/file", b"2", Content(1), False, "b"),
        endpoint.write_small("short", b"3", Content(2), False, "c"),
        endpoint.write_small("wrong", b"4", Content(1, digest), False, "d"),
        return_exceptions=True,
    )
    assert results[0] is None
    assert [type(result) for result in results[1:]] == [
        InfeasibleError,
        TransientError,
        DigestError,
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blocked", "good"]


async def test_one_absent_file_does_not_fail_the_others(
    endpoint: LocalEndpoint, tmp_path: Path
) -> None:
    (tmp_path / "there").write_bytes(b"1")
    good, bad = await asyncio.gather(
        endpoint.read_small("there", 1), endpoint.read_small("absent", 1), return_exceptions=True
    )
    assert good == b"1"
    assert isinstance(bad, InfeasibleError)
    assert not any(await asyncio.gather(endpoint.stat("absent"), endpoint.stat("there/in")))


async def test_a_file_that_grew_is_not_read_whole(endpoint: LocalEndpoint, tmp_path: Path) -> None:
    (tmp_path / "grown").write_bytes(bytes(4 * SHARED_BYTES))
    assert len(await endpoint.read_small("grown", 1)) == SHARED_BYTES + 1
