"""YAML to plain values, with the line of every key.

PyYAML's own constructor forgets lines, takes the last of two equal keys without a word and makes
dates; manifests are JSON in another spelling, so this one does none of that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from ferry_api.problems import ManifestError, Problem

_MOST_NODES: Final = 100_000


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
    notes = _Notes()
    notes.take(node, "", frozenset())
    if notes.problems:
        raise ManifestError(notes.problems, origin)
    return Document(loader.construct_document(node), notes.lines)


@dataclass
class _Notes:
    """Lines of a document, and what plain values would hide."""

    lines: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def take(self, node: yaml.Node, path: str, above: frozenset[int]) -> None:
        """Note a node and what is in it; ``above`` are its parents."""
        if id(node) in above:
            raise yaml.MarkedYAMLError(problem="an alias contains itself", problem_mark=node.start_mark)
        if len(self.lines) > _MOST_NODES:
            raise yaml.MarkedYAMLError(problem="its aliases stand for too much", problem_mark=node.start_mark)
        self.lines.setdefault(path, node.start_mark.line + 1)
        above = above | {id(node)}
        if isinstance(node, yaml.MappingNode):
            self._mapping(node, path, above)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.take(item, f"{path}[{index}]", above)

    def _mapping(self, node: yaml.MappingNode, path: str, above: frozenset[int]) -> None:
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            at = f"{path}.{key.value}".lstrip(".")
            line = key.start_mark.line + 1
            if key.tag != "tag:yaml.org,2002:str":
                self.problems.append(Problem(at, "must be in quotes: YAML reads this key as no text", line))
            if key.value in seen:
                first = self.lines[at]
                self.problems.append(
                    Problem(at, f"is written twice (first in line {first}): remove one", line)
                )
            seen.add(key.value)
            self.lines.setdefault(at, line)
            self.take(value, at, above)


def _syntax_problem(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or "cannot be read"
    return Problem("", f"is not valid YAML: {what}", mark.line + 1 if mark is not None else None)
