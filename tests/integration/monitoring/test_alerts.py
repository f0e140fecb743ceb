"""Every alert fires where it should and nowhere else, by promtool's word."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from monitoring.__main__ import FOLDER, ROOT
from monitoring.rules.files import OPERATOR_GROUPS, RUNTIME_GROUPS, alerts

_CASES = yaml.load(
    Path(__file__).with_name("alerts.yaml").read_text(),
    Loader=yaml.BaseLoader,  # noqa: S506  (0x10 is ten zeros here, no number)
)
_FILES = {"runtime-rules.yaml": RUNTIME_GROUPS, "operator-rules.yaml": OPERATOR_GROUPS}
_ALERTS = [alert for groups in _FILES.values() for alert in alerts(groups)]
_SAID = re.compile(r'Labels:{alertname="(\w+)".*?Annotations:{.*? summary="((?:[^"\\]|\\.)*)"}', re.DOTALL)
_ASKED = re.compile(r'expr: "count\(ALERTS{alertname=\\"(\w+)')
_LABELS = {
    "$T": 'namespace="models",service="chat",pod="chat-1",instance="10.0.0.1:8000"',
    "$U": 'namespace="models",service="chat",pod="chat-2",instance="10.0.0.2:8000"',
    "$O": 'namespace="ferry",pod="leader"',
    "$S": 'inferenceservice_namespace="models",inferenceservice="chat"',
}


def written(name: str) -> str:
    for short, labels in _LABELS.items():
        name = name.replace(short, labels)
    return name


def group(case: dict, alert, *, fires: bool) -> dict:
    """One of promtool's test groups."""
    firing = f'ALERTS{{alertname="{alert.name}", alertstate="firing"}}'
    counted = [{"labels": "{}", "value": 1}] if fires else []
    return {
        "interval": "1m",
        "input_series": [
            {"series": written(name), "values": str(values)} for name, values in case["series"].items()
        ],
        "promql_expr_test": [{"expr": f"count({firing})", "eval_time": case["at"], "exp_samples": counted}],
    }


def check(promtool: Path, folder: Path, groups: list[dict]) -> subprocess.CompletedProcess[str]:
    document = {"rule_files": [str(ROOT / FOLDER / name) for name in _FILES], "tests": groups}
    test = folder / "alerts.test.yaml"
    test.write_text(yaml.safe_dump(document))
    return subprocess.run(
        [str(promtool), "test", "rules", str(test)], capture_output=True, text=True, check=False, timeout=100
    )


def test_every_alert_has_its_two_cases():
    assert set(_CASES) == {alert.name for groups in _FILES.values() for alert in alerts(groups)}
    assert all({"fires", "quiet"} <= set(case) for case in _CASES.values())
    assert all(kind.split()[0] in ("fires", "quiet") for case in _CASES.values() for kind in case)


@pytest.mark.parametrize("name", _FILES)
def test_promtool_finds_no_fault_with_the_rules(promtool, name):
    done = subprocess.run(
        [str(promtool), "check", "rules", str(ROOT / FOLDER / name)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wrong(promtool, tmp_path_factory):
    """What promtool found wrong, with every case in one run: names of alerts."""
    groups = []
    for alert in _ALERTS:
        for kind, case in _CASES[alert.name].items():
            groups.append(group(case, alert, fires=kind.split()[0] == "fires"))
    done = check(promtool, tmp_path_factory.mktemp("alerts"), groups)
    named = set(_ASKED.findall(done.stderr + done.stdout))
    assert done.returncode == 0 or named, done.stdout + done.stderr
    return named


@pytest.mark.parametrize("alert", _ALERTS, ids=lambda alert: alert.name)
def test_an_alert_fires_where_it_should_and_not_elsewhere(wrong, alert):
    assert alert.name not in wrong


def test_promtool_would_say_so_if_an_alert_did_not_fire(promtool, tmp_path):
    alert = alerts(RUNTIME_GROUPS)[0]
    done = check(promtool, tmp_path, [group(_CASES[alert.name]["quiet"], alert, fires=True)])
    assert done.returncode == 1
    assert _ASKED.findall(done.stderr + done.stdout) == [alert.name]


def test_what_an_alert_says_names_what_it_is_about(promtool, tmp_path):
    """promtool tells the rendered annotations of whatever fires where nothing was expected to."""
    groups = []
    for alert in _ALERTS:
        case = _CASES[alert.name]["fires"]
        expected = {"eval_time": case["at"], "alertname": alert.name, "exp_alerts": []}
        asked = {"promql_expr_test": [], "alert_rule_test": [expected]}
        groups.append({**group(case, alert, fires=True), **asked})
    done = check(promtool, tmp_path, groups)
    said = dict(_SAID.findall(done.stderr + done.stdout))
    assert said == {alert.name: _CASES[alert.name]["fires"]["summary"] for alert in _ALERTS}
