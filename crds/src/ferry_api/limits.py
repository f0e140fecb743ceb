"""What the type describes and this release cannot do yet.

Each line is refused by the API server (a CEL rule made from it) and by Python, with one sentence.
**To lift a limit: build the machinery, remove its line, run `make generate`.** Nothing else knows
about limits; the table of invalid manifests in tests/contract has a row per line, so the test
names the row to remove.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from ferry_api.schema import Rule


@dataclass(frozen=True)
class Limit:
    """Values of one field that are refused. ``path`` is below spec, dotted, in camelCase."""

    path: str
    sentence: str
    values: tuple[str, ...] = ()  # these values of an enum
    prefixes: tuple[str, ...] = ()  # strings that begin so
    present: bool = field(default=False)  # any value at all

    def rule(self) -> Rule:
        if self.present:
            return Rule("false", lambda value: value is None, self.sentence)
        if self.values:
            listed = ", ".join(f"'{value}'" for value in self.values)
            return Rule(f"!(self in [{listed}])", self._is_other_value, self.sentence)
        tests = " && ".join(f"!self.startsWith('{prefix}')" for prefix in self.prefixes)
        return Rule(tests, lambda value: not str(value).startswith(self.prefixes), self.sentence)

    def _is_other_value(self, value: Any) -> bool:
        return str(value) not in self.values


NOT_BUILT: Final[tuple[Limit, ...]] = (
    Limit(
        "engine.type",
        "engine type VLLM is not built in this release: write Transformers, or run vLLM yourself and write "
        "OpenAICompatible with its address in upstream.url",
        values=("VLLM",),
    ),
    Limit(
        "model.quantization",
        "quantization is not built in this release: write None",
        values=("Int8", "Int4"),
    ),
    Limit(
        "model.source",
        "s3:// sources are not built in this release: copy the weights to a volume and write pvc://CLAIM/PATH",
        prefixes=("s3://",),
    ),
    Limit(
        "model.source",
        "oci:// sources are not built in this release: copy the weights to a volume and write pvc://CLAIM/PATH",
        prefixes=("oci://",),
    ),
    Limit(
        "batching.mode",
        "batching mode Adaptive is not built in this release: write Fixed",
        values=("Adaptive",),
    ),
    Limit(
        "batching.targetTimeToFirstToken",
        "targetTimeToFirstToken belongs to batching mode Adaptive, which is not built in this release: "
        "remove it",
        present=True,
    ),
)


def limits_at(path: str) -> tuple[Rule, ...]:
    """The rules that stand on one field of the spec."""
    return tuple(limit.rule() for limit in NOT_BUILT if limit.path == path)
