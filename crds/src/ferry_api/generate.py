"""`python -m ferry_api.generate [ROOT]`: write what is made from the types into the source tree."""

from __future__ import annotations

import sys
from pathlib import Path

from ferry_api import crd, reference


def generated(root: Path) -> dict[Path, str]:
    """Every generated file below the root of the source tree, with its content."""
    return {
        root / "crds" / crd.FILE_NAME: crd.render(),
        # Helm packs nothing from outside the chart's folder.
        root / "charts" / "ferry" / "files" / "crd.yaml": crd.render(),
        root / "docs" / "reference" / reference.FILE_NAME: reference.render(crd.build()),
    }


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path.cwd()
    for path, content in generated(root).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        changed = not path.exists() or path.read_text(encoding="utf-8") != content
        if changed:
            path.write_text(content, encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(root)}: {'written' if changed else 'current'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
