"""Run one scenario, or list them."""

from __future__ import annotations

import argparse
import signal
import sys
from importlib import import_module
from pathlib import Path

SCENARIOS = {
    "cache_faults": "a store that is killed, hangs and comes back under load",
    "cache_judge": "how far the judge of two answers agrees with labels, on fow-cache",
    "cache_learning": "what thresholds learned per entry gain, on fow-cache in many wordings",
    "cache_quality": "how often the semantic cache hits and how often it is wrong, on fow-cache",
    "cache_speed": "search and verification by size, memory per entry, an exact hit",
    "deterministic": "bitwise equality of logits: alone, in random batches, cold and warm",
    "engine": "throughput over HTTP beside transformers, /livez under load, memory, time to ready",
    "mixed": "short and long requests at 1.2 times capacity, beside first come first served",
    "ramp": "1 to 50 users, adaptive batching beside fixed",
    "stall": "gaps between tokens of running streams while a prompt of 6,000 tokens is computed",
    "versus": "the load scenarios beside a policy of padded batches and plain cosine (engine A)",
    "load": "k6 scenarios, users x model size x pattern, an outside opinion: one HTML report",
    "soak": "ten minutes at 1.5 times capacity: memory and file descriptors",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "scenario", choices=sorted(SCENARIOS), help="; ".join(f"{k}: {v}" for k, v in SCENARIOS.items())
    )
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    # An ordered end, as from Ctrl-C: the servers that a scenario started end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    import_module(f"bench.{arguments.scenario}").run(arguments.results)


if __name__ == "__main__":
    main()
