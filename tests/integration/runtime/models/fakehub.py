"""A hub on a loopback port: the few routes that a snapshot needs, from files in memory.

The shapes are those of https://huggingface.co/docs/hub/api as huggingface_hub reads them.
"""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

COMMIT = "c" * 40


@dataclass
class FakeHub:
    """``files`` of the one repository owner/tiny. ``token`` set: others are told it does not exist."""

    files: dict[str, bytes] = field(default_factory=dict)
    token: str | None = None
    gated: bool = False
    served: list[str] = field(default_factory=list)  # file names whose content was sent
    truncate: str | None = None  # a file whose connection breaks in the middle

    def __post_init__(self) -> None:
        hub = self

        class Handler(_Handler):
            state = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    state: FakeHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._route(with_body=False)

    def do_GET(self) -> None:
        self._route(with_body=True)

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def _route(self, *, with_body: bool) -> None:
        path = unquote(self.path.partition("?")[0])
        known = path.startswith(("/api/models/owner/tiny", "/owner/tiny/"))
        if not known or (
            self.state.token and self.headers.get("authorization") != f"Bearer {self.state.token}"
        ):
            self._refuse(401, "RepoNotFound")
        elif self.state.gated:
            self._refuse(403, "GatedRepo")
        elif path.startswith("/api/models/owner/tiny"):
            self._api(path.removeprefix("/api/models/owner/tiny"), with_body)
        else:
            _, revision, name = path.removeprefix("/owner/tiny/").split("/", 2)
            self._file(revision, name, with_body)

    def _api(self, rest: str, with_body: bool) -> None:
        parts = rest.strip("/").split("/")
        revision = parts[1] if len(parts) > 1 else "main"
        if revision not in ("main", COMMIT):
            self._refuse(404, "RevisionNotFound")
        elif parts[0] == "tree":
            tree = [
                {"type": "file", "path": name, "size": len(content), "oid": _etag(content)}
                for name, content in self.state.files.items()
            ]
            self._json(tree, with_body)
        else:
            siblings = [
                {"rfilename": name, "size": len(content)} for name, content in self.state.files.items()
            ]
            info = {
                "_id": "1",
                "id": "owner/tiny",
                "modelId": "owner/tiny",
                "sha": COMMIT,
                "siblings": siblings,
            }
            self._json({**info, "private": False, "tags": [], "downloads": 0, "likes": 0}, with_body)

    def _file(self, revision: str, name: str, with_body: bool) -> None:
        content = self.state.files.get(name)
        if revision not in ("main", COMMIT) or content is None:
            self._refuse(404, "EntryNotFound")
            return
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.send_header("etag", f'"{_etag(content)}"')
        self.send_header("x-repo-commit", COMMIT)
        self.send_header("content-type", "application/octet-stream")
        self.end_headers()
        if not with_body:
            return
        self.state.served.append(name)
        if name == self.state.truncate:
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
            return
        self.wfile.write(content)

    def _json(self, value: object, with_body: bool) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("x-error-code", code)
        self.send_header("content-length", "0")
        self.end_headers()


def _etag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
