"""How long calls may take: a write ends before another operator can hold the Lease."""

from __future__ import annotations

import asyncio

import pytest

from ferry_operator.clients.api import KubernetesApi
from ferry_operator.errors import Unreachable
from ferry_operator.kinds import CONFIG_MAP
from ferry_operator.metrics import Metrics
from ferry_operator.settings import LeaseTimes, Settings

_MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "team"}}


class Silent:
    """An API server that takes a call and never answers it."""

    async def param_serialize(self, *request, **_):
        return request

    async def call_api(self, *_):
        await asyncio.sleep(60)


def calls(api):
    return {
        "get": api.get(CONFIG_MAP, "team", "a"),
        "apply": api.apply(_MANIFEST, force=False),
        "delete": api.delete(CONFIG_MAP, "team", "a", "uid"),
    }


@pytest.mark.parametrize(("call", "limited"), [("get", False), ("apply", True), ("delete", True)])
async def test_writes_have_a_limit_of_their_own(call, limited):
    api = KubernetesApi(Silent(), Metrics(), timeout=30.0, write_timeout=0.01)
    made = calls(api)
    for name, other in made.items():
        if name != call:
            other.close()
    if limited:
        with pytest.raises(Unreachable):
            await made[call]
    else:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(made[call], 0.2)


@pytest.mark.parametrize("times", [Settings().lease_times, LeaseTimes(lease=20, renew=12)], ids=str)
def test_a_write_sent_in_the_last_moment_ends_before_another_may_lead(times):
    assert times.write > 0
    assert times.renew + times.write <= times.lease
