"""Benchmarks: `python -m bench SCENARIO`, or `make bench`. Peers run in the same run; see bench/README.md."""
