"""How one operator process is told to run: by environment variables, which the chart sets."""

from __future__ import annotations

import os
import re
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ferry_operator.errors import InvalidSettings

_NAMESPACE = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
_LABEL_KEY = re.compile(r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
_LABEL_VALUE = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
DEFAULT_RUNTIME_IMAGE = "ferry-runtime:0.1.0"
DEFAULT_REDIS_IMAGE = "valkey/valkey:8.1"


class Rollout(StrEnum):
    """When a new release's runtime image reaches running services."""

    ON_CHANGE = "OnChange"
    """With the next change of the cold configuration, which loads the weights anew anyway."""
    IMMEDIATE = "Immediate"


@dataclass(frozen=True)
class LeaseTimes:
    """Seconds. A holder that could not renew for `renew` stops writing; others take over after `lease`."""

    lease: int = 8
    renew: int = 5
    retry: int = 1

    @property
    def write(self) -> int:
        """How long one write may be under way: sent in the last moment, it ends before another may lead."""
        return self.lease - self.renew


@dataclass(frozen=True)
class Settings:
    """One process's settings.

    `namespaces` is the explicit choice of scope: a set of names, or empty for the whole cluster.
    """

    namespaces: tuple[str, ...] = ()
    namespace: str = "default"
    """The operator's own, where its Lease lives."""
    identity: str = field(default_factory=lambda: f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}")
    lease_name: str = "ferry-operator"
    lease_times: LeaseTimes = LeaseTimes()
    runtime_image: str = DEFAULT_RUNTIME_IMAGE
    redis_image: str = DEFAULT_REDIS_IMAGE
    rollout: Rollout = Rollout.ON_CHANGE
    cluster_domain: str = "cluster.local"
    monitor_labels: Mapping[str, str] = field(default_factory=dict)
    """Put on every ServiceMonitor, for a Prometheus that selects by them."""
    workers: int = 8
    resync_seconds: float = 300.0
    scaling_seconds: float = 15.0
    """Between two looks of the built-in autoscaler."""
    request_timeout: float = 5.0
    http_host: str = "0.0.0.0"  # noqa: S104  (the kubelet probes the pod's address)
    http_port: int = 8080
    log_level: str = "INFO"

    @property
    def cluster_wide(self) -> bool:
        return not self.namespaces


def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from FERRY_* variables.

    FERRY_SCOPE has no default: `*` for the whole cluster, or namespaces separated by commas.

    :raises InvalidSettings: naming the variable and what it takes.
    """
    values = os.environ if environment is None else environment
    scope = values.get("FERRY_SCOPE", "").strip()
    if not scope:
        raise InvalidSettings(
            "FERRY_SCOPE is not set: write `*` for the cluster, or namespaces separated by commas"
        )
    namespaces = () if scope == "*" else tuple(sorted({part.strip() for part in scope.split(",")}))
    for name in namespaces:
        if not _NAMESPACE.match(name):
            raise InvalidSettings(f"FERRY_SCOPE: {name!r} is not a namespace's name")
    default = Settings()
    return Settings(
        namespaces=namespaces,
        namespace=values.get("POD_NAMESPACE") or default.namespace,
        identity=values.get("POD_NAME") or default.identity,
        lease_name=values.get("FERRY_LEASE_NAME") or default.lease_name,
        runtime_image=values.get("FERRY_RUNTIME_IMAGE") or default.runtime_image,
        redis_image=values.get("FERRY_REDIS_IMAGE") or default.redis_image,
        rollout=_rollout(values.get("FERRY_RUNTIME_ROLLOUT") or default.rollout.value),
        cluster_domain=values.get("FERRY_CLUSTER_DOMAIN") or default.cluster_domain,
        monitor_labels=_pairs(values, "FERRY_SERVICE_MONITOR_LABELS"),
        workers=_whole(values, "FERRY_WORKERS", default.workers, 1, 64),
        scaling_seconds=_whole(values, "FERRY_SCALING_SECONDS", int(default.scaling_seconds), 1, 3600),
        http_host=values.get("FERRY_HTTP_HOST") or default.http_host,
        http_port=_whole(values, "FERRY_HTTP_PORT", default.http_port, 0, 65535),
        log_level=values.get("FERRY_LOG_LEVEL", default.log_level).upper(),
    )


def _rollout(text: str) -> Rollout:
    try:
        return Rollout(text)
    except ValueError:
        raise InvalidSettings(f"FERRY_RUNTIME_ROLLOUT: {text!r} is neither {' nor '.join(Rollout)}") from None


def _pairs(values: Mapping[str, str], name: str) -> dict[str, str]:
    found = {}
    for part in filter(None, (part.strip() for part in values.get(name, "").split(","))):
        key, equals, value = part.partition("=")
        if not (equals and _LABEL_KEY.match(key) and _LABEL_VALUE.match(value)):
            raise InvalidSettings(f"{name}: {part!r} is not a label: write key=value, separated by commas")
        found[key] = value
    return found


def _whole(values: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = values.get(name)
    if not text:
        return default
    if not text.isdecimal() or not least <= int(text) <= most:
        raise InvalidSettings(f"{name}: {text!r} is not a whole number from {least} to {most}")
    return int(text)
