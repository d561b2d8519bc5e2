"""Compares what the workflow counted with what Python did.

    check.py WORKFLOW_DIR OUTPUTS_DIR

Exit status 1 says that they differ.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    workflow, outputs = Path(sys.argv[1]), Path(sys.argv[2])
    wrong = 0
    for expected in sorted((workflow / "expected").iterdir()):
        found = outputs / expected.name
        if not found.exists() or found.read_bytes() != expected.read_bytes():
            print(f"{found}: WRONG, it is not as {expected}")
            wrong += 1
    if not wrong:
        top = (outputs / "top_words.txt").read_text(encoding="ascii").split()[1::2]
        print(f"the counts are as they should be; most frequent: {', '.join(top[:6])}")
        print(f"the result: {outputs / 'top_words.txt'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
