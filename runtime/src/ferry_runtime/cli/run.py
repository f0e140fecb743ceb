"""`ferry run`: the manifest that `kubectl apply` takes, served on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ferry_api.local import local_notes, local_problems
from ferry_api.manifest import load_manifest
from ferry_api.problems import ManifestError
from ferry_runtime.api.version import VERSION
from ferry_runtime.cli.display import StartDisplay, announce
from ferry_runtime.cli.exits import CommandFailed, Exit
from ferry_runtime.cli.port import is_loopback, listen
from ferry_runtime.cli.serving import choose_store, serve_until_stopped
from ferry_runtime.configuration import ConfigurationSource, LiveConfiguration
from ferry_runtime.errors import ConfigurationError
from ferry_runtime.logs import set_up_logging
from ferry_runtime.models.cachefolder import default_cache_folder
from ferry_runtime.service import Service, Surroundings
from ferry_runtime.settings import path_prefix, read_secrets, unknown_variables
from ferry_runtime.tracing.setup import start_tracing


def run(manifest: Path, host: str, port: int) -> int:
    """Raises CommandFailed and FerryError; the caller turns them into exit codes."""
    set_up_logging(os.environ)
    _check(manifest)
    live = LiveConfiguration(ConfigurationSource(manifest))
    tracing = start_tracing(os.environ, model=live.config.cold.model.served_name, version=VERSION)
    secrets = read_secrets(os.environ)
    store = choose_store(embedded=True)
    listener = listen(host, port)
    with listener, StartDisplay() as display:
        local = is_loopback(listener) and secrets.api_keys_dir is None
        if not is_loopback(listener) and secrets.api_keys_dir is None:
            raise CommandFailed(Exit.INVALID, _needs_keys(host))
        around = Surroundings(
            cache_dir=default_cache_folder(),
            secrets=secrets,
            store=store,
            local=local,
            path_prefix=path_prefix(os.environ),
            tracing=tracing,
        )

        def ready(seconds: float) -> None:
            display.close()
            shown = f"[{host}]" if ":" in host else host
            announce(live.config.cold.model.served_name, f"http://{shown}:{port}", seconds)

        return serve_until_stopped(lambda: Service(live, around, display.update), listener, ready)


def _check(manifest: Path) -> None:
    try:
        service = load_manifest(manifest)
    except ManifestError as error:
        raise ConfigurationError(str(error)) from error
    if problems := local_problems(service):
        raise ConfigurationError("\n  ".join([f"{manifest} cannot be served here:", *map(str, problems)]))
    for note in [*map(str, local_notes(service)), *unknown_variables(os.environ)]:
        sys.stderr.write(f"ferry: note: {note}\n")


def _needs_keys(host: str) -> str:
    return (
        f"Listening on {host} would open this model to others, and no API keys are set: keep 127.0.0.1, "
        "or name a folder of key entries in FERRY_API_KEYS_DIR. An entry is a file NAME that holds "
        '{"sha256": "…", "tenant": "…"}, the digest being what `printf %s KEY | sha256sum` prints.'
    )
