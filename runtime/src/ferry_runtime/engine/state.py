"""A backend's state, observable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ferry_runtime.engine.protocol import EngineState


class StateCell:
    """Holds the state; STOPPED is final. ``listeners`` are called at every change."""

    def __init__(self, value: EngineState) -> None:
        self.value = value
        self.listeners: list[Callable[[EngineState], None]] = []
        self._waiters: list[tuple[frozenset[EngineState], asyncio.Future[EngineState]]] = []

    def set(self, value: EngineState) -> None:
        if value is self.value or self.value is EngineState.STOPPED:
            return
        self.value = value
        for states, waiter in self._waiters:
            if value in states and not waiter.done():
                waiter.set_result(value)
        for listener in list(self.listeners):
            listener(value)

    async def wait(self, *states: EngineState) -> EngineState:
        """The first of ``states`` that is reached, also when it has passed by the time that the
        waiting task runs."""
        if self.value in states:
            return self.value
        waiter: asyncio.Future[EngineState] = asyncio.get_running_loop().create_future()
        entry = (frozenset(states), waiter)
        self._waiters.append(entry)
        try:
            return await waiter
        finally:
            self._waiters.remove(entry)
