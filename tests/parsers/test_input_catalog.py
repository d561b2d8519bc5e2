"""Input catalogs: entries of both formats, and what is refused, with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import InputSource
from wfrun.parsers.input_catalog import read_input_catalog
from wfrun.parsers.input_catalog.entries import CatalogInput, InputCatalog

SHA256 = "0123456789abcdef" * 4


def read(tmp_path: Path, text: str | bytes, name: str = "rc.txt") -> InputCatalog:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_input_catalog(path)


def test_lines(tmp_path: Path) -> None:
    catalog = read(
        tmp_path,
        f"""\
# where our inputs are

f.a file:///data/f.a site="alpha"
f.a   http://host/f.a?a=b
f.a /here/f.a pool=local
"with space" "file:///a%20b/\\"c\\"" site="be\\\\ta" key="a b" other=1
f.a file:///data/f.a site="alpha"
folder/f.b sftp://me@host/f.b checksum.type="sha256" checksum.value={SHA256.upper()}
# f.c /absent
""",
    )
    assert len(catalog) == 3
    assert catalog.find("f.a") == CatalogInput(
        (
            InputSource("/data/f.a", "alpha"),
            InputSource("http://host/f.a?a=b"),
            InputSource("/here/f.a"),
        )
    )
    assert catalog.find("with space") == CatalogInput((InputSource('/a b/"c"', "be\\ta"),))
    assert catalog.find("folder/f.b") == CatalogInput((InputSource("sftp://me@host/f.b"),), SHA256)
    assert catalog.find("f.c") is None


def test_yaml(tmp_path: Path) -> None:
    catalog = read(
        tmp_path,
        f"""\
# of Pegasus
x-pegasus: {{apiLang: python}}
pegasus: "5.0"
replicas:
  - lfn: f.a
    pfns:
      - {{site: local, pfn: file:///here/f.a}}
      - {{site: alpha, pfn: /data/f.a}}
      - pfn: https://host/f.a
    checksum: {{sha256: {SHA256}}}
    metadata: {{size: 12}}
  - {{lfn: 2000, pfns: [{{pfn: /here/2000, site: beta}}], regex: false}}
""",
    )
    assert catalog.find("f.a") == CatalogInput(
        (
            InputSource("/here/f.a"),
            InputSource("/data/f.a", "alpha"),
            InputSource("https://host/f.a"),
        ),
        SHA256,
    )
    assert catalog.find("2000") == CatalogInput((InputSource("/here/2000", "beta"),))


BAD_LINES = [
    ("f.a", "no LFN and PFN"),
    ('f.a "/data/f.a', "no LFN and PFN, or a quote without its end"),
    ("f.a /data/f.a site", "column 14: KEY=VALUE is wanted"),
    ('f.a /data/f.a site="alpha', "column 14: KEY=VALUE is wanted"),
    ("f.a /data/f.a site=alpha /more", "column 25: KEY=VALUE is wanted"),
    ("f.a data/f.a", "'data/f.a' is not an absolute path"),
    ("f.a file:data/f.a", "is not an absolute path"),
    ("f.a file://host/data/f.a", "names a file of another host"),
    ("f.a srm://host/f.a", "has the scheme srm"),
    ("f.a http:///f.a", "names no host"),
    ("f.a http://host:x/f.a", "is no URL"),
    ("f.a http://[/f.a", "is no URL"),
    ("f.a http://me:hidden@host/f.a", "'http://host/f.a' has a user or a password"),
    ("f.a sftp://me:hidden@host/f.a", "has a user or a password"),
    ("f.a https://hidden@host/f.a", "has a user or a password"),
    ("f.a ${HOME}/f.a", "has a variable, which is not replaced"),
    ("f.(.*) /data/[1] regex=true", "entries with regex are not read"),
    ("f.a /data/f.a checksum.value=12", "a SHA-256 checksum has 64 hexadecimal digits"),
    ("f.a /data/f.a checksum.type=md5 checksum.value=12", "checksum.type is 'md5'"),
    ("f.a /data/\x1b[2J", "control characters"),
    ("f.a file:///data/%0a", "control characters"),
    ("f\x07a /data/f.a", "control characters"),
    ('"" /data/f.a', "the logical name '' is empty"),
    ("f.a " + "/x" * 40_000, "the line is longer than 65,536 bytes"),
    ("f.a " + "/x" * 4_000, "more than 4,096 characters"),
    ("f.a http://host/" + "x" * 5_000, "has 5,012 characters"),
    (b"f.a /data/\xff", "not UTF-8 text (byte 0xff)"),
    (
        f"good /c checksum.value={'0' * 64}".encode(),
        "good has another SHA-256 checksum in an entry above",
    ),
]


@pytest.mark.parametrize(("line", "words"), BAD_LINES)
def test_bad_lines_are_refused(tmp_path: Path, line: str | bytes, words: str) -> None:
    data = line if isinstance(line, bytes) else line.encode()
    good = f"# comment\ngood /data/good checksum.value={SHA256}\n".encode()
    with pytest.raises(InvalidError) as caught:
        read(tmp_path, good + data + b"\nnever read\n")
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/rc.txt:3: ")
    assert "hidden" not in str(caught.value)
    assert str(caught.value).replace("\n", "").isprintable()
    assert len(str(caught.value)) < 500


BAD_YAML = [
    ("- {pfns: [{pfn: /f.a}]}", 4, "the entry has no lfn"),
    ("- {lfn: f.a}", 4, "pfns: must be a list"),
    ("- {lfn: f.a, pfns: []}", 4, "the entry of f.a has no pfns"),
    ("- {lfn: f.a, pfns: [{site: local}]}", 4, "an entry of f.a has no pfn"),
    ("- {lfn: f.a, pfns: [/data/f.a]}", 4, "a mapping is wanted here"),
    ("- lfn: f.a\n    pfns:\n    - pfn: f.a", 6, "'f.a' is not an absolute path"),
    ("- lfn: f.a\n    pfns:\n    - {pfn: 'ssh://u:hidden@h/f'}", 6, "has the scheme ssh"),
    ("- lfn: f.a\n    regex: true\n    pfns: [{pfn: /f.a}]", 5, "entries with regex are not read"),
    ("- {lfn: f.a, pfns: [{pfn: /f.a}], checksum: {sha256: 12}}", 4, "64 hexadecimal digits"),
    ("- {lfn: [f.a], pfns: [{pfn: /f.a}]}", 4, "lfn: text is wanted here"),
    ("- f.a", 4, "a mapping is wanted here"),
]


@pytest.mark.parametrize(("entry", "line", "words"), BAD_YAML)
def test_bad_yaml_is_refused(tmp_path: Path, entry: str, line: int, words: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read(tmp_path, f'\npegasus: "5.0"\nreplicas:\n  {entry}\n', "replicas.yml")
    assert words in str(caught.value)
    assert f"replicas.yml:{line}: " in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path, words in (
        (tmp_path, "is a directory"),
        (tmp_path / "absent", "is absent"),
        (Path("/dev/zero"), "is no regular file"),
    ):
        with pytest.raises(InvalidError, match=words):
            read_input_catalog(path)


@pytest.mark.slow
def test_many_entries_and_blank_lines(tmp_path: Path) -> None:
    """What is slow for one line would take minutes here."""
    lines = (f'file-{n} file:///data/{n} site="alpha"\n' for n in range(30_000))
    assert len(read(tmp_path, "\n" * 60_000 + "".join(lines))) == 30_000
    with pytest.raises(InvalidError, match="a quote without its end"):
        read(tmp_path, "f.a " + '"' + "\\\\" * 30_000)
