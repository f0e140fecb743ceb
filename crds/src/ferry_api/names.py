"""What an InferenceService may be called, and what to call it instead.

Its Service takes the name as it is, so it has to be a DNS label (RFC 1035); `-redis` and
`-runtime` end the names of the operator's other objects.
"""

from __future__ import annotations

import re
from typing import Final

from ferry_api.schema import Rule

MAX_LENGTH: Final = 45
PATTERN: Final = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
RESERVED_SUFFIXES: Final = ("-redis", "-runtime")

_NAME = re.compile(PATTERN)
_MUST = (
    f"must be at most {MAX_LENGTH} lower-case letters, digits and -, begin with a letter, end with a letter "
    "or digit, and not end in -redis or -runtime"
)
_ELSEWHERE = "(the model's own name belongs in spec.model.servedName)"


def is_valid_name(name: str) -> bool:
    return (
        len(name) <= MAX_LENGTH and _NAME.fullmatch(name) is not None and not name.endswith(RESERVED_SUFFIXES)
    )


def mended_name(name: str) -> str:
    """The nearest valid name. NAME_RULE computes the same in CEL, step by step."""
    name = re.sub("[^a-z0-9-]", "-", name.lower())
    name = name if re.match("[a-z]", name) else f"m-{name}"
    name = name[:MAX_LENGTH]
    if name.endswith(RESERVED_SUFFIXES):
        name = name.replace("-redis", "").replace("-runtime", "")
    kept = re.match("[a-z0-9-]*[a-z0-9]", name)
    return kept.group() if kept else "model"


def name_sentence(name: str) -> str:
    return f"{_MUST}: write {mended_name(name)} {_ELSEWHERE}"


# CEL has no `let`: each step is a map over a list of one.
_MENDED = (
    "[self.metadata.name.lowerAscii().replace('.', '-').replace('_', '-')]"
    ".map(n, n.matches('^[a-z]') ? n : 'm-' + n)"
    f".map(n, n.size() > {MAX_LENGTH} ? n.substring(0, {MAX_LENGTH}) : n)"
    ".map(n, n.endsWith('-redis') || n.endsWith('-runtime') "
    "? n.replace('-redis', '').replace('-runtime', '') : n)"
    ".map(n, n.find('^[a-z0-9-]*[a-z0-9]'))[0]"
)

NAME_RULE: Final = Rule(
    cel=f"self.metadata.name.size() <= {MAX_LENGTH} && self.metadata.name.matches('{PATTERN}') && "
    + " && ".join(f"!self.metadata.name.endsWith('{suffix}')" for suffix in RESERVED_SUFFIXES),
    holds=is_valid_name,
    message=f"{_MUST} {_ELSEWHERE}",
    message_cel=f"'{_MUST}: write ' + {_MENDED} + \" {_ELSEWHERE}\"",
    render=name_sentence,
)
