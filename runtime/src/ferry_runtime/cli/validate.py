"""`ferry validate`: everything that is wrong with a manifest, at once."""

from __future__ import annotations

import sys
from pathlib import Path

from ferry_api.local import local_notes, local_problems
from ferry_api.manifest import check_manifest, load_manifests
from ferry_runtime.cli.exits import Exit


def validate(manifest: Path) -> int:
    problems = check_manifest(manifest)
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        sys.stderr.write(f"{manifest}: {count}\n")
        for problem in problems:
            sys.stderr.write(f"  {problem}\n")
        return Exit.INVALID
    for service in load_manifests(manifest):
        sys.stdout.write(f"{manifest}: InferenceService {service.name} is valid.\n")
        notes = [str(problem) for problem in local_problems(service)]
        notes += [str(note) for note in local_notes(service)]
        if notes:
            sys.stdout.write("  Under `ferry run`, on this machine:\n")
            for note in notes:
                sys.stdout.write(f"    {note}\n")
    return Exit.OK
