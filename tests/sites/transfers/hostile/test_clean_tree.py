"""Directories that a hostile site sends: nothing leaves them, and messages say what was refused."""

from __future__ import annotations

import io
import os
import random
import resource
import subprocess
import tarfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Literal

import pytest

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.sites.transfers.endpoints import clean_tree
from wfrun.sites.transfers.endpoints.clean_tree import CleanTree

Entry = tarfile.TarInfo
Form = Literal[0, 1, 2]
"""USTAR_FORMAT, GNU_FORMAT, PAX_FORMAT."""


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> Entry:
    made = Entry(name)
    made.type, made.linkname, made.size = kind, link, size
    return made


def link(name: str, target: str) -> Entry:
    return entry(name, tarfile.SYMTYPE, target)


def hard(name: str, target: str) -> Entry:
    return entry(name, tarfile.LNKTYPE, target)


def folder(name: str) -> Entry:
    return entry(name, tarfile.DIRTYPE)


def archive(entries: Sequence[Entry], form: Form = tarfile.GNU_FORMAT) -> bytes:
    """An archive as tar writes it; ``tarfile`` would refuse or change some of the entries."""
    made = b""
    for each in entries:
        made += each.tobuf(form, "utf-8", "surrogateescape")
        made += b"x" * each.size + bytes(-each.size % 512) if each.type == tarfile.REGTYPE else b""
    return made + bytes(1024)


async def cut(content: bytes, step: int) -> AsyncIterator[bytes]:
    for start in range(0, len(content), step):
        yield content[start : start + step]


async def clean(content: bytes, step: int = 1000, **options: bool) -> tuple[bytes, int]:
    """What passes on of an archive, and the size of its files."""
    tree = CleanTree("alpha:d", cut(content, step), **options)
    return b"".join([piece async for piece in tree.pieces()]), tree.size_bytes


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("step", [1, 511, 512, 100_000])
async def test_files_pass_unchanged(form: int, step: int) -> None:
    made = io.BytesIO()
    contents = {}
    with tarfile.open(fileobj=made, mode="w", format=form) as tar:
        for number, size in enumerate([0, 1, 511, 512, 513, 5000]):
            each = Entry("d/" * 60 + f"{number}")  # longer than a field of the header
            each.size, each.mode = size, 0o751
            contents[each.name] = random.Random(size).randbytes(size)
            tar.addfile(each, io.BytesIO(contents[each.name]))
    passed, size_bytes = await clean(made.getvalue(), step)
    assert size_bytes == sum(map(len, contents.values()))
    with tarfile.open(fileobj=io.BytesIO(passed)) as tar:
        for each in tar:
            file = tar.extractfile(each)
            assert file is not None
            assert file.read() == contents.pop(each.name)
            assert each.mode == 0o751
    assert not contents


@pytest.mark.parametrize("program", ["--format=gnu", "--format=pax", "--format=ustar"])
async def test_what_tar_makes_of_a_directory_arrives(program: str, tmp_path: Path) -> None:
    """Its links, second names, odd names and permissions."""
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "a" / "b").mkdir(parents=True)
    (source / "a" / "file").write_bytes(b"content")
    (source / "a" / "file").chmod(0o4775)
    os.link(source / "a" / "file", source / "a" / "b" / "same")
    (source / "up").symlink_to("a/file")
    (source / "a" / "b" / "link").symlink_to("../../a/file")
    os.link(source / "up", source / "a second up", follow_symlinks=False)
    (source / "a" / "dir").symlink_to(".")
    (source / "round").symlink_to("a/../a/dir/../a//file")
    (source / ("n" * 90)).mkdir()
    odd = os.fsdecode(b"line\nbreak \xff \x1b[31m")
    (source / odd).write_bytes(b"odd")
    made = subprocess.run(
        ["tar", program, "-cf", "-", "-C", str(source), "."], capture_output=True, check=True
    )
    passed, size_bytes = await clean(made.stdout)
    target.mkdir()
    subprocess.run(["tar", "-xf", "-", "-C", str(target)], input=passed, check=True)
    assert size_bytes == len(b"content") + len(b"odd")
    for place in ("up", "round", "a second up", "a/b/link", "a/b/same", "a/dir/file"):
        assert (target / place).read_bytes() == b"content"
    assert os.readlink(target / "a/b/link") == "../../a/file"
    assert (target / "a/file").stat().st_mode & 0o7777 == 0o755
    assert (target / "a/file").stat().st_nlink == 2
    assert (target / odd).read_bytes() == b"odd"
    assert (target / ("n" * 90)).is_dir()


HOSTILE = {
    "link by a later link": [link("c", "a/b/../x"), link("a/b", "..")],
    "links in a circle": [link("a", "b"), link("b", "a")],
    "absolute": [entry("/etc/wfrun")],
    "parent": [entry("../f")],
    "parent later": [entry("a/../../f")],
    "parent inside": [entry("a/../f")],
    "itself": [entry(".")],
    "no name": [entry("")],
    "link to root": [link("l", "/")],
    "link to a file": [link("l", "/etc/passwd")],
    "link up": [link("l", "..")],
    "link up from below": [link("a/l", "../..")],
    "link up later": [link("a/l", "b/../../..")],
    "link by a link": [link("a/b", "."), link("c", "a/b/../..")],
    "link by a chain": [link("d", "e"), link("e", "f/../.."), folder("f")],
    "through a link": [link("a", "b"), entry("a/f")],
    "over a link": [link("a", "b"), entry("a")],
    "a folder over a link": [link("a", "b"), folder("a")],
    "below a link": [link("a", "b"), entry("a/b/c/d")],
    "hard link out": [hard("h", "/etc/passwd")],
    "hard link up": [hard("h", "../../etc/passwd")],
    "hard link through a link": [link("a", "b"), hard("h", "a/f")],
    "hard link that lifts a link": [link("a/b/l", "../../x"), hard("h", "a/b/l")],
    "device": [entry("sda", tarfile.BLKTYPE)],
    "terminal": [entry("tty", tarfile.CHRTYPE)],
    "pipe": [entry("p", tarfile.FIFOTYPE)],
    "old sparse": [entry("s", tarfile.GNUTYPE_SPARSE)],
    "unknown": [entry("v", b"V")],
    "long part": [entry("n" * 256)],
    "long name": [entry(f"{'n' * 240}/" * 17 + "f")],  # of few levels
    "long target": [link("l", f"{'n' * 240}/" * 18)],
    "deep": [folder("d/" * 201)],
}


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("what", HOSTILE)
async def test_what_could_leave_is_refused(what: str, form: Form) -> None:
    entries = [entry("before", size=3), *HOSTILE[what]]
    with pytest.raises(InfeasibleError, match="alpha:d cannot be copied: the directory contains"):
        await clean(archive(entries, form))


async def test_permissions_are_limited() -> None:
    """No program of others, and none with the rights of its owner."""
    program, inner = entry("program"), folder("inner")
    program.mode = inner.mode = 0o7777
    passed, _ = await clean(archive([program, inner]))
    with tarfile.open(fileobj=io.BytesIO(passed)) as tar:
        assert [each.mode for each in tar] == [0o755, 0o755]


async def test_links_of_the_users_own_directory_may_leave_it() -> None:
    entries = [link("data", "/data/2MASS"), link("up", "../..")]
    passed, _ = await clean(archive(entries), links_may_leave=True)
    with tarfile.open(fileobj=io.BytesIO(passed)) as tar:
        assert [each.linkname for each in tar] == ["/data/2MASS", "../.."]


def with_pax(records: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    header = entry("pax", kind, size=len(records)).tobuf(tarfile.USTAR_FORMAT)
    return header + records + bytes(-len(records) % 512) + archive([entry("f", size=600)])


@pytest.mark.parametrize(
    "records",
    [b"16 path=../../f\n", b"11 path=/a\n17 linkpath=../f\n", b"22 GNU.sparse.major=1\n"],
)
async def test_attributes_that_change_an_entry_are_checked(records: bytes) -> None:
    with pytest.raises(InfeasibleError):
        await clean(with_pax(records))


@pytest.mark.parametrize(
    "content",
    [
        with_pax(b"0 a=b\n"),
        with_pax(b"-5 a=b\n"),
        with_pax(b"99999999999 a=b\n"),
        with_pax(b"9 size=-1\n"),
        with_pax(b"10 size=1e9\n"),
        with_pax(b"30 size=99999999999999999999\n"),
        with_pax(b"no attributes"),
        b"garbage" * 1000,
        b"\xff" * 512,
        archive([entry("f", size=600)])[:700],
        archive([entry("f", size=600)])[:-1024],
        archive([entry("f")]) + b"more" * (1 << 19),
        b"",
    ],
)
async def test_garbled_archives_are_an_error(content: bytes) -> None:
    with pytest.raises((TransientError, InfeasibleError), match="alpha:d cannot be copied"):
        await clean(content, 4096)


async def test_names_for_all_files_are_refused() -> None:
    with pytest.raises(InfeasibleError):
        await clean(with_pax(b"12 path=f/g\n", tarfile.XGLTYPE))
    passed, _ = await clean(with_pax(b"13 comment=a\n", tarfile.XGLTYPE))
    assert b"comment" not in passed


async def test_links_take_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [link("l0", "d"), *(link(f"l{n}", f"l{n - 1}/./x/..") for n in range(1, 39))]
    await clean(archive(entries))
    monkeypatch.setattr(clean_tree, "_MAX_STEPS", 1000)
    with pytest.raises(InfeasibleError):
        await clean(archive(entries))
    passed, _ = await clean(archive(entries[:10]))
    assert b"l9" in passed


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
async def test_a_name_without_end_takes_no_memory(kind: bytes) -> None:
    begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        yield entry("n", kind, size=1 << 40).tobuf(tarfile.GNU_FORMAT)
        while True:
            sent += 1 << 20
            yield b"n" * (1 << 20)

    tree = CleanTree("alpha:d", endless())
    with pytest.raises(InfeasibleError, match="without end"):
        _ = [piece async for piece in tree.pieces()]
    assert sent <= 4 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begun < 64 << 10


@pytest.mark.slow
async def test_damaged_archives_never_leave_their_directory(tmp_path: Path) -> None:
    """Bytes of an archive are changed at random: what passes is extracted inside, or an error."""
    outside, inside = tmp_path / "outside", tmp_path / "in"
    good = archive([folder("a"), entry("a/f", size=700), link("a/l", "f"), hard("h", "a/f")])
    good = with_pax(b"10 path=g\n")[:1024] + good
    chance = random.Random(13)
    passed = 0
    for _ in range(600):
        bad = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            bad[chance.randrange(len(bad))] = chance.choice(b"\0/.0157xLKg \xff\x80")
        for start in range(0, len(bad) - 512, 512):  # most damages would be found by the checksum
            header = bad[start : start + 512]
            if header[257:262] == b"ustar":
                total = sum(header[:148]) + sum(header[156:]) + 8 * 32
                bad[start + 148 : start + 156] = b"%06o\0 " % total
        try:
            out, _ = await clean(bytes(bad), chance.choice([512, 5000]))
        except WfrunError:
            continue
        passed += 1
        if passed % 10 == 0:
            inside.mkdir()
            subprocess.run(
                ["tar", "-xf", "-", "-C", str(inside)], input=out, check=False, capture_output=True
            )
            assert [each.name for each in tmp_path.iterdir()] == ["in"]
            for place, folders, files in os.walk(inside):
                for each in (*folders, *files):
                    assert Path(place, each).resolve().is_relative_to(inside)
            subprocess.run(["rm", "-rf", str(inside)], check=True)
    assert passed > 50
    assert not outside.exists()
