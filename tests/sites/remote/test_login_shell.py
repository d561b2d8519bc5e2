"""Commands reach POSIX sh unchanged, whatever the user's shell is, and hints name a file that the
shell reads."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from wfrun.sites.remote.transports.login_shell import portable, profile_of

WORDS = [
    "with space",
    "single'quote",
    'double"quote',
    "new\nline",
    "$(echo ran)`echo ran`$HOME",
    "!event",
    "^a^b",
    "back\\slash\\",
    "ünïcode",
    "undecodable\udcff",
    "*?[a]",
    "%d",
    "~",
    "{a,b}",
    "#",
    "",
    "!" * 5000,
]


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "csh", "tcsh", "fish"])
def test_commands_pass_through_any_login_shell(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on this machine")
    command = f"printf '%s|' {shlex.join(WORDS)}\nexit 3"
    done = subprocess.run(
        [shell, "-c", portable(command)], check=False, capture_output=True, timeout=100
    )
    wanted = "".join(f"{word}|" for word in WORDS).encode("utf-8", "surrogateescape")
    assert (done.stdout, done.stderr, done.returncode) == (wanted, b"", 3)


def test_a_command_with_a_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        portable("echo a\0b")


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "ksh", "zsh", "csh", "tcsh", "fish"])
def test_a_shell_reads_its_profile(tmp_path: Path, shell: str) -> None:
    """Started as the agent starts it, for the environment of its commands."""
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"no {shell} on this machine")
    profile = profile_of(path)
    assert profile.startswith("~/")
    file = tmp_path / profile[2:]
    file.parent.mkdir(parents=True, exist_ok=True)
    words = {"csh": "setenv FOUND yes", "tcsh": "setenv FOUND yes", "fish": "set -gx FOUND yes"}
    file.write_text(words.get(shell, "FOUND=yes; export FOUND") + "\n")
    done = subprocess.run(
        [f"-{shell}", "-c", "printenv FOUND"],
        executable=path,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        check=False,
        capture_output=True,
        timeout=100,
    )
    assert done.stdout == b"yes\n", done.stderr
