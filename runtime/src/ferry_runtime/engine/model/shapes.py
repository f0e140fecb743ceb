"""Which shapes a step may have.

oneDNN makes machine code for every shape that it meets, about a megabyte each, and never gives it
back: measured, prompt chunks of any length up to 450 tokens took 1.5 GB. So the rows of a step are
padded to one of a few dozen numbers, and half-precision attention over a chunk to multiples.
"""

from __future__ import annotations

QUERY_MULTIPLE = 16
KEY_MULTIPLE = 64  # slots' rows are a multiple long, so reading up to one stays inside

_STEPS = ((256, 16), (512, 32), (1024, 64))  # up to so many rows, in multiples of that
_LARGEST_STEP = 256


def padded_rows(rows: int, slots: int) -> int:
    """Rows to compute for ``rows`` wanted ones. Decode batches, up to ``slots``, stay as they are."""
    if rows <= slots:
        return rows
    for limit, step in _STEPS:
        if rows <= limit:
            return round_up(rows, step)
    return round_up(rows, _LARGEST_STEP)


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
