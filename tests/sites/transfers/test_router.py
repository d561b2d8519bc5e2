"""Which method the router takes for a pair of sites, and what happens when one fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.sites.transfers.test_conformance import local
from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.exchange import Content, Receipt
from wfrun.engine.model import LinkSpec
from wfrun.sites.transfers.endpoints.endpoint import Endpoint
from wfrun.sites.transfers.local.local_copy import LocalCopy
from wfrun.sites.transfers.method import Location, MethodFailedError, NotCarriedError
from wfrun.sites.transfers.router import TransferRouter


class Failing(LocalCopy):
    """A method that raises the next of its errors, and copies when there is none left."""

    def __init__(self, *errors: WfrunError, can_carry: bool = True) -> None:
        super().__init__()
        self.errors = list(errors)
        self.asked = 0
        self._can_carry = can_carry

    async def can_carry(self, source: Endpoint, destination: Endpoint) -> bool:
        return self._can_carry

    async def copy(
        self, source: Location, destination: Location, key: str, expected: Content
    ) -> Receipt:
        self.asked += 1
        await asyncio.sleep(0)  # as a method that runs beside other copies
        if self.errors:
            raise self.errors.pop(0)
        return await super().copy(source, destination, key, expected)


def router(place: Path, *forced: str, **methods: Failing) -> TransferRouter:
    """A router between the sites ``site0`` and ``site1``, whose stores are one directory."""
    (place / "f").write_bytes(b"x")
    links = [LinkSpec("site0", "site1", methods=forced)]
    return TransferRouter(local([place, place]), methods, place, links=links)


def broken(count: int = 1) -> Failing:
    return Failing(*[MethodFailedError("no login\nat b")] * count)


async def test_a_method_that_fails_is_given_up_between_these_two_sites(tmp_path: Path) -> None:
    one, two = broken(2), Failing()
    transfer = router(tmp_path, one=one, two=two)
    together = await asyncio.gather(*(transfer.copy(0, "f", 1, f"g{n}") for n in range(2)))
    later = await transfer.copy(0, "f", 1, "h")
    assert [receipt.method for receipt in (*together, later)] == ["two"] * 3
    said = [receipt.fallback for receipt in (*together, later) if receipt.fallback]
    assert said == ["site0 to site1: files go by two, because one failed: no login at b"]
    assert one.asked == 2
    assert (await transfer.copy(1, "f", 0, "i")).method == "one"  # another pair
    transfer.close()


async def test_no_method_is_given_up_where_all_fail(tmp_path: Path) -> None:
    one, two = broken(), broken()
    transfer = router(tmp_path, one=one, two=two)
    with pytest.raises(MethodFailedError):
        await transfer.copy(0, "f", 1, "g")
    receipt = await transfer.copy(0, "f", 1, "g")
    assert (receipt.method, receipt.fallback) == ("one", "")
    transfer.close()


@pytest.mark.parametrize("error", [InfeasibleError("it is absent"), TransientError("digest")])
async def test_errors_of_a_file_are_none_of_the_method(tmp_path: Path, error: WfrunError) -> None:
    one, two = Failing(error), Failing()
    transfer = router(tmp_path, one=one, two=two)
    with pytest.raises(type(error)):
        await transfer.copy(0, "f", 1, "g")
    assert (await transfer.copy(0, "f", 1, "g")).method == "one"
    transfer.close()


async def test_a_file_that_a_method_does_not_carry_goes_by_the_next(tmp_path: Path) -> None:
    one, two = Failing(NotCarriedError("copies no directories")), Failing()
    transfer = router(tmp_path, one=one, two=two)
    receipts = [await transfer.copy(0, "f", 1, "g") for _ in range(2)]
    assert [(r.method, r.fallback) for r in receipts] == [("two", ""), ("one", "")]
    transfer.close()


async def test_methods_of_the_catalog_are_the_only_ones(tmp_path: Path) -> None:
    refusal = NotCarriedError("copies no directories")
    one, two, three = Failing(), Failing(refusal), Failing(can_carry=False)
    transfer = router(tmp_path, "three", "two", one=one, two=two, three=three)
    with pytest.raises(InfeasibleError, match=r"\(three, two\); two copies no directories"):
        await transfer.copy(0, "f", 1, "g")
    assert (await transfer.copy(0, "f", 1, "g")).method == "two"
    assert (await transfer.copy(1, "f", 0, "g")).method == "one"  # another pair
    assert (one.asked, three.asked) == (1, 0)
    transfer.close()


@pytest.mark.parametrize(
    ("working", "used"), [("abc", "c"), ("ab", "b"), ("a", "a"), ("bc", "c"), ("c", "c")]
)
async def test_a_method_to_be_avoided_comes_last(tmp_path: Path, working: str, used: str) -> None:
    """Sites send to each other by a and b, which are late together."""
    (tmp_path / "f").write_bytes(b"x")
    methods = {name: Failing(can_carry=name in working) for name in "abc"}
    transfer = TransferRouter(local([tmp_path] * 2), methods, tmp_path, direct=["a", "b"])
    assert (await transfer.copy(0, "f", 1, "g", avoid=["a"])).method == used
    assert (await transfer.copy(0, "f", 1, "g")).method == working[0]
    transfer.close()
