"""The chart, installed as a user does it."""

from __future__ import annotations

from dataclasses import dataclass

from e2e.harness.cluster import Cluster
from e2e.harness.images import ROOT, Images

NAMESPACE = "ferry-system"
_CHART = str(ROOT / "charts" / "ferry")
_OPERATOR = "app.kubernetes.io/name=ferry-operator"


@dataclass(frozen=True)
class Release:
    """The one release of the cluster, in a namespace that enforces the restricted standard."""

    cluster: Cluster
    images: Images
    name: str = "ferry"

    def install(self, **more: str) -> None:
        """Install it, or upgrade what is there; returns when the operator is ready.

        ``more`` are values as helm's --set takes them.
        """
        self.cluster.kubectl(
            "apply",
            "--filename=-",
            text=f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {NAMESPACE}, labels: "
            f"{{pod-security.kubernetes.io/enforce: restricted}}}}}}",
        )
        repository, _, tag = self.images.operator.rpartition(":")
        values = {
            "image.repository": repository,
            "image.tag": tag,
            "runtime.image": self.images.fake,
            "redis.image": self.images.redis,
        }
        # Helm lets --set-string win over --set, whatever their order.
        strings = {key: value for key, value in values.items() if key not in more}
        settings = [word for key, value in strings.items() for word in ("--set-string", f"{key}={value}")]
        settings += [word for key, value in more.items() for word in ("--set", f"{key}={value}")]
        self.cluster.helm(
            "upgrade", "--install", self.name, _CHART, "--namespace", NAMESPACE, "--wait", *settings
        )

    def uninstall(self) -> None:
        self.cluster.helm("uninstall", self.name, "--namespace", NAMESPACE, "--wait")

    def operator_pods(self) -> list[str]:
        found = self.cluster.get("pods", "--namespace", NAMESPACE, "--selector", _OPERATOR)["items"]
        return [pod["metadata"]["name"] for pod in found]
