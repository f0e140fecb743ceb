"""What Vite built: small enough, complete, and asking nobody else for anything."""

from __future__ import annotations

import re

import pytest

from ferry_runtime.api.dashboard.bundle import BUNDLE_FOLDER, PAGE, Bundle

pytestmark = pytest.mark.skipif(
    not (BUNDLE_FOLDER / PAGE).exists(), reason="the dashboard has not been built: make dashboard"
)
MOST_BYTES = 300_000


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return Bundle()


def test_it_is_at_most_300_kilobytes_gzipped(bundle: Bundle) -> None:
    assert sum(len(file.zipped) for file in bundle.files.values()) <= MOST_BYTES


def test_the_page_names_only_files_that_are_there_and_all_of_them_relatively(bundle: Bundle) -> None:
    page = bundle.files[PAGE].body.decode()
    named = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert named
    assert all(name.startswith("./assets/") for name in named)
    assert {name.removeprefix("./") for name in named} <= set(bundle.files)


def test_the_page_has_no_inline_script_or_style(bundle: Bundle) -> None:
    page = bundle.files[PAGE].body.decode()
    assert re.findall(r"<script[^>]*>([^<]+)</script>", page) == []
    assert re.search(r"\son[a-z]+=", page) is None
    assert "<style" not in page
    assert " style=" not in page


def test_styles_and_page_ask_nobody_else(bundle: Bundle) -> None:
    for name, file in bundle.files.items():
        if name.endswith((".css", ".html")):
            assert re.findall(rb"(?:https?:)?//[a-z]", file.body) == [], name


def test_types_are_known(bundle: Bundle) -> None:
    assert {file.media_type for file in bundle.files.values()} <= {
        "text/html",
        "text/css",
        "text/javascript",
        "application/javascript",
        "image/svg+xml",
    }
