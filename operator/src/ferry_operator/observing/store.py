"""What the watches have told so far, by InferenceService.

Whole children are not kept: 500 services have some 6,000 of them, and a digest says all that is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ferry_operator.kinds import Kind
from ferry_operator.observing.facts import Observed

Resource = Mapping[str, Any]


class Key(NamedTuple):
    """Namespace and name of an InferenceService."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Asked(NamedTuple):
    """Whose reconcile a resource asks for. `by_user`: its spec is new, not only its status."""

    key: Key
    by_user: bool


class Store:
    """The latest known InferenceServices and children. Older news never replaces newer.

    Whoever puts something learns whom it concerns: nobody, where nothing of interest is different. So the
    echo of the operator's own writes, and most of what controllers write into a status, costs nothing more.
    """

    def __init__(self) -> None:
        self._resources: dict[Key, Resource] = {}
        self._children: dict[Key, dict[tuple[Kind, str], Observed]] = {}
        self._holders: dict[tuple[Kind, str, str], Key] = {}
        """Whose child an object is, by kind, namespace and name: one's at a time."""

    def __len__(self) -> int:
        return len(self._resources)

    def __iter__(self) -> Iterator[Key]:
        return iter(tuple(self._resources))

    def resource(self, key: Key) -> Resource | None:
        return self._resources.get(key)

    def children(self, key: Key) -> Mapping[tuple[Kind, str], Observed]:
        return self._children.get(key, {})

    def put_resource(self, resource: Resource) -> Asked | None:
        """Returns what it asks for, if it is news."""
        key = _key(resource)
        known = self._resources.get(key)
        if known is not None and _version(known) >= _version(resource):
            return None
        self._resources[key] = resource
        if known is not None and _unversioned(known) == _unversioned(resource):
            return None
        wanted = known is None or any(
            known["metadata"].get(field) != resource["metadata"].get(field) for field in ("uid", "generation")
        )
        return Asked(key, by_user=wanted)

    def drop_resource(self, resource: Resource) -> Key:
        """Forget a deleted resource, unless one of the same name has been made since."""
        key = _key(resource)
        known = self._resources.get(key)
        if known is not None and known["metadata"]["uid"] == resource["metadata"]["uid"]:
            del self._resources[key]
        return key

    def known(self, kind: Kind, metadata: Mapping[str, Any]) -> Observed | None:
        """A child, if this very state of it is known already: then it need not be looked at again."""
        key = self._holders.get((kind, metadata["namespace"], metadata["name"]))
        child = self._children[key].get((kind, metadata["name"])) if key is not None else None
        return child if child is not None and child.version == int(metadata["resourceVersion"]) else None

    def put_child(self, child: Observed) -> set[Key]:
        """Returns whom it concerns: two, when a child has changed hands; nobody, when it is no news."""
        key = Key(child.namespace, child.service)
        former = self._holders.get((child.kind, child.namespace, child.name), key)
        known = self.children(former).get((child.kind, child.name))
        if known is not None and known.version > child.version:
            return set()
        if known is not None and former != key:
            self._remove(former, known)
        self._children.setdefault(key, {})[child.kind, child.name] = child
        self._holders[child.kind, child.namespace, child.name] = key
        same = known is not None and replace(known, version=child.version) == child
        return set() if same else {former, key}

    def drop_child(self, child: Observed) -> Key:
        """Forget a deleted child, unless one of the same name has been made since."""
        named = Key(child.namespace, child.service)
        key = self._holders.get((child.kind, child.namespace, child.name), named)
        known = self.children(key).get((child.kind, child.name))
        if known is not None and known.uid == child.uid:
            self._remove(key, known)
        return key

    def _remove(self, key: Key, known: Observed) -> None:
        children = self._children[key]
        del children[known.kind, known.name]
        if not children:
            del self._children[key]
        del self._holders[known.kind, known.namespace, known.name]

    def keep_resources(self, listed: Iterable[Resource], namespace: str | None, version: int) -> set[Key]:
        """Take in a whole list of a namespace (or of all), as it was at a version; returns what was gone.

        Deletions that no watch reported are found this way. What is younger than the list is not missing.
        """
        fresh: set[Key] = set()
        for resource in listed:
            self.put_resource(resource)
            fresh.add(_key(resource))
        gone = {
            key
            for key, resource in self._resources.items()
            if key not in fresh and namespace in (None, key.namespace) and _version(resource) <= version
        }
        for key in gone:
            del self._resources[key]
        return gone

    def keep_children(
        self, kind: Kind, listed: Iterable[Observed], namespace: str | None, version: int
    ) -> set[Key]:
        """The same for the children of one kind; returns whose children were gone."""
        fresh: set[tuple[str, str]] = set()
        for child in listed:
            self.put_child(child)
            fresh.add((child.namespace, child.name))
        gone = [
            child
            for child in self._of_kind(kind)
            if (child.namespace, child.name) not in fresh
            and namespace in (None, child.namespace)
            and child.version <= version
        ]
        return {self.drop_child(child) for child in gone}

    def _of_kind(self, kind: Kind) -> Iterator[Observed]:
        for children in list(self._children.values()):
            yield from [child for child in children.values() if child.kind == kind]


def _key(resource: Resource) -> Key:
    return Key(resource["metadata"]["namespace"], resource["metadata"]["name"])


def _unversioned(resource: Resource) -> Resource:
    unversioned = {
        k: v for k, v in resource["metadata"].items() if k not in ("resourceVersion", "managedFields")
    }
    return {**resource, "metadata": unversioned}


def _version(resource: Resource) -> int:
    return int(resource["metadata"]["resourceVersion"])
