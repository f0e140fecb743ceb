"""Counters over one life of the engine process."""

from __future__ import annotations

from dataclasses import dataclass

from ferry_runtime.engine.protocol import EngineStats


@dataclass(slots=True)
class Tally:
    steps: int = 0
    prefill_tokens: int = 0
    reused_tokens: int = 0
    generated_tokens: int = 0
    preemptions: int = 0
    decode_rows: int = 0  # of the latest step
    step_seconds: float = 0.0  # of the latest step

    def step(self, *, decode_rows: int, prefill_tokens: int, seconds: float) -> None:
        self.steps += 1
        self.decode_rows = decode_rows
        self.prefill_tokens += prefill_tokens
        self.step_seconds = seconds

    def snapshot(
        self, *, running: int, waiting: int, kv_blocks_used: int, kv_blocks_total: int
    ) -> EngineStats:
        return EngineStats(
            running=running,
            waiting=waiting,
            steps=self.steps,
            decode_rows=self.decode_rows,
            prefill_tokens=self.prefill_tokens,
            reused_tokens=self.reused_tokens,
            generated_tokens=self.generated_tokens,
            kv_blocks_used=kv_blocks_used,
            kv_blocks_total=kv_blocks_total,
            preemptions=self.preemptions,
            step_seconds=self.step_seconds,
        )
