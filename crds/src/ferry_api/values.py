"""Kubernetes' spellings of time and size, parsed once and kept as they were written."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

# GEP-2257, the Gateway API's duration: https://gateway-api.sigs.k8s.io/geps/gep-2257/
DURATION_PATTERN: Final = r"^([0-9]{1,5}(h|m|s|ms)){1,4}$"
# apimachinery's resource.Quantity, without signs: nothing in this resource may be negative.
QUANTITY_PATTERN: Final = (
    r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE](\+|-)?([0-9]+(\.[0-9]*)?|\.[0-9]+))?$"
)

_MOST: Final = Decimal(2**63 - 1)
_MOST_DIGITS: Final = 1000  # more than any number between the least and the largest quantity has

_DURATION = re.compile(DURATION_PATTERN)
_DURATION_PART = re.compile(r"([0-9]{1,5})(ms|h|m|s)")
_MILLISECONDS = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}

_QUANTITY = re.compile(QUANTITY_PATTERN)
_QUANTITY_PARTS = re.compile(r"([0-9.]+)(.*)")
_MULTIPLIER: Final = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(10) ** (3 * power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(2) ** (10 * power) for power, suffix in enumerate("KMGTPE", start=1)},
}


def _full_match(pattern: re.Pattern[str], text: str) -> bool:
    # Python's $ also matches before a last newline; RE2's and the API server's does not.
    return pattern.match(text) is not None and not text.endswith("\n")


class Duration(str):
    """A GEP-2257 duration such as "1h30m" or "50ms"."""

    __slots__ = ()

    @staticmethod
    def is_valid(text: str) -> bool:
        return _full_match(_DURATION, text)

    def __new__(cls, text: str) -> Duration:
        if not cls.is_valid(text):
            raise ValueError(f"{text!r} is not a duration; write for example 50ms, 30s or 1h30m")
        return super().__new__(cls, text)

    @property
    def milliseconds(self) -> int:
        return sum(int(number) * _MILLISECONDS[unit] for number, unit in _DURATION_PART.findall(self))

    @property
    def seconds(self) -> float:
        return self.milliseconds / 1000

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._parse, json_schema_input_schema=core_schema.str_schema()
        )

    @classmethod
    def _parse(cls, value: object) -> Duration:
        if isinstance(value, str):
            return cls(value)
        raise ValueError(f"must be a duration with its unit, such as 50ms, 30s or 1h30m, not {value!r}")


class Quantity(str):
    """A Kubernetes resource quantity such as "500m", "4Gi" or "1e9"; whole numbers are taken too."""

    __slots__ = ()

    @staticmethod
    def is_valid(text: str) -> bool:
        return _full_match(_QUANTITY, text)

    def __new__(cls, text: str | int) -> Quantity:
        text = str(text)
        if not cls.is_valid(text):
            raise ValueError(f"{text!r} is not a quantity; write for example 4Gi, 500M or 1")
        return super().__new__(cls, text)

    @property
    def value(self) -> Decimal:
        """In the base unit: bytes, cores, devices. At most 2⁶³ - 1, as in Kubernetes, whatever is written."""
        parts = _QUANTITY_PARTS.fullmatch(self)
        assert parts is not None  # noqa: S101  (the constructor checked the whole spelling)
        number, suffix = parts.groups()
        multiplier = _MULTIPLIER.get(suffix)
        if multiplier is None:
            bound = Decimal(_MOST_DIGITS)
            multiplier = Decimal(10) ** max(-bound, min(bound, Decimal(suffix[1:])))
        if len(number.partition(".")[0].lstrip("0")) > _MOST_DIGITS:
            return _MOST
        return min(Decimal(number) * multiplier, _MOST)

    @property
    def bytes(self) -> int:
        return int(self.value)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._parse, json_schema_input_schema=core_schema.str_schema()
        )

    @classmethod
    def _parse(cls, value: object) -> Quantity:
        if isinstance(value, (str, int)) and not isinstance(value, bool):
            return cls(value)
        raise ValueError(f"must be a quantity, such as 4Gi, 500M or 1, not {value!r}")
