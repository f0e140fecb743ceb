"""`python -m ferry_operator`."""

import sys

from ferry_operator.cli import main

sys.exit(main())
