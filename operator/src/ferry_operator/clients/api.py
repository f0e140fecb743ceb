"""Reads, server-side applies and deletes of single objects, as plain manifests.

Never POST or PUT: every write is idempotent, so a call whose answer was lost is simply repeated. The count of
replicas is not applied but patched, against the version that it was decided upon.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import aiohttp
from kubernetes.aio.client import ApiClient

from ferry_operator import labels
from ferry_operator.errors import NotFound, Unreachable, api_error
from ferry_operator.kinds import INFERENCE_SERVICE, Kind, kind_of
from ferry_operator.metrics import Metrics

Manifest = dict[str, Any]

_APPLY = "application/apply-patch+yaml"  # JSON is YAML
_MERGE = "application/merge-patch+json"
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_NEVER = "1"  # etcd's revision before anything is written
_PAGE = 250  # objects; bounds the memory of one page of a list


class KubernetesApi:
    """A thin, typed face over one connection.

    `may_write` is asked before each write and raises where writing is not allowed (any more); `answered` is
    told of every answer, errors included. Timeouts are in seconds, for a whole call.
    """

    def __init__(
        self,
        client: ApiClient,
        metrics: Metrics,
        *,
        timeout: float = 5.0,
        write_timeout: float = 3.0,
        may_write: Callable[[], None] = lambda: None,
        answered: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._timeout = timeout
        self._write_timeout = write_timeout
        self._may_write = may_write
        self._answered = answered

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """The object as it is now, or None."""
        return await self._get(kind, kind.path(namespace, name), None)

    async def get_metadata(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """The object's metadata alone: a Secret's contents stay on the server."""
        return await self._get(kind, kind.path(namespace, name), _METADATA_ONLY)

    async def pages(
        self, kind: Kind, namespace: str | None, label_selector: str
    ) -> AsyncIterator[tuple[int, list[Manifest]]]:
        """Every object that matches, page by page; no namespace: of all namespaces.

        Each page comes with the resourceVersion that the whole list is of: what is not in it may be younger.
        """
        more: str | None = None
        while True:
            query = [("labelSelector", label_selector), ("limit", str(_PAGE))]
            if more:
                query.append(("continue", more))
            page = await self._call("list", "GET", kind, kind.path(namespace), query=query)
            for item in page["items"]:
                item.setdefault("apiVersion", kind.api_version)
                item.setdefault("kind", kind.kind)
            yield int(page["metadata"]["resourceVersion"]), page["items"]
            more = page["metadata"].get("continue")
            if not more:
                return

    async def serves(self, kind: Kind) -> bool:
        """Whether the API server knows this kind now."""
        try:
            found = await self._call("discover", "GET", kind, f"/apis/{kind.group}/{kind.version}")
        except NotFound:
            return False
        return any(resource["name"] == kind.plural for resource in found["resources"])

    async def apply(self, manifest: Manifest, *, force: bool, subresource: str | None = None) -> Manifest:
        """Server-side apply by the operator's one field manager.

        :raises Conflict: without `force`, when another manager owns a field with another value.
        :raises Invalid: when the API server refuses the object.
        """
        self._may_write()
        kind = kind_of(manifest["apiVersion"], manifest["kind"])
        path = kind.path(manifest["metadata"]["namespace"], manifest["metadata"]["name"], subresource)
        query = [("fieldManager", labels.MANAGER), ("force", "true" if force else "false")]
        return await self._call("apply", "PATCH", kind, path, query=query, body=manifest, content_type=_APPLY)

    async def create(self, manifest: Manifest) -> Manifest:
        """Server-side apply of what must not be there yet.

        It names a version that no object can have, so that whatever has the name is in conflict with it,
        whoever owns which fields: one call instead of a look and an apply, and nothing can come between them.

        :raises Conflict: when something has the name.
        :raises Invalid: when the API server refuses the object.
        """
        unborn = {**manifest["metadata"], "resourceVersion": _NEVER}
        return await self.apply({**manifest, "metadata": unborn}, force=False)

    async def scale(self, resource: Mapping[str, Any], replicas: int) -> None:
        """Set the replicas of an InferenceService through its scale, if it is still as it is known.

        :raises Conflict: when it has changed since, perhaps its replicas by somebody else.
        """
        self._may_write()
        metadata = resource["metadata"]
        path = INFERENCE_SERVICE.path(metadata["namespace"], metadata["name"], "scale")
        body = {
            "metadata": {"resourceVersion": metadata["resourceVersion"]},
            "spec": {"replicas": replicas},
        }
        query = [("fieldManager", labels.AUTOSCALER)]
        await self._call(
            "scale", "PATCH", INFERENCE_SERVICE, path, query=query, body=body, content_type=_MERGE
        )

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str) -> None:
        """Delete this very object; one of the same name made since, or none, is left as it is."""
        self._may_write()
        body = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        try:
            await self._call("delete", "DELETE", kind, kind.path(namespace, name), body=body)
        except NotFound:
            return

    async def _get(self, kind: Kind, path: str, accept: str | None) -> Manifest | None:
        try:
            return await self._call("get", "GET", kind, path, accept=accept)
        except NotFound:
            return None

    async def _call(
        self,
        verb: str,
        method: str,
        kind: Kind,
        path: str,
        *,
        query: list[tuple[str, str]] | None = None,
        body: Manifest | None = None,
        content_type: str = "application/json",
        accept: str | None = None,
    ) -> Manifest:
        headers = {"Accept": accept or "application/json", "Content-Type": content_type}
        status = 0
        try:
            async with asyncio.timeout(self._timeout if method == "GET" else self._write_timeout):
                request = await self._client.param_serialize(
                    method, path, None, query or [], headers, body, auth_settings=["BearerToken"]
                )
                response = await self._client.call_api(*request)
                data = await response.read()
            status = response.status
            self._answered()
        except (aiohttp.ClientError, TimeoutError, ssl.SSLError, OSError) as error:
            raise Unreachable(f"{method} {path}", type(error).__name__) from error
        finally:
            self._metrics.api_calls.labels(verb, str(kind), str(status)).inc()
        if 200 <= status <= 299:
            result: Manifest = json.loads(data)
            return result
        raise api_error(f"{method} {path}", status, *_reason(data))


def _reason(data: bytes) -> tuple[str, str]:
    """Reason and message of a Status object; something in front of the API server may answer otherwise."""
    try:
        status = json.loads(data)
        return str(status.get("reason") or "Unknown"), str(status["message"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return "Unknown", data[:200].decode(errors="replace")
