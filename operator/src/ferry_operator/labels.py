"""Labels and annotations of the objects that the operator makes.

Selectors and the server-side filter of watches are built from these: they are frozen for ever, since a
Deployment's selector cannot be changed and a Service's must go on matching pods of earlier releases.
No version, no chart name.
"""

from __future__ import annotations

from enum import StrEnum

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "ferry-operator"
"""Value of the managed-by label, and the one field manager of server-side apply."""

AUTOSCALER = "ferry-autoscaler"
"""The field manager of `replicas` where the built-in autoscaler writes them."""

SERVICE = "serving.ferry.dev/inferenceservice"
COMPONENT = "serving.ferry.dev/component"
WATCHED = f"{MANAGED_BY}={MANAGER}"

REDIS_AUTH = "serving.ferry.dev/redis-auth"
"""Annotation of Redis' pod template: changes with its password, which it reads at its start. The runtime
rereads it, and keeps its weights in memory."""

DEFAULT_IMAGE = "serving.ferry.dev/default-image"
"""Annotation of a Deployment: the image is the operator's choice of then, kept until pods roll anyway."""


class Component(StrEnum):
    RUNTIME = "runtime"
    REDIS = "redis"


def selector(service: str, component: Component) -> dict[str, str]:
    """What selects one component's pods of one InferenceService."""
    return {SERVICE: service, COMPONENT: component.value}


def labels(service: str, component: Component) -> dict[str, str]:
    """Labels of an object or pod template."""
    return {MANAGED_BY: MANAGER, **selector(service, component)}
