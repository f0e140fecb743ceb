"""`ferry serve`: what a pod starts."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

from ferry_api import pod_layout
from ferry_runtime.api.version import VERSION
from ferry_runtime.cli.exits import CommandFailed
from ferry_runtime.cli.port import listen
from ferry_runtime.cli.serving import choose_store, serve_until_stopped
from ferry_runtime.configuration import ConfigurationSource, LiveConfiguration
from ferry_runtime.errors import FerryError
from ferry_runtime.logs import set_up_logging
from ferry_runtime.models.cachefolder import default_cache_folder
from ferry_runtime.service import Service, Surroundings
from ferry_runtime.settings import path_prefix, read_secrets, unknown_variables
from ferry_runtime.tracing.setup import start_tracing

logger = logging.getLogger(__name__)

# Kubernetes shows this file's content in the pod's status (terminationMessagePath's default).
_TERMINATION_LOG = Path("/dev/termination-log")


def serve(config: Path | None, host: str, port: int) -> int:
    """Raises CommandFailed and FerryError; the caller turns them into exit codes."""
    set_up_logging(os.environ)
    try:
        return _serve(config, host, port)
    except (CommandFailed, FerryError) as error:
        _tell_kubernetes(str(error))
        raise


def _serve(config: Path | None, host: str, port: int) -> int:
    for sentence in unknown_variables(os.environ):
        logger.warning("%s", sentence)
    mounted = Path(pod_layout.CONFIG_FOLDER)
    live = LiveConfiguration(ConfigurationSource(config or (mounted if mounted.is_dir() else None)))
    around = Surroundings(
        cache_dir=default_cache_folder(),
        secrets=read_secrets(os.environ),
        store=choose_store(embedded=False),
        namespace=os.environ.get(pod_layout.ENV_SERVICE, "").strip(),
        tracing=start_tracing(os.environ, model=live.config.cold.model.served_name, version=VERSION),
        path_prefix=path_prefix(os.environ),
    )
    last = ""

    def progress(stage: str, _: float | None) -> None:
        nonlocal last
        if stage != last:
            last = stage
            logger.info("%s", stage)

    def ready(seconds: float) -> None:
        logger.info(
            "ready", extra={"seconds": round(seconds, 1), "model": live.config.cold.model.served_name}
        )

    with listen(host, port) as listener:
        logger.info("listening", extra={"host": host, "port": port})
        return serve_until_stopped(lambda: Service(live, around, progress), listener, ready)


def _tell_kubernetes(sentence: str) -> None:
    if _TERMINATION_LOG.exists():
        with contextlib.suppress(OSError):
            _TERMINATION_LOG.write_text(sentence, encoding="utf-8")
