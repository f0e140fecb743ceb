"""How the resource's types are written: a base class, and annotations that mean the same to
pydantic, to the CRD's schema and to its CEL rules.

A `Rule` says one thing twice: as CEL for the API server, as a Python predicate for everything
that reads a manifest without one. Both carry the same sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import AllowInfNan, BaseModel, ConfigDict, Strict
from pydantic.alias_generators import to_camel

from ferry_api.values import DURATION_PATTERN, Duration, Quantity

# YAML's "8" is not 8 and its `yes` is not "yes": the API server converts nothing, nor do we.
Int = Annotated[int, Strict()]
Number = Annotated[float, Strict(), AllowInfNan(False)]
Text = Annotated[str, Strict()]
Bool = Annotated[bool, Strict()]


@dataclass(frozen=True)
class Rule:
    """What must hold for a value beyond its type and bounds.

    ``cel`` sees the value as ``self``; ``holds`` gets the typed value. ``message_cel`` and
    ``render`` replace ``message`` where the sentence depends on the value. ``field`` names the
    child that the message is about, when the rule stands on an object.
    """

    cel: str
    holds: Callable[[Any], bool]
    message: str
    message_cel: str | None = None
    render: Callable[[Any], str] | None = None
    field: str | None = None

    def sentence(self, value: Any) -> str:
        return self.render(value) if self.render else self.message


@dataclass(frozen=True)
class TransitionRule:
    """What must hold between the stored value (``oldSelf``) and the new one; updates only."""

    cel: str
    holds: Callable[[Any, Any], bool]
    message: str
    field: str | None = None


@dataclass(frozen=True)
class Rules:
    """Rules on one field. Always the outermost annotation."""

    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Changes:
    """Transition rules on one field."""

    rules: tuple[TransitionRule, ...]


@dataclass(frozen=True)
class ListMap:
    """A list whose items are told apart by a key: server-side apply merges it item by item."""

    key: str


@dataclass(frozen=True)
class Opaque:
    """A part of Kubernetes' own types that is passed on as it is."""


@dataclass(frozen=True)
class Atomic:
    """An object default that is written out whole instead of per field."""


def matches(pattern: str, message: str) -> Rules:
    """A string that matches an RE2 pattern as a whole."""
    compiled = re.compile(pattern)
    return Rules((Rule(f"self.matches('{pattern}')", lambda v: compiled.fullmatch(v) is not None, message),))


def between(low: str, high: str, example: str) -> Rules:
    """A duration within bounds, both included."""
    least, most = Duration(low).milliseconds, Duration(high).milliseconds
    return Rules(
        (
            Rule(
                # duration() of a malformed value would be an unreadable error of its own.
                f"self.matches('{DURATION_PATTERN}') && "
                f"duration(self) >= duration('{low}') && duration(self) <= duration('{high}')",
                lambda v: least <= v.milliseconds <= most,
                f"must be a duration from {low} to {high}, such as {example}",
            ),
        )
    )


def at_least(low: str, example: str) -> Rules:
    """A quantity with a lower bound."""
    least = Quantity(low).value
    return Rules(
        (
            Rule(
                f"isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('{low}')) >= 0",
                lambda v: v.value >= least,
                f"must be at least {low}; write for example {example}",
            ),
        )
    )


# CEL for an object with a StorageClass: on a field by itself, a rule does not see it come or go.
SAME_CLASS = "has(self.class) == has(oldSelf.class) && (!has(self.class) || self.class == oldSelf.class)"


def only_grows(instead: str) -> Changes:
    """A volume's size. ``instead`` says what to do about one that is too large."""
    return Changes(
        (
            TransitionRule(
                "quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",
                lambda new, old: new.value >= old.value,
                f"a volume can grow, not shrink: write at least the present size, or {instead}",
            ),
        )
    )


class SpecModel(BaseModel):
    """Base of every object in the resource: camelCase outside, frozen, no unknown fields."""

    # Hidden inputs: an error that reaches a log must not bring a manifest's values along.
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    RULES: ClassVar[tuple[Rule, ...]] = ()
    TRANSITIONS: ClassVar[tuple[TransitionRule, ...]] = ()
