"""Every query that is shipped, asked of a real Prometheus that scrapes what the queries are about."""

from __future__ import annotations

import concurrent.futures
import json
import re
import time
from pathlib import Path

import httpx
import pytest
from monitoring.__main__ import FOLDER, ROOT
from monitoring.inventory import operator_families, runtime_families
from monitoring.promql import Names
from monitoring.rules.files import OPERATOR_GROUPS, RUNTIME_GROUPS, recorded
from tests.integration.monitoring.targets import operator_endpoint, scraping
from tests.integration.runtime.http.support import threaded
from tests.unit.runtime.http.support import chat_body, completion_body

_SELECTOR = re.compile(r"\b(?:ferry[_:]|process_)[a-z0-9_:]+(?:\{[^}]*\})?")
_FILTER = re.compile(r" [><=]=? ?[0-9.]+$")  # at a query's end: then nothing is a good answer
_SCRAPES = 5


def dashboard(name):
    return json.loads((ROOT / FOLDER / f"{name}-dashboard.json").read_text())


def panel_queries():
    for name in ("runtime", "operator"):
        for panel in dashboard(name)["panels"]:
            for target in panel.get("targets", ()):
                yield pytest.param(target["expr"], id=f"{name}: {panel['title']} {target['refId']}")


def chosen(query):
    """As Grafana sends it with all of everything chosen."""
    return re.sub(r"\$(namespace|service|pod)", ".*", query.replace("$__rate_interval", "10s"))


def send_traffic(url: str) -> None:
    """Answers, repeats, a stream, refusals, at once and one after another."""
    with httpx.Client(base_url=url, timeout=60) as client:

        def ask(number: int) -> None:
            client.post("/v1/completions", json=completion_body(prompt=f"Number {number % 5}", temperature=0))

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, range(24)))
        client.post("/v1/chat/completions", json=chat_body(stream=True, temperature=0))
        client.post("/v1/completions", json=completion_body(priority=-1, temperature=1.0))
        client.post("/v1/completions", json=completion_body(max_tokens=-1))
        client.post("/generate", json={"prompt": "What is a ferry?"})


@pytest.fixture(scope="module")
def asked(prometheus: Path, tmp_path_factory: pytest.TempPathFactory):
    """Prometheus after some scrapes of a runtime with traffic and of an operator."""
    folder = tmp_path_factory.mktemp("prometheus")
    with (
        threaded(cached=True) as runtime,
        operator_endpoint() as operator,
        scraping(prometheus, folder, runtime.port, operator) as asked,
    ):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            send_traffic(runtime.url)
            counted = asked.query('count_over_time(up{job=~"ferry-.*"}[1m]) >= ' + str(_SCRAPES))
            if len(counted) == 2 and asked.query("ferry:requests:rate5m > 0"):
                break
        else:
            pytest.fail((folder / "prometheus.log").read_text())
        yield asked


@pytest.fixture(scope="module")
def exported_names(asked):
    """Names with series, and those of families that are declared but have had no event yet."""
    declared = {**runtime_families(), **operator_families()}
    stated = asked.get("metadata")
    families = [family for family in declared.values() if {family.name, *family.series} & stated.keys()]
    return {*asked.get("label/__name__/values"), *(name for family in families for name in family.series)}


def test_both_targets_are_scraped_without_an_error(asked):
    targets = asked.get("targets")["activeTargets"]
    assert [(target["labels"]["job"], target["lastError"]) for target in targets] == [
        ("ferry-operator", ""),
        ("ferry-runtime", ""),
    ]


@pytest.mark.parametrize("query", panel_queries())
def test_a_panels_query_is_understood_and_finds_what_there_is(asked, exported_names, query):
    query = chosen(query)
    answer = asked.query(query)
    selectors = _SELECTOR.findall(query)
    names = {selector.partition("{")[0] for selector in selectors}
    assert names
    # An engine's process is what the double has not.
    assert names <= exported_names | {"ferry_engine_resident_memory_bytes"}
    if all(asked.query(f"{selector}") for selector in selectors) and not _FILTER.search(query):
        assert answer


def test_most_panels_show_something_after_some_traffic(asked):
    shown = [bool(asked.query(chosen(parameter.values[0]))) for parameter in panel_queries()]
    assert sum(shown) / len(shown) > 0.8


@pytest.mark.parametrize("name", ["runtime", "operator"])
def test_the_variables_of_a_dashboard_find_the_targets(asked, name):
    labels = {"runtime": ("models", "chat", "chat-1"), "operator": ("ferry", "operator-1")}[name]
    variables = [v for v in dashboard(name)["templating"]["list"] if v["type"] == "query"]
    found = []
    for variable in variables:
        metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
        found += asked.get(f"label/{label}/values", **{"match[]": chosen(metric)})
    assert tuple(found) == labels


def test_every_rule_is_evaluated_without_an_error(asked):
    rules = [rule for group in asked.get("rules")["groups"] for rule in group["rules"]]
    assert len(rules) == sum(len(group.rules) for group in (*RUNTIME_GROUPS, *OPERATOR_GROUPS))
    assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"} == {}


def test_every_rule_names_what_is_exported(asked, exported_names):
    names = Names.of(
        [*runtime_families().values(), *operator_families().values()],
        {**recorded(RUNTIME_GROUPS), **recorded(OPERATOR_GROUPS)},
    )
    kept = set(recorded(RUNTIME_GROUPS))
    for group in asked.get("rules")["groups"]:
        for rule in group["rules"]:
            assert names.used(rule["query"]) <= exported_names | kept | {"up"}


def test_nothing_is_alarming_about_a_healthy_service(asked):
    assert asked.query('ALERTS{alertstate="firing"}') == []


def test_recorded_series_agree_with_the_requests_that_were_sent(asked):
    (hits,) = asked.query("ferry:cache_hits:ratio_rate5m")
    assert 0.5 < float(hits["value"][1]) <= 1
    (rate,) = asked.query('ferry:requests:rate5m{outcome="success"}')
    assert float(rate["value"][1]) > 0
