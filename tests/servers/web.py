"""A web server on loopback that sends files which are short, late or elsewhere."""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

from tests.waiting import PATIENCE_S

DATA = bytes(range(256)) * 8192
BREAK_BYTES = 500_000
"""Number of bytes after which a connection for a file that breaks off is lost."""


class _Handler(BaseHTTPRequestHandler):
    """Files by their names: what is wrong with each is in it."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Web)
        server.asked.append(self.path)
        if self.path in server.redirects:
            self.send_response(302)
            self.send_header("Location", server.redirects[self.path])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path.startswith("/breaks"):
            self._break_off()
            return
        status = 503 if self.path == "/busy" else 404 if self.path == "/absent" else 200
        self.send_response(status)
        length = str(len(DATA) if status == 200 else 0)
        if self.path.startswith("/says"):  # what follows, in place of the size
            length, self.close_connection = unquote(self.path[len("/says") :], "latin-1"), True
        self.send_header("Content-Length", length)
        self.end_headers()
        if status != 200:
            return
        if self.path == "/short":
            self.wfile.write(DATA[:-1000])
            self.close_connection = True
        elif self.path == "/silent":
            self.wfile.write(DATA[:1000])
            self.wfile.flush()
            server.released.wait(PATIENCE_S)
        else:
            self.wfile.write(DATA)

    def _break_off(self) -> None:
        """Send some bytes of what is asked for, and hang up. ``changes``: as another version each
        time; ``weak``: without saying which version; ``ignores``: always from the beginning;
        ``lies``: from elsewhere than asked; ``always``: no byte of the rest."""
        server = self.server
        assert isinstance(server, Web)
        server.ranges.append((self.headers.get("Range"), self.headers.get("If-Range")))
        version = f'"{len(server.ranges)}"' if "changes" in self.path else '"1"'
        begin, asked = 0, self.headers.get("Range", "")
        is_same = self.headers.get("If-Range") == version and "ignores" not in self.path
        if asked and is_same:
            begin = int(asked.removeprefix("bytes=").removesuffix("-"))
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(DATA) - begin))
        if "weak" not in self.path:
            self.send_header("ETag", version)
        if begin:
            first = begin + 1 if "lies" in self.path else begin
            self.send_header("Content-Range", f"bytes {first}-{len(DATA) - 1}/{len(DATA)}")
        self.end_headers()
        is_over = begin > 0 and "always" in self.path
        self.wfile.write(DATA[begin : begin if is_over else begin + BREAK_BYTES])
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


class Web(ThreadingHTTPServer):
    """A web server on a free port."""

    def __init__(self, certificate: Path | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        self.redirects: dict[str, str] = {}
        self.ranges: list[tuple[str | None, str | None]] = []
        """``Range`` and ``If-Range`` of each request for a file that breaks off."""
        self.released = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
            self.url = f"https://127.0.0.1:{self.server_port}"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing of clients that hang up."""

    def end(self) -> None:
        self.released.set()
        self.shutdown()
        self._thread.join()
        self.server_close()
