"""Exit codes of `ferry`, and the one exception that carries one."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    INVALID = 1  # the manifest, a file or the environment asks for something that cannot be done
    USAGE = 2  # the command line is wrong (argparse's own code)
    MODEL = 3  # the model could not be prepared, loaded or kept running
    PORT = 4  # the address cannot be listened on
    NO_SERVER = 5  # `ferry drain` found no server to tell
    INTERRUPTED = 130  # Ctrl-C, as a shell reports it


EPILOG = """\
exit codes:
  0    done
  1    the manifest, a configuration file or an environment variable is not valid
  2    the command line is not valid
  3    the model could not be prepared, loaded or kept running
  4    the port is in use or may not be opened
  5    there is no running server to drain
  130  interrupted with Ctrl-C
"""


class CommandFailed(Exception):
    """Ends the command with a sentence on stderr, without a traceback."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code
