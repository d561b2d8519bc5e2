"""The records of the kinds of site."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.places import ROOT
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Access, SiteSpec
from wfrun.sites.kind import SiteContext
from wfrun.sites.kinds import BATCH_KINDS, KINDS, kind_of


@pytest.mark.parametrize("name", KINDS)
def test_a_site_of_each_kind_can_be_made(name: str, tmp_path: Path) -> None:
    kind = kind_of(name)
    assert kind.name == name
    access = Access(transport="local") if kind.is_remote else None
    spec = SiteSpec("a", 2, kind=name, access=access)
    site = kind.make(spec, SiteContext(0, "r1", "wfrun-r1", tmp_path, time.time))
    assert site.spec is spec


@pytest.mark.parametrize("name", KINDS)
def test_the_engine_knows_which_kinds_have_a_batch_system(name: str) -> None:
    assert SiteSpec("a", 1, kind=name).has_batch_system == (KINDS[name].batch is not None)


@pytest.mark.parametrize("name", BATCH_KINDS)
def test_each_batch_system_can_be_asked(name: str) -> None:
    batch = BATCH_KINDS[name]
    survey = batch.survey()
    assert batch.system(Access(max_array=7)).max_array == 7
    assert survey.probe
    assert survey.needed
    assert not set(survey.needed) & set(survey.wanted)


def test_a_kind_that_there_is_not() -> None:
    with pytest.raises(InvalidError, match=r"'abacus'.*local, ssh, slurm"):
        kind_of("abacus")


def test_reading_a_catalog_imports_no_site() -> None:
    code = "import sys, wfrun.sites.catalog; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=100
    )
    imported = set(done.stdout.split())
    assert "wfrun.sites.batch.slurm.kind" in imported
    for module in ("asyncssh", "lxml", "wfrun.sites.cluster.site", "wfrun.sites.local.site"):
        assert module not in imported
    assert not [name for name in imported if name.startswith("wfrun.sites.batch.slurm.system")]


def test_every_kind_and_its_keys_are_documented() -> None:
    """Its keys in the catalog's page, its name in a page of its own or there."""
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")]
    catalog = (ROOT / "docs" / "catalog.md").read_text(encoding="utf-8")
    for kind in KINDS.values():
        assert f"`{kind.name}`" in catalog or any(f"`kind: {kind.name}`" in page for page in pages)
        assert all(f"`{key}`" in catalog for key in (*kind.keys, *kind.own_keys))
