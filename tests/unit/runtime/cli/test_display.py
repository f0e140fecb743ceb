"""What a newcomer sees while the model is made ready."""

from __future__ import annotations

import io
import logging

import pytest
from rich.console import Console

from ferry_runtime.cli.display import StartDisplay, announce


def test_a_terminal_gets_a_bar_and_log_lines_above_it() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)

    with StartDisplay(console) as display:
        display.update("downloading", 0.5)
        logging.getLogger("ferry_runtime").warning("the [bold]store[/bold] is away")
        display.close()

    text = out.getvalue()
    assert "downloading" in text
    assert "50%" in text
    assert "the [bold]store[/bold] is away" in text


def test_a_log_gets_a_line_per_stage_and_quarter(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with StartDisplay(Console(file=io.StringIO(), force_terminal=False)) as display:
        display.update("reading", None)
        display.update("reading", None)
        for percent in range(101):
            display.update("converting", percent / 100)

    assert caplog.messages == [
        "reading",
        "converting, 0%",
        "converting, 25%",
        "converting, 50%",
        "converting, 75%",
        "converting, 100%",
    ]


def test_the_announcement_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    announce("demo", "http://127.0.0.1:8123", 3.4)

    said = capsys.readouterr().out
    assert "demo is ready after 3 s at http://127.0.0.1:8123" in said
    assert (
        "curl -s http://127.0.0.1:8123/generate -H 'content-type: application/json' \\\n"
        '    -d \'{"prompt":"What is the capital of France?"}\'' in said
    )
