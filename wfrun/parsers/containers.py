"""Images and mounts of containers, as documents and catalogs name them.

Documents may be hostile. Their names become arguments of a container runtime, so a name is refused
if a runtime could take it for an option, a list or a second path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from wfrun.engine.fitting.containers import Container
from wfrun.parsers.file_urls import path_of_url
from wfrun.parsers.syntax.limits import CONTROL, cut
from wfrun.parsers.syntax.sections import in_words

SCHEMES = ("docker", "library", "oras", "shub", "http", "https", "file")
"""Schemes of the URLs of images."""
KEYS = ("image", "sha256", "mounts")

_MAX_IMAGE = 1000
"""Maximum length of the name of an image, in characters."""
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/+(.*)", re.ASCII | re.DOTALL)
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]*", re.ASCII)
_ADDRESS = re.compile(r"[A-Za-z0-9[][!-~]*", re.ASCII)
_FILE = re.compile(
    r"(?:/|\./|\.\./)|.*\.(?:sif|simg|img|sqsh|squashfs|tar|tar\.gz|tgz)\Z", re.DOTALL
)
_MOUNT = re.compile(r"(?P<source>/[^:,]*):(?P<destination>/[^:,]*)(?P<mode>:r[ow])?")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)


def to_image(value: Any) -> str:
    """The normal form of the name of an image: a URL, or a path.

    A name without a scheme is a path if it begins with ``/``, ``./`` or ``../`` or has the suffix
    of an image file; otherwise it is an image of a Docker registry. Raises ValueError with the end
    of a message.
    """
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"an image is a name or a path, not {in_words(value)}")
    if len(value) > _MAX_IMAGE or CONTROL.search(value):
        raise ValueError(f"{cut(value)} is not the name of an image")
    match = _URL.fullmatch(value)
    if match is None:
        if _FILE.match(value):
            return _path(value)
        scheme, name = "docker", value
    else:
        scheme, name = match[1].lower(), match[2]
    if scheme not in SCHEMES:
        raise ValueError(f"{cut(value)} has an unknown scheme; known are: {', '.join(SCHEMES)}")
    if scheme == "file":
        path = path_of_url(value)
        if path is None:
            raise ValueError(f"{cut(value)} is no file of this machine")
        return _path(path)
    if not (_ADDRESS if scheme.startswith("http") else _REFERENCE).fullmatch(name):
        raise ValueError(f"{cut(value)} is not the name of an image")
    return f"{scheme}://{name}"


def _path(path: str) -> str:
    if path.startswith("-") or ":" in path or "," in path:
        raise ValueError(
            f"{cut(path)} is no path of an image: it begins with '-' or has ':' or ','"
        )
    return path


def to_mount(value: Any) -> str:
    """Convert a mount: ``SOURCE:DESTINATION`` with absolute paths, which ``:ro`` or ``:rw`` may
    follow. Raises ValueError with the end of a message."""
    text = value if isinstance(value, str) else ""
    match = _MOUNT.fullmatch(text)
    if match is None or CONTROL.search(text):
        raise ValueError(
            f"{cut(str(value))} is no mount; write /SOURCE:/DESTINATION, :ro or :rw may follow"
        )
    return text


def to_checksum(value: Any) -> str:
    """Convert a SHA-256 checksum. Raises ValueError with the end of a message."""
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise ValueError("a SHA-256 checksum has 64 hexadecimal digits; put it in quotes")
    return value.lower()


def to_container(value: Any) -> Container:
    """Convert the name of an image, or a mapping with `KEYS`. Raises ValueError with the end of a
    message."""
    if not isinstance(value, Mapping):
        return Container(to_image(value))
    unknown = [str(key) for key in value if key not in KEYS]
    if unknown:
        raise ValueError(f"it has no key {cut(unknown[0])}; the keys are: {', '.join(KEYS)}")
    mounts = value.get("mounts", [])
    if not isinstance(mounts, list):
        raise ValueError(f"'mounts' must be a list, not {in_words(mounts)}")
    return Container(
        to_image(value.get("image")),
        sha256=to_checksum(value["sha256"]) if "sha256" in value else "",
        mounts=tuple(map(to_mount, mounts)),
    )
