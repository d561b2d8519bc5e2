"""Run the tests that have just failed once more, alone: exit status 0 if all pass now.

Beside three other clusters on two cores, a real cluster may miss a limit of time. More than a few
failures are a defect, and so is a test that fails twice.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

FAILED = Path(".pytest_cache/v/cache/lastfailed")
MOST = 5


def main() -> int:
    """Read the names that pytest has kept; with several processes it adds the group to each."""
    names = [re.sub(r"@\w+$", "", name) for name in json.loads(FAILED.read_text())]
    if not 1 <= len(names) <= MOST:
        print(f"{len(names)} tests have failed: none of them runs again", file=sys.stderr)
        return 1
    print("failed beside others, and run again alone:", *names, sep="\n  ", file=sys.stderr)
    return subprocess.run([sys.executable, "-m", "pytest", *names], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
