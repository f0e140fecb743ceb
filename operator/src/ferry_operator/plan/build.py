"""Puts the parts of a plan together."""

from __future__ import annotations

from ferry_operator.kinds import APPLIED, OPTIONAL
from ferry_operator.plan import config, exposure, guards, redis, runtime
from ferry_operator.plan.inputs import Inputs
from ferry_operator.plan.model import Plan

_ORDER = {kind: position for position, kind in enumerate((*APPLIED, *OPTIONAL))}


def build_plan(inputs: Inputs) -> Plan:
    """Every object that one InferenceService is to have, what pods refer to before the pods."""
    cold, hot = config.build(inputs)
    objects = (
        *guards.build(inputs),
        cold,
        hot,
        *redis.build(inputs),
        runtime.build(inputs, cold.name),
        *exposure.build(inputs),
    )
    return Plan(tuple(sorted(objects, key=lambda planned: _ORDER[planned.kind])))
