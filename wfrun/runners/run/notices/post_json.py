"""A separate program that posts JSON: ``python post_json.py TIMEOUT_S``.

The first line of its standard input is the URL, the rest is the JSON. Because it is a process, a
slow server or name resolution blocks no thread of the engine, and the post can be killed. Redirects
are not followed, so that only the server that the user named gets the JSON.
"""

from __future__ import annotations

import sys
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

MAX_ANSWER_BYTES = 1 << 12
"""Maximum number of bytes that are read of an answer."""


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect, so that the answer raises HTTPError."""


def main() -> str | None:
    """Post the JSON. Returns the reason of a failure; None if it succeeds. The reason shows no part
    of the URL but the host."""
    url = sys.stdin.buffer.readline().decode().strip()
    headers = {"Content-Type": "application/json", "User-Agent": "wfrun"}
    request = Request(url, sys.stdin.buffer.read(), headers)
    host = urlsplit(url).netloc
    try:
        with build_opener(_NoRedirects).open(request, timeout=float(sys.argv[1])) as answer:
            print(f"{host} answered {answer.status}")
        return None
    except HTTPError as error:
        moved = urlsplit(error.headers.get("Location") or "").netloc
        said = error.read(MAX_ANSWER_BYTES).decode("utf-8", "replace").strip()
        if 300 <= error.code < 400:
            said = f"redirects are not followed, use the address at {moved or 'the new place'}"
        return f"{host} answered {error.code} {error.reason}" + (f": {said}" if said else "")
    except URLError as error:
        return f"{host} cannot be reached: {error.reason}"
    except (OSError, ValueError) as error:
        return f"{host}: {error}"


if __name__ == "__main__":
    sys.exit(main())
