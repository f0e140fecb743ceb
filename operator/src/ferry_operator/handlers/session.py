"""kopf's own connection to the API server: the client's server and credentials, and more patience."""

from __future__ import annotations

import asyncio
import datetime
import os
from collections.abc import MutableMapping
from typing import Any, cast

import aiohttp
import kopf
from kubernetes.aio.client import ApiClient

from ferry_operator.handlers.freshness import Freshness

_TOKEN_LIFE = datetime.timedelta(minutes=10)  # then a pod's rotated token is read again
_FIRST_WAIT = 1.0  # seconds until a closed namespace is asked for again, doubled each time
_LONGEST_WAIT = 30.0


async def connected(client: ApiClient, freshness: Freshness) -> kopf.AiohttpSession:
    """A session of its own for kopf's watches."""
    configuration = client.configuration
    authentication = (await configuration.auth_settings()).get("BearerToken")
    headers = {authentication["key"]: authentication["value"]} if authentication else {}
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=client.rest_client.ssl_context),
        headers=headers,
        trace_configs=[freshness.trace()],
    )
    rotates = bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
    return kopf.AiohttpSession(
        aiohttp_session=cast(aiohttp.ClientSession, PatientSession(session, freshness)),
        server=configuration.host,
        expiration=datetime.datetime.now(datetime.UTC) + _TOKEN_LIFE if rotates else None,
    )


class PatientSession:
    """What kopf uses of a session. A namespace that is closed to us is asked for until it is open again.

    A namespace takes its Role with it when it is deleted. kopf takes a refusal for the end of all its work,
    so one deleted namespace of the scope would end the work on the others: it is not told.
    """

    def __init__(self, session: aiohttp.ClientSession, freshness: Freshness) -> None:
        self._session = session
        self._freshness = freshness

    @property
    def headers(self) -> MutableMapping[str, str]:
        return self._session.headers

    @property
    def closed(self) -> bool:
        return self._session.closed

    async def close(self) -> None:
        await self._session.close()

    async def request(self, **arguments: Any) -> aiohttp.ClientResponse:
        """The answer, once it is not that a whole namespace may not be read."""
        wait = _FIRST_WAIT
        while True:
            response = await self._session.request(**arguments)
            path = response.url.path
            if response.status != 403 or "/namespaces/" not in path:
                return response
            response.release()
            self._freshness.refused(path)
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)
