"""Sizes of directories that are streamed as tar archives."""

from __future__ import annotations

import io
import tarfile

import pytest

from wfrun.sites.transfers.tree_size import TreeSize


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("step", [1, 511, 512, 100_000])
def test_files_count_and_nothing_else(form: int, step: int) -> None:
    archive = io.BytesIO()
    sizes = [0, 1, 511, 512, 513, 5000]
    with tarfile.open(fileobj=archive, mode="w", format=form) as tar:
        for number, size in enumerate(sizes):
            entry = tarfile.TarInfo("d/" * 60 + f"{number}")  # longer than a header's field
            entry.size = size
            tar.addfile(entry, io.BytesIO(bytes(size)))
        for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE):
            entry = tarfile.TarInfo("e")
            entry.type = kind
            entry.linkname = "0"
            tar.addfile(entry)
    tree = TreeSize()
    content = archive.getvalue()
    for start in range(0, len(content), step):
        tree.feed(content[start : start + step])
    assert tree.size_bytes == sum(sizes)


def test_a_size_beyond_octal_digits() -> None:
    entry = tarfile.TarInfo("large")
    entry.size = 20 << 30
    size = TreeSize()
    size.feed(entry.tobuf(tarfile.GNU_FORMAT))
    assert size.size_bytes == 20 << 30
