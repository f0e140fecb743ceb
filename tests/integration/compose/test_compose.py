"""compose.yaml as Docker reads it, and what it promises about the parts that it starts."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.conftest import missing
from tests.integration.compose import binaries
from tests.integration.monitoring.binaries import find as find_prometheus

from ferry_runtime.settings import config_from_environment, store_address, unknown_variables

ROOT = Path(__file__).resolve().parents[3]
SOURCE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES = SOURCE["services"]


@pytest.fixture(scope="module")
def config():
    """The merged document of the given profiles, by docker compose itself; ``environment`` chooses."""
    command = binaries.find()
    if command is None:
        reason = f"no docker compose here: `make docker-compose` builds it, or set {binaries.VARIABLE}"
        missing(reason, binaries.REQUIRED)

    def read(*profiles: str, **environment: str) -> dict:
        chosen = [word for profile in profiles for word in ("--profile", profile)]
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        done = subprocess.run(
            [*command, "--project-directory", str(ROOT), "--file", str(ROOT / "compose.yaml"),
             *chosen, "config", "--format", "json"],
            env={**kept, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert not done.stderr, done.stderr
        document: dict = json.loads(done.stdout)
        return document

    return read


@pytest.mark.parametrize(
    ("profiles", "services"),
    [
        ((), {"runtime", "redis"}),
        (("monitoring",), {"runtime", "redis", "prometheus", "grafana"}),
        (("gpu",), {"runtime", "runtime-gpu", "redis"}),
    ],
    ids=["default", "monitoring", "gpu"],
)
def test_docker_compose_takes_it_and_each_profile_adds_its_parts(config, profiles, services):
    assert set(config(*profiles)["services"]) == services


def test_the_gpu_takes_the_runtimes_place(config):
    services = config("gpu")["services"]
    gpu, cpu = services["runtime-gpu"], services["runtime"]
    assert gpu["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == ["gpu"]
    assert gpu["networks"]["default"]["aliases"] == ["runtime"]
    for same in ("environment", "ports", "volumes", "healthcheck", "depends_on", "image"):
        assert gpu[same] == cpu[same]


def test_what_is_chosen_reaches_the_runtime(config):
    chosen = {"MODEL_NAME": "hf://a/b", "FERRY_PORT": "9000", "FERRY_REDIS_IMAGE": "valkey/valkey:8.1"}
    services = config(**chosen)["services"]
    runtime = services["runtime"]
    assert runtime["environment"]["MODEL_NAME"] == "hf://a/b"
    assert runtime["ports"][0]["published"] == "9000"
    assert services["redis"]["image"] == "valkey/valkey:8.1"


@pytest.mark.parametrize("name", SERVICES)
def test_every_part_is_watched_and_started_again(name):
    service = SERVICES[name]
    assert service["healthcheck"]["test"][0] == "CMD"
    assert service["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", ["runtime", "runtime-gpu", "redis"])
def test_our_own_parts_run_with_few_rights(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_ports_are_opened_on_this_machine_only():
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(ports) == 4
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_no_image_names_a_registry():
    """Whose registry is asked is the engine's configuration, so that a mirror can stand in."""
    for service in SERVICES.values():
        default = re.fullmatch(r"\$\{FERRY_\w+_IMAGE:-(.+)\}", service["image"])[1]
        head = default.split("/")[0] if "/" in default else ""
        assert "." not in head
        assert ":" not in head
        assert re.search(r":v?\d", default)


def test_every_variable_of_the_runtime_is_one_that_it_reads():
    assert unknown_variables(SERVICES["runtime"]["environment"]) == []


def test_the_runtimes_settings_are_valid_and_turn_the_cache_on(config):
    settings = config()["services"]["runtime"]["environment"]
    read = config_from_environment(settings)
    assert read.cold.model.served_name == "smollm2"
    assert read.hot.cache.enabled
    address = store_address(settings)
    assert address is not None
    assert address.label == "redis:6379/0"


def test_every_file_that_is_mounted_is_there():
    sources = [volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())]
    paths = [source for source in sources if source.startswith(".")]
    assert len(paths) == 5
    assert all((ROOT / path).is_file() for path in paths)
    named = {source for source in sources if source.isidentifier()}
    assert named == set(SOURCE["volumes"])


def test_prometheus_understands_its_configuration(tmp_path):
    promtool = find_prometheus("promtool")
    if promtool is None:
        missing("promtool is not there: `make prometheus` fetches it", binaries.REQUIRED)
    rules = ROOT / "charts" / "ferry" / "files" / "monitoring" / "runtime-rules.yaml"
    text = (ROOT / "compose" / "prometheus.yml").read_text()
    (tmp_path / "prometheus.yml").write_text(text.replace("/etc/prometheus/rules/*.yaml", str(rules)))
    done = subprocess.run(
        [str(promtool), "check", "config", str(tmp_path / "prometheus.yml")],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS: 1 rule files found" in done.stdout


def test_prometheus_calls_the_runtime_as_the_rules_do():
    scrape = yaml.safe_load((ROOT / "compose" / "prometheus.yml").read_text())["scrape_configs"]
    assert [job["job_name"] for job in scrape] == ["ferry-runtime"]
    assert scrape[0]["dns_sd_configs"][0]["names"] == ["runtime"]
    assert scrape[0]["dns_sd_configs"][0]["port"] == 8000
