"""What a reconcile sees of the API server: objects by name, and calls that fail as a test wants."""

from __future__ import annotations

import copy
import itertools
from typing import Any

from tests.unit.operator.live import applied
from tests.unit.operator.samples import DEFAULTS, resource

from ferry_operator.errors import Unreachable, api_error
from ferry_operator.kinds import DEPLOYMENT, EVENT, INFERENCE_SERVICE, kind_of
from ferry_operator.observing.facts import observe
from ferry_operator.observing.store import Key, Store
from ferry_operator.reconciling.reconciler import Reconciler

KEY = Key("team", "chat")
Manifest = dict[str, Any]
_SERVING = {
    "observedGeneration": 1,
    "replicas": 1,
    "updatedReplicas": 1,
    "readyReplicas": 1,
}


class Objects:
    """Stands for the operator's client. `failing` is raised by applies of a kind, for as long as it is there;
    a kind in `unanswered` has no metadata to be had."""

    def __init__(self) -> None:
        self.live: dict[Any, Manifest] = {}
        self.failing: dict[Any, Exception] = {}
        self.unanswered: set[Any] = set()
        self.applied: list[Any] = []
        self.deleted: list[Any] = []
        self.looked_up: list[Any] = []
        self._versions = itertools.count(1000)

    def put(self, kind: Any, live: Manifest) -> Manifest:
        live["metadata"]["resourceVersion"] = str(next(self._versions))
        self.live[kind, live["metadata"]["name"]] = live
        return copy.deepcopy(live)

    async def get(self, kind: Any, namespace: str, name: str) -> Manifest | None:
        self.looked_up.append((kind, name))
        return copy.deepcopy(self.live.get((kind, name)))

    async def get_metadata(self, kind: Any, namespace: str, name: str) -> Manifest | None:
        if kind in self.unanswered:
            raise Unreachable("GET", "TimeoutError")
        found = await self.get(kind, namespace, name)
        return None if found is None else {"metadata": found["metadata"]}

    async def apply(self, manifest: Manifest, *, force: bool, subresource: str | None = None) -> Manifest:
        kind = kind_of(manifest["apiVersion"], manifest["kind"])
        name = manifest["metadata"]["name"]
        if kind != EVENT:
            self.applied.append((kind, name))
        if kind in self.failing:
            raise self.failing[kind]
        if kind == EVENT:
            return manifest
        if subresource == "status":
            return self.put(kind, {**self.live[kind, name], "status": manifest["status"]})
        return self.put(kind, applied(manifest, uid=f"{kind}/{name}"))

    async def create(self, manifest: Manifest) -> Manifest:
        kind, name = kind_of(manifest["apiVersion"], manifest["kind"]), manifest["metadata"]["name"]
        if (kind, name) in self.live:
            raise api_error("PATCH", 409, "Conflict", "the object has been modified")
        return await self.apply(manifest, force=False)

    async def delete(self, kind: Any, namespace: str, name: str, uid: str) -> None:
        self.deleted.append((kind, name))
        self.live.pop((kind, name), None)


class Scene:
    """A reconciler of one InferenceService, its store, and the API server in front of it."""

    def __init__(self, **more: Any) -> None:
        self.api = Objects()
        self.store = Store()
        self.reconciler = Reconciler(self.api, self.store, DEFAULTS, reporter="test", **more)

    def asks(self, at: int = 1, **spec: Any) -> Scene:
        """A user writes the resource; its status stays."""
        known = self.api.live.get((INFERENCE_SERVICE, KEY.name), {})
        made = resource(at=at, **spec)
        if "status" in known:
            made["status"] = known["status"]
        self.store.put_resource(self.api.put(INFERENCE_SERVICE, made))
        return self

    async def reconcile(self) -> float | None:
        return await self.reconciler.reconcile(KEY)

    def serve(self, *names: str, ready: int = 1) -> None:
        """The watch tells that Deployments serve (or do not, any more)."""
        for name in names or ("chat-runtime", "chat-redis"):
            self.tell(DEPLOYMENT, name, status={**_SERVING, "readyReplicas": ready})

    def drift(self, kind: Any) -> None:
        """Somebody took our labels off the objects of a kind; the watch filter's one stays."""
        for found, name in list(self.api.live):
            if found == kind:
                live = copy.deepcopy(self.api.live[kind, name])
                del live["metadata"]["labels"]["serving.ferry.dev/component"]
                self.tell(kind, name, metadata=live["metadata"])

    def tell(
        self, kind: Any, name: str, *, deleting: bool = False, owner: str | None = None, **change: Any
    ) -> None:
        """The watch tells of a changed object."""
        live = {**copy.deepcopy(self.api.live[kind, name]), **change}
        if deleting:
            live["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        if owner is not None:
            live["metadata"]["ownerReferences"][0]["uid"] = owner
        live = self.api.put(kind, live)
        observed = observe(kind, live)
        assert observed is not None
        self.store.put_child(observed)

    def gone(self, kind: Any, name: str) -> None:
        """The watch tells that an object was deleted."""
        self.store.drop_child(self.store.children(KEY)[kind, name])

    def succeeded(self, *kinds: Any) -> None:
        """The resource is one of the same name now: what there is (of these kinds) is its predecessor's."""
        for kind, name in list(self.api.live):
            if kind != INFERENCE_SERVICE and kind in (kinds or (kind,)):
                self.tell(kind, name, owner="the predecessor's uid")

    async def served(self, **spec: Any) -> Scene:
        """Everything is as planned and serves."""
        self.asks(**spec)
        await self.reconcile()
        self.serve()
        await self.reconcile()
        self.api.applied.clear()
        return self

    @property
    def status(self) -> Manifest:
        found: Manifest = self.api.live[INFERENCE_SERVICE, KEY.name].get("status", {})
        return found

    def told(self) -> dict[str, tuple[str, str]]:
        """Status and reason of each condition."""
        return {c["type"]: (c["status"], c["reason"]) for c in self.status.get("conditions", ())}

    def message(self, of_type: str = "Ready") -> str:
        found: str = next(c["message"] for c in self.status["conditions"] if c["type"] == of_type)
        return found
