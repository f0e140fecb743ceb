"""The backend that computes here: an engine in a supervised child process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path

from ferry_api.runtime_config import ColdConfig
from ferry_runtime.engine.environment import engine_environment
from ferry_runtime.engine.protocol import (
    EngineState,
    EngineStats,
    GenerateRequest,
    ModelInfo,
    SamplingParams,
)
from ferry_runtime.engine.state import StateCell
from ferry_runtime.engine.stream import Mailbox, Stream
from ferry_runtime.engine.wire import (
    Cancel,
    Fatal,
    FromWorker,
    Heartbeat,
    Load,
    Pause,
    Progress,
    Ready,
    Resume,
    Step,
    Submit,
    ToWorker,
)
from ferry_runtime.errors import EngineDied, EngineError, EngineLoadError, EngineNotReady, RequestFailed
from ferry_runtime.process import Backoff, ChildCommand, ChildGone, Exit, Supervisor

logger = logging.getLogger(__name__)

_WARM_UP_ID = "warm-up"


class ProcessBackend:
    """Implements `Backend` over ``python -m ferry_runtime.engine.worker``.

    When that process dies, every open request gets EngineDied and it is started again, with
    back-off. A process that has open requests and gives no sign of life for ``hang_seconds`` is
    killed, which has the same effect.
    """

    def __init__(
        self,
        prepared_dir: Path,
        cold: ColdConfig,
        *,
        on_progress: Callable[[str, float | None], None] | None = None,
        on_stats: Callable[[EngineStats], None] | None = None,
        worker_module: str = "ferry_runtime.engine.worker",
        env: Mapping[str, str] | None = None,
        backoff: Backoff | None = None,
        hang_seconds: float = 120.0,
    ) -> None:
        """``on_progress`` gets a stage of loading and its fraction, if known. ``on_stats`` gets
        the statistics after every step, while there is none, and of an engine that is gone.
        ``hang_seconds`` must exceed the longest step."""
        self._load = Load(str(prepared_dir), cold.model_dump_json(by_alias=True))
        self._on_progress = on_progress
        self._on_stats = on_stats
        self._hang_seconds = hang_seconds
        self._state = StateCell(EngineState.LOADING)
        self._info: ModelInfo | None = None
        self._stats = EngineStats()
        self._open: dict[str, Mailbox] = {}
        self._failure = ""
        self._last_sign = time.monotonic()
        self._tasks: set[asyncio.Task[None]] = set()
        command = ChildCommand(
            name="engine", module=worker_module, env={**engine_environment(), **(env or {})}
        )
        self._supervisor = Supervisor(command, self, FromWorker, backoff=backoff)

    @property
    def state(self) -> EngineState:
        return self._state.value

    @property
    def info(self) -> ModelInfo:
        if self._info is None:
            raise EngineNotReady("The model is still being loaded. Retry in a moment.")
        return self._info

    @property
    def stats(self) -> EngineStats:
        return self._stats

    @property
    def failure(self) -> str:
        """Why the engine is not serving, as a sentence; empty when nothing has failed."""
        return self._failure

    @property
    def heartbeat_age(self) -> float:
        """Seconds since the engine process last said anything."""
        return time.monotonic() - self._last_sign

    @property
    def restarts(self) -> int:
        return max(0, self._supervisor.lives - 1)

    @property
    def pid(self) -> int | None:
        """Of the engine process; None between two lives."""
        return self._supervisor.pid

    def on_state(self, listener: Callable[[EngineState], None]) -> None:
        """Call ``listener`` at every transition."""
        self._state.listeners.append(listener)

    async def wait_state(self, *states: EngineState) -> EngineState:
        """Return once the state is one of ``states``."""
        return await self._state.wait(*states)

    async def start(self) -> None:
        self._supervisor.start()
        self._spawn(self._watch_for_hangs())
        state = await self.wait_state(EngineState.READY, EngineState.FAILED, EngineState.STOPPED)
        if state is not EngineState.READY:
            raise EngineLoadError(self._failure or "The engine was stopped while it was loading.")

    def generate(self, request: GenerateRequest) -> Stream:
        if self._state.value is not EngineState.READY:
            raise EngineNotReady(self._failure or "The engine is not ready. Retry in a moment.")
        return self._submit(request)

    def pause(self, request_id: str) -> None:
        """Free an open request's slot and memory within one step; its stream stays open and
        silent. What it had generated stays; what it will generate changes by no more than the rounding
        that Fast numerics allow, and not at all with Deterministic ones."""
        self._tell(request_id, Pause(request_id))

    def resume(self, request_id: str) -> None:
        """Let a paused request go on, ahead of those that wait in the engine."""
        self._tell(request_id, Resume(request_id))

    async def stop(self) -> None:
        # While it loads it does not listen: there is no point in asking politely.
        grace = 5.0 if self._state.value is EngineState.READY else 0.2
        self._state.set(EngineState.STOPPED)
        self._fail_all(EngineDied("The engine was stopped while this request was open."))
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._supervisor.stop(grace)

    # What the supervisor reports (process.Handler).

    def started(self) -> None:
        self._last_sign = time.monotonic()
        self._stats = EngineStats()
        self._supervisor.send(self._load)

    def received(self, message: FromWorker) -> None:
        self._last_sign = time.monotonic()
        match message:
            case Step():
                self._know(message.stats, message)
            case Heartbeat():
                self._know(message.stats)
            case Progress():
                if self._on_progress is not None:
                    self._on_progress(message.stage, message.fraction)
            case Ready():
                self._info = message.info
                self._spawn(self._warm_up())
            case Fatal():
                self._failure = message.message
                self._supervisor.give_up()

    def exited(self, end: Exit, restart_in: float | None) -> None:
        self._know(EngineStats())
        if self._state.value is EngineState.STOPPED:
            return
        if restart_in is None:
            self._failure = self._failure or (
                f"The engine process keeps failing: {end.reason}. The log says what it wrote last."
            )
            self._state.set(EngineState.FAILED)
        elif self._state.value is not EngineState.LOADING:
            self._state.set(EngineState.RESTARTING)
        self._fail_all(EngineDied("The engine process ended while this request was open."))

    def _know(self, stats: EngineStats, step: Step | None = None) -> None:
        self._stats = stats
        if step is not None:
            self._deliver(step)
        if self._on_stats is not None:
            self._on_stats(stats)

    def _submit(self, request: GenerateRequest) -> Stream:
        if request.request_id in self._open:
            raise ValueError(f"request id {request.request_id} is already open")
        try:
            self._supervisor.send(Submit(request))
        except ChildGone as error:
            raise EngineNotReady("The engine is being restarted. Retry in a moment.") from error
        if not self._open:
            self._last_sign = time.monotonic()  # silence counts from here
        mailbox = self._open[request.request_id] = Mailbox()
        return Stream(mailbox, partial(self._cancel, request.request_id))

    def _cancel(self, request_id: str) -> None:
        if self._open.pop(request_id, None) is not None:
            with contextlib.suppress(ChildGone):
                self._supervisor.send(Cancel(request_id))

    def _tell(self, request_id: str, message: ToWorker) -> None:
        if request_id in self._open:
            with contextlib.suppress(ChildGone):
                self._supervisor.send(message)

    def _deliver(self, step: Step) -> None:
        for delta in step.deltas:
            if delta.finish_reason is not None:
                mailbox = self._open.pop(delta.request_id, None)
            else:
                mailbox = self._open.get(delta.request_id)
            if mailbox is not None:  # None: cancelled while the step ran
                mailbox.put(delta)
        for failure in step.failures:
            if (mailbox := self._open.pop(failure.request_id, None)) is not None:
                mailbox.fail(RequestFailed(failure.message))

    def _fail_all(self, error: EngineError) -> None:
        mailboxes, self._open = list(self._open.values()), {}
        for mailbox in mailboxes:
            mailbox.fail(error)

    async def _warm_up(self) -> None:
        """A real generation, so that READY means servable and the first user waits no longer
        than the second."""
        sampling = SamplingParams(max_tokens=2, temperature=0.0, ignore_eos=True)
        prompt = tuple(range(min(8, self.info.vocab_size)))
        request = GenerateRequest(request_id=_WARM_UP_ID, prompt_token_ids=prompt, sampling=sampling)
        try:
            async for _ in self._submit(request):
                pass
        except (EngineDied, EngineNotReady):
            return  # exited() has said what follows
        except RequestFailed as error:
            self._failure = f"The engine loaded the model, but its first generation failed: {error}"
            self._supervisor.give_up()
            self._supervisor.kill()
            return
        self._failure = ""
        self._supervisor.healthy()
        self._state.set(EngineState.READY)

    async def _watch_for_hangs(self) -> None:
        late = False
        while True:
            await asyncio.sleep(self._hang_seconds / 4)
            # Late twice in a row: after a stall of this process, what the engine sent meanwhile is
            # read only when the loop comes round.
            was_late, late = late, bool(self._open) and self.heartbeat_age > self._hang_seconds
            if late and was_late:
                logger.error("the engine process gave no sign of life for %.0f s", self.heartbeat_age)
                self._supervisor.kill()
                late = False

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
