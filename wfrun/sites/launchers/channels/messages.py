"""What launchers and the engine send each other: JSON lines, the same on every channel."""

from __future__ import annotations

from typing import Annotated

import msgspec

from wfrun.engine.exchange import Count, Found, InputLink, Outcome, Seconds
from wfrun.sites.launchers.reports import decode_report

PROTOCOL = 1
"""Version of the messages. Launchers that an older wfrun started may have another."""
MESSAGE_KEYS = 100
"""Maximum number of attempts or keys in a message, so that neither side is busy with one for
long."""
QUESTION_KEYS = 5000
"""Maximum number of keys in a question. For each question a launcher may read its whole journal, so
questions are larger than other messages."""


Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 20)]
"""A number of slots, devices or nodes."""
Key = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9.-]*\Z", max_length=200)]
"""Key of an attempt or a launcher, or the id of a command: names of files at sites."""


class RemoteCommand(msgspec.Struct, frozen=True):
    """A command that a job starts on another node of its claim."""

    id: Key
    launcher: Key
    node: Size
    attempt: Key
    command: Annotated[str, msgspec.Meta(max_length=1 << 17)]
    """For ``sh -c``; Linux takes no longer argument."""
    inputs: tuple[InputLink, ...]
    env: dict[str, str]


class RemoteEnd(msgspec.Struct, frozen=True):
    """The end of such a command."""

    id: Key
    status: Annotated[int, msgspec.Meta(ge=0, le=255)]
    text: Annotated[str, msgspec.Meta(max_length=10_000)]
    """The end of what it has printed."""


class ResizedProgram(msgspec.Struct, frozen=True):
    """What the program of a malleable attempt has."""

    attempt: Key
    number: Count
    nodes: tuple[Key, ...]
    """Launchers beside the one that reports it."""
    gone: bool
    failure: Annotated[str, msgspec.Meta(max_length=10_000)]


class LauncherReport(msgspec.Struct):
    """Any message of a launcher; ``batch_launcher.py`` describes them.

    {"hello": 1, "launcher": key, "pid", "host", "slots", "memory_bytes", "gpus", "left_s": seconds
        or null, "node": i, "nodes": n}      first message of each connection
    {"started": [key ...], "ended": [[key, outcome] ...]}
    {"returned": [key ...]}                  did not start and will not
    {"contested": [key ...]}                 claimed by another process
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
    """The message of a line. Raises ValueError for anything else, also values out of bounds."""
    return decode_report(line, _DECODER)
