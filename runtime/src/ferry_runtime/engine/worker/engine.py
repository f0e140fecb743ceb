"""The engine, one step at a time: who joins, what is computed, which tokens come of it.

Continuous batching (Orca, Yu et al., OSDI 2022): sequences join and leave between any two steps.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections import deque
from collections.abc import Callable

import msgspec
import torch

from ferry_runtime.engine.model.contract import Row, Runner, SequenceId
from ferry_runtime.engine.protocol import Delta, EngineStats, FinishReason, GenerateRequest
from ferry_runtime.engine.wire import Failure, Step
from ferry_runtime.engine.worker.planning import Chunk, PrefillBudget, plan_prefill
from ferry_runtime.engine.worker.refusal import refusal
from ferry_runtime.engine.worker.scoring import Next, Ready, Scorer
from ferry_runtime.engine.worker.sequence import Sequence
from ferry_runtime.engine.worker.stepping import EngineBroken, Stepper
from ferry_runtime.engine.worker.tally import Tally
from ferry_runtime.engine.worker.vocabulary import Vocabulary
from ferry_runtime.errors import CannotFit

logger = logging.getLogger(__name__)

_LOGITS_BYTES = 64 << 20  # of prompts whose every token is scored, per step

_FAILED = "This request failed in the engine; others were not affected."
_NOT_FINITE = "The model gave no usable probabilities for this request: its logits are not finite."


class Engine:
    """Owns the runner. Sequences beyond its room wait in order of arrival.

    Not thread-safe. Raises EngineBroken from `step` when this process must be replaced.
    """

    def __init__(
        self,
        runner: Runner,
        vocabulary: Vocabulary,
        *,
        max_batched_tokens: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._runner = runner
        self._vocabulary = vocabulary
        self._clock = clock
        self._stepper = Stepper(runner)
        self._scorer = Scorer(vocabulary)
        self._budget = PrefillBudget(runner.cost, max_batched_tokens)
        deterministic = runner.info.numerics == "Deterministic"
        self._fixed_chunk = runner.cost.chunk_tokens if deterministic else None
        self._scored_budget = max(1, _LOGITS_BYTES // (4 * runner.info.vocab_size))
        self._sequences: dict[str, Sequence] = {}
        self._waiting: deque[Sequence] = deque()
        self._running: dict[SequenceId, Sequence] = {}
        self._ids = itertools.count()
        self._turn = 0
        self._tally = Tally()
        self._deltas: list[Delta] = []
        self._failures: list[Failure] = []

    @property
    def busy(self) -> bool:
        return bool(self._running or self._waiting or self._failures or self._deltas)

    @property
    def stats(self) -> EngineStats:
        return self._tally.snapshot(
            running=len(self._running),
            waiting=len(self._waiting),
            kv_blocks_used=self._runner.blocks_used,
            kv_blocks_total=self._runner.info.kv_blocks,
        )

    def submit(self, request: GenerateRequest) -> None:
        """Join as soon as there is room. A request that cannot be computed fails in the next step."""
        reason = refusal(request, self._runner.info)
        if reason is None:
            try:
                sequence = Sequence(next(self._ids), request, self._vocabulary, self._runner.info)
            except Exception:
                logger.exception("request %s could not be set up", request.request_id)
                reason = _FAILED
        if reason is not None:
            self._failures.append(Failure(request.request_id, reason))
        elif request.sampling.max_tokens == 0 and not sequence.scores_prompt:
            done = Delta(request_id=request.request_id, finish_reason=FinishReason.LENGTH)
            self._deltas.append(done)
        else:
            self._sequences[request.request_id] = sequence
            self._waiting.append(sequence)

    def cancel(self, request_id: str) -> None:
        """Forget a request, waiting, paused or running; its room is free at once."""
        if (sequence := self._sequences.pop(request_id, None)) is not None:
            self._leave(sequence)

    def pause(self, request_id: str) -> None:
        """Give up a request's room until `resume`. Its tokens do not change by it."""
        sequence = self._sequences.get(request_id)
        if sequence is not None:
            if sequence.id in self._running:
                self._tally.preemptions += 1
            self._leave(sequence)

    def resume(self, request_id: str) -> None:
        """Let a paused request join again, before those that wait."""
        sequence = self._sequences.get(request_id)
        if sequence is not None and sequence.id not in self._running and sequence not in self._waiting:
            sequence.rewind(in_chunks=self._fixed_chunk is None)
            self._waiting.appendleft(sequence)

    def step(self) -> Step:
        """Compute one step, and say what came of it since the last one."""
        started = self._clock()
        self._join()
        decode = [sequence for sequence in self._running.values() if not sequence.prefilling]
        prefill = self._plan(len(decode))
        weight = sum(
            self._runner.cost.weight(self._running[chunk.sequence].computed, chunk.count) for chunk in prefill
        )
        try:
            self._compute(decode, prefill)
        except torch.AcceleratorError as error:
            raise EngineBroken("the accelerator reports an error that no retry mends") from error
        seconds = self._clock() - started
        prefilled = sum(chunk.count for chunk in prefill)
        self._budget.observe(len(decode), weight, seconds)
        self._tally.step(decode_rows=len(decode), prefill_tokens=prefilled, seconds=seconds)
        step = Step(stats=self.stats, deltas=tuple(self._deltas), failures=tuple(self._failures))
        self._deltas, self._failures = [], []
        return step

    def _join(self) -> None:
        """Admit from the head of the queue. Nobody overtakes, so nobody starves."""
        while self._waiting:
            sequence = self._waiting[0]
            try:
                reused = self._runner.admit(
                    sequence.id, sequence.prefill, sequence.capacity, reuse=not sequence.scores_prompt
                )
            except CannotFit as error:
                self._fail(sequence, str(error))
                continue
            except Exception:
                logger.exception("request %s could not be admitted", sequence.request.request_id)
                self._fail(sequence, _FAILED)
                continue
            if reused is None:
                if not self._running:  # there will never be more room than now
                    self._fail(sequence, "The request needs more memory than the engine has.")
                    continue
                return
            self._waiting.popleft()
            self._running[sequence.id] = sequence
            self._tally.reused_tokens += sequence.reuse(reused)

    def _plan(self, decode_rows: int) -> list[Chunk]:
        waiting = [sequence for sequence in self._running.values() if sequence.prefilling]
        for sequence in waiting:
            if not sequence.scores_prompt and sequence.computed < len(sequence.request.prompt_token_ids):
                adopted = self._runner.adopt(sequence.id)
                self._tally.reused_tokens += sequence.reuse(max(adopted, sequence.computed))
        if not waiting:
            return []
        self._turn += 1
        prompts = [sequence.prompt() for sequence in waiting]
        return plan_prefill(
            prompts,
            self._budget.tokens(decode_rows),
            self._turn,
            cost=self._runner.cost,
            decode_rows=decode_rows,
            scored_budget=self._scored_budget,
            fixed_chunk=self._fixed_chunk,
        )

    def _compute(self, decode: list[Sequence], prefill: list[Chunk]) -> None:
        rows = [sequence.decode_row() for sequence in decode]
        chunks = [self._running[chunk.sequence].prefill_row(chunk.count) for chunk in prefill]
        if not rows and not chunks:
            return
        computed = self._stepper.compute(rows, chunks)
        ready: list[Ready] = []
        for row in (*rows, *chunks):
            sequence = self._running[row.sequence]
            if row.sequence in computed.failed:
                self._fail(sequence, _FAILED)
            else:
                self._advance(sequence, row, computed.logits.get(row.sequence), ready)
        chosen, failed = self._scorer.next_tokens(ready)
        for sequence in failed:
            self._fail(sequence, _FAILED)
        for item in chosen:
            self._extend(item)

    def _advance(self, sequence: Sequence, row: Row, logits: torch.Tensor | None, ready: list[Ready]) -> None:
        if logits is not None and sequence.scores_prompt:
            sequence.prompt_entries += self._scorer.prompt_entries(sequence, row.start, logits)
        sequence.computed += len(row.token_ids)
        if not sequence.awaits_token or logits is None:
            return
        if sequence.request.sampling.max_tokens == 0:
            request_id = sequence.request.request_id
            self._say(sequence, Delta(request_id=request_id, finish_reason=FinishReason.LENGTH))
        else:
            ready.append(Ready(sequence, logits[-1:]))

    def _extend(self, chosen: Next) -> None:
        sequence = chosen.sequence
        if chosen.token_id is None:
            self._fail(sequence, _NOT_FINITE)
            return
        try:
            sequence.tokens.append(chosen.token_id)
            sequence.sampler.record(chosen.token_id)
            delta = sequence.output.add(chosen.token_id, chosen.entry)
        except Exception:
            logger.exception("a token of request %s has no text", sequence.request.request_id)
            self._fail(sequence, _FAILED)
            return
        self._tally.generated_tokens += 1
        self._say(sequence, delta)

    def _say(self, sequence: Sequence, delta: Delta) -> None:
        if not sequence.has_spoken:
            entries = tuple(sequence.prompt_entries) if sequence.scores_prompt else None
            delta = msgspec.structs.replace(
                delta, prompt_logprobs=entries, cached_prompt_tokens=sequence.reused
            )
            sequence.has_spoken = True
        self._deltas.append(delta)
        if delta.finish_reason is not None:
            del self._sequences[sequence.request.request_id]
            self._leave(sequence)

    def _fail(self, sequence: Sequence, message: str) -> None:
        del self._sequences[sequence.request.request_id]
        self._failures.append(Failure(sequence.request.request_id, message))
        self._leave(sequence)

    def _leave(self, sequence: Sequence) -> None:
        if self._running.pop(sequence.id, None) is not None:
            self._runner.release(sequence.id, tokens=sequence.tokens[: sequence.computed])
        elif sequence in self._waiting:
            self._waiting.remove(sequence)
