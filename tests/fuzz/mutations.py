"""Mutations of documents: of their bytes, of their words and numbers, and of several of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from xml.sax.saxutils import escape

MAX_BYTES = 400_000
"""Maximum length of a mutated document: time and memory are to follow from what it says, not from
its length."""

NUMBERS = (
    b"0",
    b"-1",
    b"1e300",
    b"-1e300",
    b"1e308",
    b"1e-308",
    b"inf",
    b"nan",
    b".inf",
    b".nan",
    b"-.inf",
    b"1" + b"0" * 23,
    b"1" + b"0" * 400,
    b"9" * 5000,
    b"0x" + b"f" * 5000,
    b"2147483648",
    b"9223372036854775807",
    b"9223372036854775808",
    b"18446744073709551616",
    b"1000000000000",
    b"100000000",
    b"0.1",
    b"1e12",
    b"1:30",
    b"24:00:00",
    b"1_000",
    b"\xd9\xa3",
    b"1e",
    b"--1",
    b"0o17",
    b"999999999999999999",
    b"-0",
    b"1e+400",
    b"4.0",
    b"10 GB",
    b"1e300 GB",
    b"1e308 d",
)
TEXTS = (
    b"",
    b"..",
    b"../../../../tmp/x",
    b"/etc/passwd",
    b"/",
    b".",
    b"//",
    b"a/../b",
    b"a\x00b",
    b"\x00",
    b"\x1b]52;c;aGk=\x07",
    b"\x7f",
    b"\xc2\x9b2J",
    b"\xed\xa0\x80",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"a" * 300,
    b"a/" * 2000,
    b"A" * 100_000,
    b"{x}",
    b"{index}",
    b"{x:.>2.0}",
    b"{x:/>9}",
    b"{x:999999999}",
    b"{x!r}",
    b"{x.__class__}",
    b"{0}",
    b"{",
    b"}",
    b"{{",
    b"%s%n",
    b"=cmd|' /C calc'!A0",
    b"$(id)",
    b"`id`",
    b"file:///dev/zero",
    b"/dev/zero",
    b"/dev/stdin",
    b"file://[",
    b"//[",
    b"http://[::1",
    b"file:",
    b"~root",
    b"\\u0000",
    b"\\ud800",
    b"\\n",
    b"null",
    b"true",
    b"yes",
    b"[]",
    b"{}",
    b"-",
    b"--",
    b"'",
    b'"',
    b"&amp;",
    b"&#0;",
    b"&#x1b;",
    b"&lol;",
    b"<!--",
    b"-->",
    b"<![CDATA[",
    b"]]>",
    b"*a",
    b"&a ",
    b"<<",
    b"!!python/object/apply:os.system ['id']",
    b"!!binary ",
    b"? ",
    b": ",
    b"- ",
    b"|",
    b">",
    b"\t",
    b",",
    b";",
    b"#",
    b"%YAML 1.1\n---\n",
    b"...\n",
)
BOMBS = (
    b'<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>',
    b'<!DOCTYPE a [<!ENTITY % a "bbbbbbbbbb"><!ENTITY % b "%a;%a;%a;%a;%a;%a;"> %b;%b;]>',
    b'<!DOCTYPE a SYSTEM "file:///etc/passwd">',
    b'<!DOCTYPE a [<!ATTLIST job id CDATA "aaaa">]>',
    b"a0: &a0 [x,x,x,x,x,x,x]\na1: &a1 [*a0,*a0,*a0,*a0,*a0]\na2: &a2 [*a1,*a1,*a1,*a1,*a1]\n",
    b"a: &a {<<: *a}\n",
    b"a: &a [*a]\n",
    b"? [a]\n: b\n",
    b"[" * 3000,
    b"{" * 3000,
    b"{a: " * 2000,
    b'{"a":' * 5000,
    b"<a>" * 3000,
    b"- " * 3000,
    b"(" * 3000,
)
"""Texts that expand, nest or refer, in the languages of documents."""

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(rb"[A-Za-z_][\w.:/-]*")
_VALUE = re.compile(rb"\"[^\"\n]*\"|'[^'\n]*'|(?<=: )[^\n{\[]+|(?<=>)[^<>\n]+(?=<)")
_LINE = re.compile(rb"[^\n]*(?:\n|\Z)")
_ELEMENT = re.compile(
    rb"<(\w{1,30}\b)[^<>]{0,500}(?:/>|>[^<>]{0,500}</\1>)|\{[^{}]{0,500}\}|\[[^\[\]]{0,500}\]"
)


def _escaped(text: bytes, data: bytes) -> bytes:
    """The text as part of a value: in XML, or in double quotes in JSON and YAML."""
    if data.lstrip()[:1] == b"<":
        return escape(text.decode(errors="replace"), {'"': "&quot;"}).encode()
    return json.dumps(text.decode(errors="surrogateescape"))[1:-1].encode()


class Mutator:
    """Mutates the documents of one format; ``corpus`` are valid ones."""

    def __init__(self, random: Random, corpus: Sequence[bytes]) -> None:
        self._random = random
        self._corpus = corpus
        self._kinds: tuple[Callable[[bytes], bytes], ...] = (
            *[self._number] * 5, *[self._text] * 6, *[self._word] * 2, *[self._swap] * 2,
            self._drop, self._repeat, self._splice, self._bomb, self._bytes, self._cut,
            self._insert,
        )  # fmt: skip

    def document(self) -> bytes:
        """A document with some mutations."""
        data = self._random.choice(self._corpus)
        for _ in range(self._random.choice((1, 1, 1, 1, 2, 2, 3, 5))):
            data = self._random.choice(self._kinds)(data)[:MAX_BYTES]
        return data

    def _one(self, pattern: re.Pattern[bytes], data: bytes) -> tuple[int, int]:
        """A place of the pattern, or any place. The search starts anywhere."""
        start = self._random.randrange(len(data) + 1)
        found = pattern.search(data, start) or pattern.search(data)
        return found.span() if found else (start, start)

    def _replace(self, pattern: re.Pattern[bytes], data: bytes, by: bytes) -> bytes:
        first, end = self._one(pattern, data)
        return data[:first] + by + data[end:]

    def _number(self, data: bytes) -> bytes:
        return self._replace(_NUMBER, data, self._random.choice(NUMBERS))

    def _text(self, data: bytes) -> bytes:
        first, end = self._one(_VALUE, data)
        old, new = data[first:end], self._random.choice((*TEXTS, *NUMBERS))
        if self._random.random() < 0.8:  # still in the language of the document
            new = _escaped(new, data)
            if old[:1] in (b"'", b'"'):
                new = b'"' + new + b'"'
        return data[:first] + new + data[end:]

    def _word(self, data: bytes) -> bytes:
        first, end = self._one(_WORD, self._random.choice(self._corpus))
        other = self._random.choice(self._corpus)[first:end]
        return self._replace(_WORD, data, other or self._random.choice(TEXTS))

    def _swap(self, data: bytes) -> bytes:
        pattern = self._random.choice((_NUMBER, _WORD, _VALUE, _LINE, _ELEMENT))
        one, two = sorted((self._one(pattern, data), self._one(pattern, data)))
        if one[1] > two[0]:
            return data
        middle = data[one[1] : two[0]]
        return data[: one[0]] + data[slice(*two)] + middle + data[slice(*one)] + data[two[1] :]

    def _drop(self, data: bytes) -> bytes:
        pattern = self._random.choice((_WORD, _VALUE, _LINE, _ELEMENT))
        return self._replace(pattern, data, b"")

    def _repeat(self, data: bytes) -> bytes:
        first, end = self._one(self._random.choice((_LINE, _ELEMENT, _VALUE)), data)
        times = self._random.choice((2, 2, 3, 100, 5000))
        return data[:first] + data[first:end] * times + data[end:]

    def _splice(self, data: bytes) -> bytes:
        other = self._random.choice(self._corpus)
        first, end = sorted(self._random.randrange(len(other) + 1) for _ in range(2))
        at = self._random.randrange(len(data) + 1)
        return data[:at] + other[first:end] + data[at:]

    def _bomb(self, data: bytes) -> bytes:
        at = self._random.choice((0, self._one(_LINE, data)[1], self._one(_VALUE, data)[0]))
        return data[:at] + self._random.choice(BOMBS) + data[at:]

    def _bytes(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self._random.choice((1, 1, 2, 5, 20)) if changed else 0):
            changed[self._random.randrange(len(changed))] = self._random.randrange(256)
        return bytes(changed)

    def _cut(self, data: bytes) -> bytes:
        return data[: self._random.randrange(len(data) + 1)]

    def _insert(self, data: bytes) -> bytes:
        at = self._random.randrange(len(data) + 1)
        return data[:at] + self._random.choice((*TEXTS, *NUMBERS)) + data[at:]
