"""transformers' own generate() as the peer, in a process of its own with the same threads.

Started as `python -m bench.peers DIRECTORY`; reads one JSON request per line, answers one line.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.workload import Work


class Peer:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def tokens_per_second(self, works: Sequence[Work], batch: int) -> float:
        """Run the works in groups of ``batch``; only tokens that were asked for count."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"works": [asdict(w) for w in works], "batch": batch}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return sum(work.max_tokens for work in works) / float(answer["seconds"])


@contextlib.contextmanager
def transformers_peer(directory: Path, threads: int) -> Iterator[Peer]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.peers", str(directory), str(threads)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"},
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield Peer(process)
    finally:
        process.kill()
        process.wait()


def _main(directory: str, threads: int) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(threads)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(directory, padding_side="left")

    def generate(group: list[dict[str, object]]) -> None:
        # A padded batch shares one setting: greedy, the cheaper one, so that the peer is not held back.
        sampled = len(group) == 1 and group[0]["temperature"]
        choice = {"do_sample": True, "temperature": 0.8, "top_p": 0.95} if sampled else {"do_sample": False}
        inputs = tokenizer([str(w["prompt"]) for w in group], return_tensors="pt", padding=True)
        longest = max(int(str(w["max_tokens"])) for w in group)
        with torch.inference_mode():
            model.generate(
                **inputs,
                max_new_tokens=longest,
                min_new_tokens=longest,
                pad_token_id=tokenizer.pad_token_id,
                **choice,
            )

    generate([{"prompt": "warm up", "max_tokens": 4, "temperature": 0}])
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        works, batch = request["works"], request["batch"]
        started = time.perf_counter()
        for first in range(0, len(works), batch):
            generate(works[first : first + batch])
        print(json.dumps({"seconds": time.perf_counter() - started}), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
