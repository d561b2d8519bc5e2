"""The program of a task that `real_contents` has made: it checks its inputs, waits, and writes its
outputs. Python 3.6 or later.

    content_task.py SECONDS FILE... -- FILE...

A file is ``SIZE:NAME``. What it holds follows from its size and name, and is different for each.
"""

import hashlib
import os
import sys
import time


def content_of(name: str, size_bytes: int) -> bytes:
    """What the file holds; no compression on the way shrinks it."""
    return hashlib.shake_128(name.encode()).digest(size_bytes)


def write(folder: str, name: str, size_bytes: int) -> None:
    """Write the file."""
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(content_of(name, size_bytes))


def is_right(folder: str, name: str, size_bytes: int) -> bool:
    """Whether the file holds what it should."""
    with open(os.path.join(folder, name), "rb") as file:
        return file.read() == content_of(name, size_bytes)


def main() -> int:
    words = sys.argv[2:]
    at = words.index("--")
    inputs, outputs = (
        [(name, int(size)) for size, name in (word.split(":", 1) for word in part)]
        for part in (words[:at], words[at + 1 :])
    )
    wrong = [name for name, size_bytes in inputs if not is_right(".", name, size_bytes)]
    if wrong:
        print("wrong content:", *wrong, file=sys.stderr)
        return 1
    time.sleep(float(sys.argv[1]))
    for name, size_bytes in outputs:
        write(".", name, size_bytes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
