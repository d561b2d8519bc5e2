"""The ssh program for an scp that reads a file of a known size: runs ssh and limits the number of
bytes that it sends to scp. It is a program of its own; its arguments are the limit, in bytes, and
the arguments of ssh."""

from __future__ import annotations

import os
import select
import subprocess
import sys

EXCEEDED = "wfrun: it sends more than it said"
"""Last line on stderr when the limit was exceeded."""
_CHUNK_BYTES = 1 << 18


def main() -> int:
    """Run ssh. Returns its exit code; 1 if it sends more than the limit, or if scp has ended."""
    left = int(sys.argv[1])
    child = subprocess.Popen(["ssh", *sys.argv[2:]], stdout=subprocess.PIPE)
    assert child.stdout is not None
    source = child.stdout.fileno()
    try:
        while data := os.read(source, min(_CHUNK_BYTES, left + 1)):
            left -= len(data)
            if left < 0:
                print(EXCEEDED, file=sys.stderr, flush=True)
                return 1
            while data:
                # ssh makes its stdin not block, which is the same socket as this stdout.
                select.select([], [1], [])
                data = data[os.write(1, data) :]
        return child.wait()
    except BrokenPipeError:  # scp has ended
        return 1
    finally:
        child.kill()


if __name__ == "__main__":
    sys.exit(main())
