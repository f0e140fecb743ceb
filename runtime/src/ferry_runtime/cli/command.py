"""Parses the command line and turns what goes wrong into a sentence and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ferry_api import pod_layout
from ferry_runtime.cli.exits import EPILOG, CommandFailed, Exit
from ferry_runtime.errors import ConfigurationError, EngineLoadError, FerryError, ModelPreparationError

_PORTS = range(1, 65_536)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the console script; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except CommandFailed as failure:
        return _fail(failure.code, str(failure))
    except ConfigurationError as error:
        return _fail(Exit.INVALID, str(error))
    except (ModelPreparationError, EngineLoadError) as error:
        return _fail(Exit.MODEL, str(error))
    except FerryError as error:
        return _fail(Exit.INVALID, str(error))
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone, as in `ferry validate … | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK


def _fail(code: Exit, message: str) -> int:
    sys.stderr.write(f"ferry: {message}\n")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ferry",
        description="Serve an open language model behind an OpenAI-compatible endpoint.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    run = commands.add_parser("run", help="serve a manifest on this machine")
    run.add_argument("manifest", type=Path, help="an InferenceService, such as examples/smollm2.yaml")
    run.add_argument("--port", type=_port, default=8000, help="default: 8000")
    run.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; any but this machine's own needs API keys (default: 127.0.0.1)",
    )
    run.set_defaults(command=_run)

    serve = commands.add_parser("serve", help="serve a configuration: what a pod starts")
    serve.add_argument(
        "--config",
        type=Path,
        help=f"a folder with cold/ and hot/ as in a pod ({pod_layout.CONFIG_FOLDER}), or a file; "
        "default: that folder if it exists, else environment variables alone",
    )
    serve.add_argument("--port", type=_port, default=pod_layout.HTTP_PORT, help="default: 8000")
    serve.add_argument("--host", default="", help="default: every address of the pod, IPv4 and IPv6")
    serve.set_defaults(command=_serve)

    validate = commands.add_parser("validate", help="check a manifest and name everything that is wrong")
    validate.add_argument("manifest", type=Path)
    validate.set_defaults(command=_validate)

    drain = commands.add_parser("drain", help="take the server of this container out of load balancing")
    drain.add_argument("--port", type=_port, default=pod_layout.HTTP_PORT, help="its port (default: 8000)")
    drain.add_argument(
        "--delay",
        type=float,
        default=float(pod_layout.DRAIN_DELAY_SECONDS),
        help="seconds to wait while load balancers catch up (default: %(default)g)",
    )
    drain.set_defaults(command=_drain)

    version = commands.add_parser("version", help="show versions")
    version.set_defaults(command=_version)
    return parser


def _port(text: str) -> int:
    try:
        port = int(text)
    except ValueError:
        port = 0
    if port not in _PORTS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: it must be a number from 1 to 65535")
    return port


# Each command is imported when it is used: `ferry version` need not wait for a web framework.


def _run(options: argparse.Namespace) -> int:
    from ferry_runtime.cli.run import run  # noqa: PLC0415

    return run(options.manifest, options.host, options.port)


def _serve(options: argparse.Namespace) -> int:
    from ferry_runtime.cli.serve import serve  # noqa: PLC0415

    return serve(options.config, options.host, options.port)


def _validate(options: argparse.Namespace) -> int:
    from ferry_runtime.cli.validate import validate  # noqa: PLC0415

    return validate(options.manifest)


def _drain(options: argparse.Namespace) -> int:
    from ferry_runtime.cli.drain import drain  # noqa: PLC0415

    return drain(options.port, options.delay)


def _version(_: argparse.Namespace) -> int:
    from ferry_runtime.cli.version import show_version  # noqa: PLC0415

    return show_version()
