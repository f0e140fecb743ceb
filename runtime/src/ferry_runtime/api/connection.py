"""One client's connection: what uvicorn leaves unbounded before a request is known to the guard.

The parser keeps whatever belongs to an unfinished line, and copies all of it for every piece that
arrives: without bounds a client that needs no key could fill the memory and hold the event loop.
"""

from __future__ import annotations

import asyncio

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ferry_runtime.api.errors import INVALID_REQUEST, ErrorBody, ErrorDetail

# Of a request line with its headers, and of any stretch that the parser must keep; as in h11.
MAX_HEAD_BYTES = 64 * 1024
# From the connection, or from a request's first byte, to the end of its headers.
HEAD_SECONDS = 60.0

_REFUSAL = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"


class _HeadTooLarge(Exception):
    """Raised through the parser, which then ends with an error of its own."""


class BoundedConnection(HttpToolsProtocol):
    """Answers 431 to a head that is too large, and closes a connection on which none completes."""

    head_seconds = HEAD_SECONDS

    _head = 0  # bytes of this request's line, headers and trailers
    _kept = 0  # bytes since the parser last handed anything over
    _too_large = False
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_expecting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._kept += len(data)
        super().data_received(data)
        if self._kept > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._too_large = True
            self.send_400_response("")

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn's words are not ours)
        """What uvicorn calls when its parser fails; also for a head that is too large."""
        if self._too_large:
            status, code = b"431 Request Header Fields Too Large", "headers_too_large"
            message = f"The request line and its headers are larger than {MAX_HEAD_BYTES} bytes."
        else:
            status, code, message = b"400 Bad Request", "invalid_http", "This is not a valid HTTP request."
        body = msgspec.json.encode(ErrorBody(ErrorDetail(message, INVALID_REQUEST, None, code)))
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            self.transport.write(_REFUSAL % (status, len(body)) + body)
        self.transport.close()

    # The parser's callbacks.

    def on_message_begin(self) -> None:
        self._head = self._kept = 0
        if self._late is None:
            self._expect_head()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_expecting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._kept = 0
        super().on_body(body)

    def _count(self, size: int) -> None:
        self._kept = 0
        self._head += size
        if self._head > MAX_HEAD_BYTES:
            self._too_large = True
            raise _HeadTooLarge

    def _expect_head(self) -> None:
        self._late = self.loop.call_later(self.head_seconds, self._give_up)

    def _stop_expecting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        self.transport.close()
