"""Rotary position embedding: its parameters from config.json, its frequencies, its application.

Only kinds whose frequencies do not depend on how long the batch's longest sequence is: with the
others (dynamic NTK, longrope) a row's answer would depend on its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from ferry_runtime.engine.model.config import RawConfig
from ferry_runtime.engine.model.spec import RopeSpec
from ferry_runtime.errors import EngineLoadError

KINDS = ("default", "linear", "llama3", "yarn")


def read_rope(
    config: RawConfig, *, head_dim: int, context: int, theta: float = 10_000.0, partial: float = 1.0
) -> RopeSpec:
    """One set of parameters for all layers, in the current or the older spelling.

    ``theta`` and ``partial`` are the family's defaults for what the file leaves out.
    """
    given = dict(config.mapping("rope_scaling") or config.mapping("rope_parameters") or {})
    given.setdefault("rope_theta", config.number("rope_theta", "rotary_emb_base", default=theta))
    given.setdefault(
        "partial_rotary_factor", config.number("partial_rotary_factor", "rotary_pct", default=partial)
    )
    return rope_spec(given, head_dim=head_dim, context=context)


def rope_spec(given: Mapping[str, Any], *, head_dim: int, context: int) -> RopeSpec:
    kind = given.get("rope_type", given.get("type", "default"))
    if kind not in KINDS:
        raise EngineLoadError(
            f"This model's rotary embedding is of kind {kind!r}. Served are {', '.join(KINDS)}: the others "
            "change a row's answer with the length of its neighbours."
        )
    values = RawConfig(given)
    original = values.optional_integer("original_max_position_embeddings")
    factor = values.optional_number("factor", default=1.0)
    if factor is None:
        factor = context / (original or context)
    attention_factor = values.optional_number("attention_factor")
    if kind == "yarn" and attention_factor is None:
        attention_factor = _yarn_attention_factor(
            factor, values.optional_number("mscale"), values.optional_number("mscale_all_dim")
        )
    return RopeSpec(
        dim=int(head_dim * values.number("partial_rotary_factor", default=1.0)),
        theta=values.number("rope_theta", default=10_000.0),
        kind=kind,
        factor=factor,
        low_freq_factor=values.number("low_freq_factor", default=0.0),
        high_freq_factor=values.number("high_freq_factor", default=0.0),
        beta_fast=values.optional_number("beta_fast") or 32.0,
        beta_slow=values.optional_number("beta_slow") or 1.0,
        attention_factor=attention_factor if kind == "yarn" else None,
        original_context=original or context,
        truncate=values.flag("truncate", default=True),
    )


def inverse_frequencies(spec: RopeSpec) -> torch.Tensor:
    """Radians per position, [dim / 2], fp32."""
    exponents = torch.arange(0, spec.dim, 2, dtype=torch.float) / spec.dim
    frequencies = 1.0 / (spec.theta**exponents)
    if spec.kind == "linear":
        return frequencies / spec.factor
    if spec.kind == "llama3":
        return _llama3(spec, frequencies)
    if spec.kind == "yarn":
        return _yarn(spec, spec.theta**exponents)
    return frequencies


class Rotation:
    """cos and sin of a step's positions, applied in place to queries and keys.

    A head's dimensions are paired as (i, i + dim/2), as transformers stores its checkpoints.
    """

    def __init__(self, spec: RopeSpec, device: torch.device, dtype: torch.dtype) -> None:
        self._frequencies = inverse_frequencies(spec).to(device)
        self._scaling = 1.0 if spec.attention_factor is None else spec.attention_factor
        self._dtype = dtype
        self.dim = spec.dim

    def at(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """[tokens] → cos and sin, each [tokens, 1, dim]; the sine of the first half is negated, so
        that rotating is x · cos + roll(x) · sin."""
        angles = positions[:, None].float() * self._frequencies
        cos, sin = angles.cos(), angles.sin()
        if self._scaling != 1.0:
            cos, sin = cos * self._scaling, sin * self._scaling
        cosines = torch.cat((cos, cos), dim=-1).to(self._dtype)[:, None]
        sines = torch.cat((-sin, sin), dim=-1).to(self._dtype)[:, None]
        return cosines, sines


def rotate_(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    """Rotate [tokens, heads, dim] in place."""
    rolled = heads.roll(heads.shape[-1] // 2, -1)
    heads.mul_(cos).addcmul_(rolled, sin)


def _llama3(spec: RopeSpec, frequencies: torch.Tensor) -> torch.Tensor:
    """Llama 3.1's scaling: long waves are stretched, short ones kept, those between blended."""
    wavelengths = 2 * math.pi / frequencies
    longest = spec.original_context / spec.low_freq_factor
    shortest = spec.original_context / spec.high_freq_factor
    scaled = torch.where(wavelengths > longest, frequencies / spec.factor, frequencies)
    share = (spec.original_context / wavelengths - spec.low_freq_factor) / (
        spec.high_freq_factor - spec.low_freq_factor
    )
    blended = (1 - share) * scaled / spec.factor + share * scaled
    between = ~(wavelengths < shortest) & ~(wavelengths > longest)
    return torch.where(between, blended, scaled)


def _yarn(spec: RopeSpec, periods: torch.Tensor) -> torch.Tensor:
    """YaRN (arXiv 2309.00071, section 3.2): interpolate only the slow dimensions."""

    def dimension(rotations: float) -> float:
        turns = spec.original_context / (rotations * 2 * math.pi)
        return spec.dim * math.log(turns) / (2 * math.log(spec.theta))

    low, high = dimension(spec.beta_fast), dimension(spec.beta_slow)
    if spec.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, spec.dim - 1)
    if low == high:
        high += 0.001
    ramp = ((torch.arange(spec.dim // 2, dtype=torch.float) - low) / (high - low)).clamp(0, 1)
    return (1.0 / (spec.factor * periods)) * ramp + (1.0 / periods) * (1 - ramp)


def _yarn_attention_factor(factor: float, mscale: float | None, mscale_all: float | None) -> float:
    def magnitude(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    if mscale and mscale_all:
        return magnitude(mscale) / magnitude(mscale_all)
    return magnitude(1.0)
