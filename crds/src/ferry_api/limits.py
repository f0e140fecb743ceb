"""What the type describes and this release cannot do yet.

Each entry is refused by the API server (a CEL rule made from it) and by Python, with one sentence.
**To lift a limit: build the machinery, remove its entry, run `make generate`**, and remove the rows
of tests/contract/invalid_manifests.yaml that then fail. Nothing else knows about limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ferry_api.schema import Rule


@dataclass(frozen=True)
class Limit:
    """``path`` is the field below spec that the rule stands on, dotted, in camelCase."""

    path: str
    rule: Rule


def _values(path: str, values: tuple[str, ...], sentence: str) -> Limit:
    """Refuse these values of an enum."""
    listed = ", ".join(f"'{value}'" for value in values)
    return Limit(path, Rule(f"!(self in [{listed}])", lambda value: str(value) not in values, sentence))


def _prefix(path: str, prefix: str, sentence: str) -> Limit:
    """Refuse strings that begin so."""
    rule = Rule(f"!self.startsWith('{prefix}')", lambda value: not value.startswith(prefix), sentence)
    return Limit(path, rule)


NOT_BUILT: Final[tuple[Limit, ...]] = (
    _values(
        "engine.type",
        ("VLLM",),
        "engine type VLLM is not built in this release: write Transformers, or run vLLM yourself and write "
        "OpenAICompatible with its address in upstream.url",
    ),
    _values("model.quantization", ("Int8", "Int4"), "quantization is not built in this release: write None"),
    _prefix(
        "model.source",
        "s3://",
        "s3:// sources are not built in this release: copy the weights to a volume and write pvc://CLAIM/PATH",
    ),
    _prefix(
        "model.source",
        "oci://",
        "oci:// sources are not built in this release: copy the weights to a volume and write pvc://CLAIM/PATH",
    ),
)


def limits_at(path: str) -> tuple[Rule, ...]:
    """The rules that stand on one field of the spec."""
    return tuple(limit.rule for limit in NOT_BUILT if limit.path == path)
