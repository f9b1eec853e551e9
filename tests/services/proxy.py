"""A proxy in front of a real HTTP service, which cuts connections in the middle of answers, or leaves headers out."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_HOP = {"connection", "transfer-encoding", "keep-alive"}


@dataclass
class Proxy:
    """`cuts` says of a method and path whether its answer ends halfway; it may be exchanged at any time."""

    address: str
    cuts: Callable[[str, str], bool] = lambda method, path: False
    without: frozenset[str] = frozenset()
    """Headers of requests that don't reach the service, in lower case."""
    cut: list[str] = field(default_factory=list)
    """Paths of the answers that were cut."""


@contextmanager
def proxy_of(service: str) -> Iterator[Proxy]:
    """A proxy of the service at an address; it ends with the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            upstream = http.client.HTTPConnection(urlsplit(service).netloc, timeout=60)
            try:
                upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in proxy.without and name.lower() not in {*_HOP, "expect"}:
                        upstream.putheader(name, value)
                upstream.endheaders(body)
                answer = upstream.getresponse()
                content = answer.read()
            finally:
                upstream.close()
            self.send_response_only(answer.status, answer.reason)
            for name, value in answer.getheaders():
                if name.lower() not in {*_HOP, "content-length"}:
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
            if length is not None and answer.status not in (204, 304):
                self.send_header("Content-Length", length)
            self.end_headers()
            if proxy.cuts(self.command, self.path) and content:
                proxy.cut.append(self.path)
                content = content[: len(content) // 2]
                self.close_connection = True
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward

        def log_message(self, format: str, *args: object) -> None: ...

        def handle(self) -> None:
            try:
                super().handle()
            except (ConnectionError, TimeoutError):
                pass  # the client has gone

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    proxy = Proxy(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
