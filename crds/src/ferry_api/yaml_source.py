"""YAML to plain values, with the line of every key.

PyYAML's own constructor forgets lines, takes the last of two equal keys without a word and makes
dates; manifests are JSON in another spelling, so this one does none of that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

from ferry_api.problems import ManifestError, Problem


class _Loader(yaml.SafeLoader):
    """SafeLoader without dates: Kubernetes reads an unquoted 2026-01-01 as a string."""

    yaml_implicit_resolvers = {  # noqa: RUF012  (the base class' own name and shape)
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@dataclass(frozen=True)
class Document:
    """One mapping of a YAML stream."""

    content: dict[str, Any]
    lines: dict[str, int] = field(default_factory=dict)  # dotted path → line, from 1

    def line_of(self, path: str) -> int | None:
        """The line of the field, or of its nearest parent that is written out."""
        while path not in self.lines:
            if not path:
                return None
            cut = max(path.rfind("."), path.rfind("["))
            path = path[:cut] if cut > 0 else ""
        return self.lines[path]


def read_documents(text: str, origin: str | None = None) -> list[Document]:
    """All mappings of a stream; empty documents are passed by. Raises ManifestError."""
    loader = _Loader(text)
    documents = []
    try:
        while loader.check_node():
            node = loader.get_node()
            document = _document(loader, node, origin) if node is not None else None
            if document is not None:
                documents.append(document)
    except yaml.YAMLError as error:
        raise ManifestError([_syntax_problem(error)], origin) from None
    except RecursionError:
        raise ManifestError([Problem("", "is nested too deeply to be a manifest")], origin) from None
    finally:
        loader.dispose()
    return documents


def _document(loader: _Loader, node: yaml.Node, origin: str | None) -> Document | None:
    if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null":
        return None
    if not isinstance(node, yaml.MappingNode):
        raise ManifestError(
            [Problem("", "must be a mapping: begin with apiVersion and kind", node.start_mark.line + 1)],
            origin,
        )
    lines = {"": node.start_mark.line + 1}
    twice: list[Problem] = []
    _note(node, "", lines, twice, set())
    if twice:
        raise ManifestError(twice, origin)
    return Document(_plain(loader, node), lines)


def _note(node: yaml.Node, path: str, lines: dict[str, int], twice: list[Problem], above: set[int]) -> None:
    """Collect lines and repeated keys. An alias back to a parent would never end."""
    if id(node) in above:
        raise yaml.constructor.ConstructorError(None, None, "an alias contains itself", node.start_mark)
    above = above | {id(node)}
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                continue
            at = f"{path}.{key.value}".lstrip(".")
            line = key.start_mark.line + 1
            if key.value in seen:
                twice.append(Problem(at, f"is written twice (first in line {lines[at]}): remove one", line))
            else:
                seen.add(key.value)
                lines[at] = line
            _note(value, at, lines, twice, above)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            at = f"{path}[{index}]"
            lines[at] = item.start_mark.line + 1
            _note(item, at, lines, twice, above)


def _plain(loader: _Loader, node: yaml.Node) -> Any:
    content = loader.construct_document(node)
    if _has_odd_key(content):
        raise yaml.constructor.ConstructorError(None, None, "every key must be a string", node.start_mark)
    return content


def _has_odd_key(value: Any) -> bool:
    if isinstance(value, dict):
        return any(not isinstance(key, str) or _has_odd_key(item) for key, item in value.items())
    return isinstance(value, list) and any(_has_odd_key(item) for item in value)


def _syntax_problem(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or "cannot be read"
    return Problem("", f"is not valid YAML: {what}", mark.line + 1 if mark is not None else None)
