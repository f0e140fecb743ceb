"""Computing a step so that a row that fails takes no other with it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from ferry_runtime.engine.model.contract import Row, Runner, SequenceId

logger = logging.getLogger(__name__)

# So many steps in a row without a single row that works are no row's fault.
_HOPELESS_STEPS = 3


class EngineBroken(Exception):
    """Steps fail whatever is in them: this process must be replaced."""


@dataclass(slots=True)
class Computed:
    logits: dict[SequenceId, torch.Tensor] = field(default_factory=dict)
    failed: set[SequenceId] = field(default_factory=set)


class Stepper:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._hopeless = 0

    def compute(self, decode: Sequence[Row], prefill: Sequence[Row]) -> Computed:
        """One step. If it raises, each of its rows is tried once more, alone.

        Raises EngineBroken when that helps nobody, or when the accelerator is lost.
        """
        try:
            result = Computed(dict(self._runner.step(decode, prefill)))
        except torch.AcceleratorError as error:
            raise EngineBroken("the accelerator reports an error that no retry mends") from error
        except Exception:
            logger.exception("a step of %d rows failed; trying each row alone", len(decode) + len(prefill))
            result = self._one_by_one(decode, prefill)
        self._judge(len(decode) + len(prefill), len(result.failed))
        return result

    def _one_by_one(self, decode: Sequence[Row], prefill: Sequence[Row]) -> Computed:
        result = Computed()
        for row in (*decode, *prefill):
            alone = ([row], []) if row in decode else ([], [row])
            try:
                result.logits.update(self._runner.step(*alone))
            except torch.AcceleratorError as error:
                raise EngineBroken("the accelerator reports an error that no retry mends") from error
            except Exception:
                logger.exception("a row of %d tokens failed alone too", len(row.token_ids))
                result.failed.add(row.sequence)
        return result

    def _judge(self, rows: int, failed: int) -> None:
        if failed < rows:
            self._hopeless = 0
            return
        self._hopeless += 1
        if rows > 1 or self._hopeless >= _HOPELESS_STEPS:
            raise EngineBroken("every row of a step failed, together and alone")
