"""The site of the documentation: its navigation, and what its build refuses."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_docs import PAGES, name_of
from tests.places import ROOT
from tools.docs_site.__main__ import loads_from_elsewhere
from tools.docs_site.pages import INDEX, Entry, prepare, sections

CONFIGURATION = ROOT / "tools/docs_site"


def listed(entries: list[Entry]) -> Iterator[str]:
    for entry in entries:
        yield entry.path
        yield from listed(entry.children)


def test_the_navigation_has_every_page_once() -> None:
    index = (ROOT / INDEX).read_text()
    found = [path for _, entries in sections(index) for path in listed(entries)]
    pages = [str((ROOT / "docs" / path).resolve().relative_to(ROOT)) for path in found]
    assert sorted([INDEX, *pages]) == sorted(map(name_of, PAGES))


def test_indented_items_belong_to_the_item_above() -> None:
    index = "# A\n\n## One\n\n- [A `b`](a.md): text\n  - [C](c.md)\n- [D](d.md)\n\n## Empty\n"
    entries = [Entry("A b", "a.md", [Entry("C", "c.md", [])]), Entry("D", "d.md", [])]
    assert list(sections(index)) == [("One", entries)]


def test_every_picture_is_shown() -> None:
    text = "".join(page.read_text() for page in PAGES)
    unused = [p.name for p in (ROOT / "docs/images").iterdir() if f"images/{p.name})" not in text]
    assert not unused


@pytest.mark.parametrize(
    "tag",
    [
        '<script src="https://cdn.example/x.js"></script>',
        "<img alt='' src='//host/x.png'>",
        '<link rel="stylesheet" href="https://fonts.example/css">',
        "<style>@import 'https://host/x.css';</style>",
        "<style>a { background: url(http://host/x) }</style>",
    ],
)
def test_files_of_other_hosts_are_found(tag: str, tmp_path: Path) -> None:
    (tmp_path / "good.html").write_text('<a href="https://x.org">x</a><img src="a.png">')
    assert not loads_from_elsewhere(tmp_path)
    (tmp_path / "page.html").write_text(f"<p>{tag}</p>")
    assert len(loads_from_elsewhere(tmp_path)) == 1


def sphinx(folder: Path) -> subprocess.CompletedProcess[str]:
    command = "from pathlib import Path; from tools.docs_site.__main__ import build;"
    command += "import sys; sys.exit(build(Path('source'), Path('site'), Path('trees')))"
    return subprocess.run(
        [sys.executable, "-c", command],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


@pytest.mark.slow
def test_what_a_build_refuses(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="`make docs` installs Sphinx")
    docs = tmp_path / "source/docs"
    docs.mkdir(parents=True)
    (docs / "index.md").write_text("# Index\n\n```{toctree}\npage\n```\n")
    (docs / "page.md").write_text("# Page\n\n[itself](page.md#page)\n")
    assert sphinx(tmp_path).returncode == 0
    (docs / "index.md").write_text("# Index\n\n```{toctree}\npage\nabsent\n```\n")
    (docs / "page.md").write_text(
        "# Page\n\n[gone](gone.md)\n\n[gone](page.md#gone)\n\n![gone](gone.png)\n"
    )
    (docs / "alone.md").write_text("# Alone\n")
    done = sphinx(tmp_path)
    assert done.returncode == 1
    for fault in (
        "page.md:3: WARNING: 'myst' cross-reference target not found: 'gone.md'",
        "page.md:5: WARNING: local id not found in doc 'docs/page': 'gone'",
        "page.md:7: WARNING: image file not readable: docs/gone.png",
        "nonexisting document 'docs/absent'",
        "alone.md: WARNING: document isn't included in any toctree",
    ):
        assert fault in done.stderr


def test_generated_pages_are_listed_and_in_the_navigation(tmp_path: Path) -> None:
    (tmp_path / "stale.md").write_text("# Of an earlier build\n")
    prepare(tmp_path, {"docs/reference/things.md": ("Things", "# All things\n")})
    index = (tmp_path / INDEX).read_text()
    assert "\n- [Things](reference/things.md)\n" in index
    assert "\nThings <reference/things.md>\n```" in index
    assert (tmp_path / "docs/reference/things.md").read_text() == "# All things\n"
    assert "\nSlurm <slurm.md>\n" in (tmp_path / "docs/clusters.md").read_text()
    assert not (tmp_path / "stale.md").exists()


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_a_search_shows_pages_for_users_first() -> None:
    pages = ["docs/decisions/0004-x", "docs/study-bags", "CHANGELOG", "docs/running", "docs/plan"]
    program = (
        f"{(CONFIGURATION / 'scorer.js').read_text()}\n"
        f"console.log({pages}.map((page) => Scorer.score([page, '', '', null, 5, '', ''])).join())"
    )
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True)
    decision, study, changes, *of_users = map(int, done.stdout.split(","))
    assert decision < study == changes < 5
    assert of_users == [5, 5]
    assert "scorer.js" in (CONFIGURATION / "conf.py").read_text()
