"""Messages between launchers and the engine: JSON lines, the same on every channel."""

from __future__ import annotations

from typing import Annotated

import msgspec

from wfrun.engine.exchange import Count, Found, InputLink, Outcome, Seconds
from wfrun.sites.launchers.reports import decode_report

PROTOCOL = 1
"""Version of the messages. A launcher started by another release of wfrun may use another version.
"""
MESSAGE_KEYS = 100
"""Maximum number of attempts or keys in a message, so that no message keeps a side busy for long.
"""
QUESTION_KEYS = 5000
"""Maximum number of keys in a question. A launcher may read its whole journal for each question, so
few large questions are better than many small ones."""


Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 20)]
"""A number of slots, GPUs or nodes, or the number of a node."""
Key = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9.-]*\Z", max_length=200)]
"""Key of an attempt or a launcher, or id of a command. Such keys become names of files at sites."""


class RemoteCommand(msgspec.Struct, frozen=True):
    """A command that a job starts on another node of its claim."""

    id: Key
    launcher: Key
    node: Size
    attempt: Key
    command: Annotated[str, msgspec.Meta(max_length=1 << 17)]
    """Script for ``sh -c``. Linux limits an argument to 128 KiB."""
    inputs: tuple[InputLink, ...]
    env: dict[str, str]


class RemoteEnd(msgspec.Struct, frozen=True):
    """The end of a RemoteCommand."""

    id: Key
    status: Annotated[int, msgspec.Meta(ge=0, le=255)]
    text: Annotated[str, msgspec.Meta(max_length=10_000)]
    """The last part of the command's output."""


class ResizedProgram(msgspec.Struct, frozen=True):
    """The nodes that the program of a malleable attempt has now."""

    attempt: Key
    number: Count
    nodes: tuple[Key, ...]
    """Keys of the launchers whose nodes the program has, besides the reporting launcher."""
    gone: bool
    failure: Annotated[str, msgspec.Meta(max_length=10_000)]


class LauncherReport(msgspec.Struct):
    """A message of a launcher, of any type; ``batch_launcher.py`` describes the types.

    {"hello": 1, "launcher": key, "pid", "host", "slots", "memory_bytes", "gpus", "left_s": seconds
        or null, "node": i, "nodes": n}      first message of each connection
    {"started": [key ...], "ended": [[key, outcome] ...]}
    {"returned": [key ...]}                  attempts that the launcher will not start
    {"contested": [key ...]}                 attempts that another process has claimed
    {"found": {key: {"state", "outcome"}}, "id": n}
    {"ending": reason}                       accepts no more attempts
    {"failing": text} {"recovered": true} {"error": text}
    {"remote": command} {"hangup": id} {"remote_ended": end}     see ``command_relay.py``
    {"resized": {...}}                       see ``malleable_programs.py``
    """

    hello: int | None = None
    host: str = ""
    slots: Size = 0
    memory_bytes: Count = 0
    gpus: Size = 0
    left_s: Seconds | None = None
    nodes: Size = 1
    started: tuple[str, ...] = ()
    ended: tuple[tuple[str, Outcome], ...] = ()
    returned: tuple[str, ...] = ()
    contested: tuple[str, ...] = ()
    found: dict[str, Found] | None = None
    id: int = 0
    ending: str | None = None
    failing: str | None = None
    recovered: bool = False
    error: str | None = None
    remote: RemoteCommand | None = None
    hangup: Key | None = None
    remote_ended: RemoteEnd | None = None
    resized: ResizedProgram | None = None


_DECODER = msgspec.json.Decoder(LauncherReport)


def decode(line: bytes) -> LauncherReport:
    """Decode the message of a line. Raises ValueError if it is invalid or has values out of
    bounds."""
    return decode_report(line, _DECODER)
