"""Which route will serve a request, known before the router runs.

The guard and the metrics need the route's template; a raw path must neither decide about access
nor become a metric's label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import Scope

UNMATCHED = "unmatched"


@dataclass(frozen=True, slots=True)
class RouteMatch:
    """``served`` is false where the path is known but not with this method."""

    template: str
    served: bool


_NONE = RouteMatch(UNMATCHED, served=False)


class RouteTable:
    """Asks the app's own routes in the router's own order, so that both always agree.

    ``routes`` is the router's live list. A route that is neither a Route nor a Mount is refused:
    the guard could not name it.
    """

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._routes = routes

    def check(self) -> None:
        for route in self._routes:
            if not isinstance(route, Route | Mount):
                raise TypeError(f"{type(route).__name__} cannot be guarded: add its routes one by one.")

    def match(self, scope: Scope) -> RouteMatch:
        partial: RouteMatch | None = None
        for route in self._routes:
            found, _ = route.matches(scope)
            if found is Match.FULL:
                return RouteMatch(_template(route), served=True)
            if found is Match.PARTIAL and partial is None:
                partial = RouteMatch(_template(route), served=False)
        return partial or _NONE


def _template(route: BaseRoute) -> str:
    assert isinstance(route, Route | Mount)  # noqa: S101
    return route.path
