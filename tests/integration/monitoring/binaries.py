"""Where Prometheus and promtool lie. Run as a script it fetches Debian's package, without installing it.

Installing would start a service; unpacking into the user's cache folder does not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

VARIABLE = "FERRY_PROMETHEUS"
"""Names a folder that holds `prometheus` and `promtool`."""
_NAMES = ("prometheus", "promtool")


def find(name: str) -> Path | None:
    """The executable: where the variable says, else where it was fetched to, else on the PATH."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given) / name
    fetched = _home() / "usr" / "bin" / name
    found = str(fetched) if fetched.is_file() else shutil.which(name)
    return Path(found) if found else None


def fetch() -> str | None:
    """Returns why it is not there afterwards; None: it is."""
    if all(find(name) for name in _NAMES):
        return None
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        return f"no apt-get here: set {VARIABLE} to a folder with prometheus and promtool"
    home = _home()
    home.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(home.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=home.parent) as folder:
        for command in (["apt-get", "download"], ["apt-get", "update"], ["apt-get", "download"]):
            update = command[-1] == "update"
            done = subprocess.run(
                command if update else [*command, "prometheus"],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            packages = list(Path(folder).glob("prometheus_*.deb"))
            if packages:
                subprocess.run(["dpkg", "-x", str(packages[0]), str(home)], check=True)
                return None
        return f"apt-get download prometheus failed: {done.stderr.strip()[-300:]}"


def _home() -> Path:
    return user_cache_path("ferry") / "prometheus"


if __name__ == "__main__":
    if reason := fetch():
        print(f"Prometheus is not there, so its tests will be skipped: {reason}", file=sys.stderr)  # noqa: T201
