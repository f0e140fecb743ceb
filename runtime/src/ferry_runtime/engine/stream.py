"""One open sequence, seen from the event loop: deltas in, deltas out, as the consumer comes.

A consumer that is slower than the engine finds what has gathered merged into one delta, so it
never holds up others, and what waits for it is bounded by its own answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Self

from ferry_runtime.engine.protocol import Delta


def merge(deltas: Sequence[Delta]) -> Delta:
    """Successive deltas of one sequence as one. Needs at least one."""
    if len(deltas) == 1:
        return deltas[0]
    first, last = deltas[0], deltas[-1]
    return Delta(
        request_id=first.request_id,
        text="".join([delta.text for delta in deltas]),
        token_ids=tuple([token for delta in deltas for token in delta.token_ids]),
        logprobs=tuple([entry for delta in deltas for entry in delta.logprobs]),
        prompt_logprobs=first.prompt_logprobs,
        cached_prompt_tokens=max([delta.cached_prompt_tokens for delta in deltas]),
        finish_reason=last.finish_reason,
        stop_reason=last.stop_reason,
    )


class Mailbox:
    """The backend's side. `Stream` is the consumer's; the backend must not hold that one, or its
    disappearance could not be noticed."""

    def __init__(self) -> None:
        self._deltas: list[Delta] = []
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.finished = False  # nothing more will be put

    def put(self, delta: Delta) -> None:
        if self.finished:
            return
        self._deltas.append(delta)
        self.finished = delta.finish_reason is not None
        self._wake()

    def fail(self, error: Exception) -> None:
        """Raise ``error`` at the consumer, after what it has not read yet."""
        if self.finished:
            return
        self.finished, self._error = True, error
        self._wake()

    def close(self) -> None:
        """The consumer has left."""
        self.finished, self._error = True, None
        self._deltas.clear()
        self._wake()

    async def take(self) -> Delta | None:
        """What has gathered, as one delta; None at the end. Raises the error that was put."""
        while not self._deltas:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            if self.finished:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        delta = merge(self._deltas)
        self._deltas.clear()
        return delta

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Stream:
    """A DeltaStream over a mailbox. Unlike a generator, it outlives a cancelled ``__anext__``.

    A consumer that forgets to close it cancels when the garbage collector finds it.
    """

    def __init__(self, mailbox: Mailbox, cancel: Callable[[], None]) -> None:
        """``cancel`` is called once, in the loop, if the stream is left before its end."""
        self._mailbox = mailbox
        self._cancel = cancel
        self._loop = asyncio.get_running_loop()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delta:
        delta = await self._mailbox.take()
        if delta is None:
            raise StopAsyncIteration
        return delta

    async def aclose(self) -> None:
        _leave(self._mailbox, self._cancel)

    def __del__(self) -> None:
        if not self._mailbox.finished:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and the engine with it
                self._loop.call_soon_threadsafe(_leave, self._mailbox, self._cancel)


def _leave(mailbox: Mailbox, cancel: Callable[[], None]) -> None:
    left_early = not mailbox.finished
    mailbox.close()
    if left_early:
        cancel()
