"""What a plan is: objects to have, in order, and how each may be handled."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ferry_operator.kinds import Kind, kind_of

Manifest = dict[str, Any]


class Policy(StrEnum):
    """How an object is held to its plan."""

    OWNED = "Owned"
    """Ours: has our controller reference, is kept as planned, goes when it is no longer planned."""
    CREATE_ONCE = "CreateOnce"
    """Ours, made if absent and then left alone: its contents were generated and may have been edited."""
    RETAINED = "Retained"
    """Made by us, but the user's from then on: no owner reference, never deleted."""


class Generated(StrEnum):
    """Contents that are drawn at random when the object is made."""

    REDIS_PASSWORD = "RedisPassword"  # noqa: S105  (a name)
    ADMIN_KEY = "AdminKey"


@dataclass(frozen=True)
class Planned:
    """One object as it should be."""

    manifest: Manifest
    policy: Policy = Policy.OWNED
    generated: Generated | None = None

    @property
    def kind(self) -> Kind:
        return kind_of(self.manifest["apiVersion"], self.manifest["kind"])

    @property
    def name(self) -> str:
        name: str = self.manifest["metadata"]["name"]
        return name

    @property
    def key(self) -> tuple[Kind, str]:
        return self.kind, self.name


@dataclass(frozen=True)
class Plan:
    """The objects of one InferenceService, in the order in which they are created.

    Deterministic: the same inputs give the same plan, to the byte, in any process.
    """

    objects: tuple[Planned, ...]

    def get(self, kind: Kind, name: str) -> Planned | None:
        return next((planned for planned in self.objects if planned.key == (kind, name)), None)

    def of_kind(self, kind: Kind) -> tuple[Planned, ...]:
        return tuple(planned for planned in self.objects if planned.kind == kind)
