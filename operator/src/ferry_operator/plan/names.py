"""What an InferenceService's objects are called. Frozen: a renamed object would be a second one."""

from __future__ import annotations


def service(name: str) -> str:
    return name


def runtime(name: str) -> str:
    """Deployment, hot ConfigMap, ServiceAccount and PodDisruptionBudget."""
    return f"{name}-runtime"


def cold_config(name: str, digest: str) -> str:
    return f"{name}-runtime-{digest}"


def redis(name: str) -> str:
    """Deployment, Service, Secret, NetworkPolicy and claim."""
    return f"{name}-redis"


def admin(name: str) -> str:
    return f"{name}-admin"


def weights(name: str) -> str:
    return f"{name}-weights"
