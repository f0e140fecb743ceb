"""`python -m ferry_runtime.cli`: the same as `ferry`."""

import sys

from ferry_runtime.cli import main

if __name__ == "__main__":
    sys.exit(main())
