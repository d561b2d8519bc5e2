"""An SFTP server that sends what it likes, behind the real sshd. Source of the packets:
draft-ietf-secsh-filexfer-02. Its argument says how it misbehaves."""

from __future__ import annotations

import os
import struct
import sys
import time

HOW = sys.argv[1]
SIZE = 10
STATED = 1 << 62 if HOW in ("endless", "tiny-limits") else SIZE
AT_ITS_WORD = ("one-by-one", "more", "endless", "tiny-limits")
"""Servers whose file ends where they say."""
INIT, OPEN, CLOSE, READ, FSTAT = 1, 3, 4, 5, 8
VERSION, STATUS, HANDLE, DATA, ATTRS, EXTENDED_REPLY = 2, 101, 102, 103, 105, 201


def exactly(size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = os.read(0, size - len(data))
        if not more:
            sys.exit()
        data += more
    return data


def string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def send(kind: int, body: bytes, length: int | None = None) -> None:
    data = struct.pack(">IB", length or len(body) + 1, kind) + body
    while data:
        data = data[os.write(1, data) :]


def unpack(form: str, data: bytes) -> int:
    (number,) = struct.unpack(form, data)
    return int(number)


def serve() -> None:
    while True:
        (length,) = struct.unpack(">I", exactly(4))
        body = exactly(length)
        kind, number = body[0], body[1:5]
        if kind == INIT:
            limits = string(b"limits@openssh.com") + string(b"1") if HOW == "tiny-limits" else b""
            send(VERSION, struct.pack(">I", 3) + limits)
        elif kind == 200:
            send(EXTENDED_REPLY, number + struct.pack(">QQQQ", 1 << 18, 1, 1, 1))
        elif kind == OPEN:
            send(HANDLE, number + string(b"h"))
        elif kind == FSTAT:
            send(ATTRS, number + struct.pack(">IQ", 1, STATED))
        elif kind == READ and HOW in AT_ITS_WORD and unpack(">Q", body[-12:-4]) >= STATED:
            send(STATUS, number + struct.pack(">I", 1) + string(b"") + string(b""))
        elif kind == READ:
            read(number, unpack(">I", body[-4:]))
        else:
            send(STATUS, number + struct.pack(">I", 0) + string(b"") + string(b""))


def read(number: bytes, count: int) -> None:
    if HOW == "nothing":
        send(DATA, number + string(b""))
    elif HOW == "more":
        send(DATA, number + string(b"x" * (count + 5)))
    elif HOW == "one-by-one":
        send(DATA, number + string(b"x"))
    elif HOW == "long-packet":
        send(DATA, number, length=(1 << 32) - 1)
    elif HOW == "garbage":
        os.write(1, b"\0\0\0\5\xff" + b"\xff" * 4 + b"\0" * 64)
    elif HOW == "other-kind":
        send(HANDLE, number + string(b"h"))
    elif HOW == "long-string":
        send(DATA, number + struct.pack(">I", 1 << 31) + b"x")
    elif HOW == "end":
        sys.exit()
    elif HOW == "silence":
        time.sleep(1000)
    else:
        send(DATA, number + string(b"x" * count))


serve()
