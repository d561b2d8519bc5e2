"""URLs of files in documents."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit


def scheme_of(url: str) -> str:
    """The scheme of a URL; empty for a plain path."""
    return url.partition("://")[0] if "://" in url else "file" if url.startswith("file:") else ""


def path_of_url(url: str) -> str | None:
    """The path that a ``file:`` URL names on this machine; None for other URLs."""
    try:
        parts = urlsplit(url)
    except ValueError:  # such as file://[
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    return unquote(parts.path) or None
