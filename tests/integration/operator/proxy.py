"""Stands between an operator and the API server, and breaks chosen writes."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.integration.operator.cluster import Cluster

_WRITES = ("PATCH", "POST", "PUT", "DELETE")
_DROPPED = {"connection", "transfer-encoding", "content-length", "keep-alive"}
Fault = Callable[["Exchange"], None]


class Exchange:
    """One write on its way. A fault may call `send` first, or not at all."""

    def __init__(self, handler: _Handler, number: int) -> None:
        self._handler = handler
        self.number = number

    def send(self) -> None:
        """Let the API server carry it out."""
        with self._handler.forwarded() as answer:
            answer.read()

    def answer(self, code: int, reason: str) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": "injected"}
        self._handler.reply(code, json.dumps(status).encode())

    def hang_up(self) -> None:
        """No answer: the caller cannot know what happened."""
        self._handler.close_connection = True
        self._handler.connection.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _handle(self) -> None:
        if self.server.cut:
            self.close_connection = True
            return
        length = int(self.headers.get("Content-Length") or 0)
        self.content = self.rfile.read(length) if length else b""
        if self.command in _WRITES and "/leases" not in self.path:
            fault, number = self.server.next_write()
            if fault is not None:
                fault(Exchange(self, number))
                return
        with self.forwarded() as answer:
            self._stream(answer)

    do_GET = do_PATCH = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815  (the base class's names)

    @contextmanager
    def forwarded(self) -> Iterator[http.client.HTTPResponse]:
        cluster = self.server.cluster
        upstream = http.client.HTTPSConnection(
            "127.0.0.1", cluster.port, context=self.server.context, timeout=90
        )
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _DROPPED | {"host"}}
        try:
            upstream.request(self.command, self.path, self.content or None, headers)
            with upstream.getresponse() as answer:
                yield answer
        finally:
            upstream.close()

    def _stream(self, answer: http.client.HTTPResponse) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _DROPPED:
                self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while (chunk := answer.read1(65536)) and not self.server.cut:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def reply(self, code: int, body: bytes) -> None:
        self.send_response_only(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base class's name)
        return

    def handle(self) -> None:
        try:
            super().handle()
        except (OSError, ValueError, http.client.HTTPException):
            self.close_connection = True  # the operator was killed, or the exchange cut off


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    cluster: Cluster

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.cluster = cluster
        self.context = ssl.create_default_context(cafile=str(cluster.api.ca))
        self.faults: dict[int, Fault] = {}
        self.cut = False
        self.writes = 0
        self._lock = threading.Lock()

    def next_write(self) -> tuple[Fault | None, int]:
        with self._lock:
            self.writes += 1
            return self.faults.pop(self.writes, None), self.writes


class Proxy:
    """Counts writes from 1; `break_write` says what happens to one of them."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self.url = f"http://127.0.0.1:{server.server_port}"

    @property
    def writes(self) -> int:
        return self._server.writes

    def cut(self, how: bool) -> None:
        """Refuse every call and end the open ones with their next message."""
        self._server.cut = how

    def break_write(self, number: int, fault: Fault) -> None:
        self._server.faults[number] = fault

    def kubeconfig(self, path: Path, token: str) -> Path:
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "test",
                    "clusters": [{"name": "test", "cluster": {"server": self.url}}],
                    "users": [{"name": "test", "user": {"token": token}}],
                    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                }
            )
        )
        return path


@contextmanager
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    server = _Server(cluster)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield Proxy(server)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
