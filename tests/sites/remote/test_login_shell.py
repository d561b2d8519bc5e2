"""Commands reach POSIX sh unchanged, whatever the user's shell is."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest

from wfrun.sites.remote.login_shell import portable

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
