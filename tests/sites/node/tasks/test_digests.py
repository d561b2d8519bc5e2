"""Digests of many small files: the same as of ``sha256sum``, at little cost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from wfrun.sites.node import FOLDER

PROGRAM = """
import sys
from digests import OutputDigests
paths = sys.argv[1:]
for path in paths:
    print(OutputDigests().of(path, [path], 1)[0], path, sep="  ")
print("openssl" if "hashlib" in sys.modules else "own")
"""


@pytest.mark.parametrize(
    ("size_bytes", "count", "code"), [(10, 300, "own"), (4096, 100, "own"), (4096, 300, "openssl")]
)
def test_openssl_is_loaded_once_it_is_worth_it(
    tmp_path: Path, size_bytes: int, count: int, code: str
) -> None:
    names = [f"f{n}" for n in range(count)]
    for name in names:
        (tmp_path / name).write_bytes((name * size_bytes).encode()[:size_bytes])
    command = [
        sys.executable,
        "-S",
        "-c",
        f"import sys; sys.path.insert(0, {str(FOLDER / 'tasks')!r})" + PROGRAM,
    ]
    ran = subprocess.run(
        [*command, *names], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    *found, used = ran.stdout.splitlines()
    said = subprocess.run(["sha256sum", *names], cwd=tmp_path, check=True, capture_output=True)
    assert found == said.stdout.decode().splitlines()
    assert used == code
