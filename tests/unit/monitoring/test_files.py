"""What is shipped is what the code would make now, and whole."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml
from monitoring.__main__ import FOLDER, ROOT, documents, main
from monitoring.dashboards.files import completed, dashboard_file, queries
from monitoring.dashboards.model import Panel, Query, Row
from monitoring.dashboards.operator import OPERATOR
from monitoring.dashboards.runtime import RUNTIME
from monitoring.inventory import CLOSED, Family, operator_families, runtime_families
from monitoring.promql import UnknownName
from monitoring.rules.files import OPERATOR_GROUPS, RUNTIME_GROUPS, alerts, recorded, rule_file
from monitoring.rules.model import Alert, Group, Severity
from monitoring.rules.runtime import SLOW_SECONDS
from tests.unit.runtime.http.support import build_stack

from ferry_runtime.api.app import create_app

_DASHBOARDS = {"runtime": (RUNTIME, RUNTIME_GROUPS), "operator": (OPERATOR, OPERATOR_GROUPS)}


def families(part):
    return runtime_families() if part == "runtime" else operator_families()


@pytest.mark.parametrize("path", documents(), ids=str)
def test_the_file_is_what_the_sources_make(path):
    assert (ROOT / path).read_text() == documents()[path], "run `make generate`"


def test_the_check_says_so_when_a_file_is_out_of_date(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("monitoring.__main__.ROOT", tmp_path)
    assert main(["--check"]) == 1
    assert "runtime-rules.yaml" in capsys.readouterr().err
    assert main([]) == 0
    assert main(["--check"]) == 0


def test_the_inventory_holds_every_family_that_a_server_exports():
    stack = build_stack(cached=True)
    create_app(stack.services)
    exported = {family.name for family in stack.services.registry.collect()}
    assert exported <= set(runtime_families())


def test_labels_that_are_said_to_be_closed_exist():
    known = {**runtime_families(), **operator_families()}
    assert all(label in known[name].labels for name, label in CLOSED)


@pytest.mark.parametrize("part", _DASHBOARDS)
def test_every_metric_is_on_a_panel(part):
    dashboard, groups = _DASHBOARDS[part]
    text = "\n".join(queries(completed(dashboard, families(part), recorded(groups))))
    missing = [
        family.name
        for family in families(part).values()
        if not family.name.startswith("process_") and not any(name in text for name in family.series)
    ]
    assert missing == []


def test_a_metric_that_nobody_drew_gets_a_panel_in_a_last_row():
    added = {
        name: Family(name, kind, "Something new", ("kind",))
        for name, kind in (("ferry_new", "gauge"), ("ferry_newer", "counter"), ("ferry_newest", "histogram"))
    }
    whole = completed(RUNTIME, {**runtime_families(), **added}, recorded(RUNTIME_GROUPS))
    assert set(added) <= {panel.title for panel in whole.rows[-1].panels}


def test_a_panel_that_names_what_nothing_exports_ends_the_making():
    wrong = Row("Wrong", (Panel(title="Wrong", queries=(Query("ferry_nothing{@}"),)),))
    with pytest.raises(UnknownName, match="ferry_nothing"):
        dashboard_file(replace(RUNTIME, rows=(wrong,)), runtime_families(), {})


def test_a_rule_that_names_what_nothing_exports_ends_the_making():
    told = {"summary": "", "means": "", "do": ""}
    wrong = Alert(name="Wrong", expr="ferry_nothing > 0", lasting="1m", severity=Severity.WARNING, **told)
    with pytest.raises(UnknownName, match="ferry_nothing"):
        rule_file((Group("wrong", (wrong,)),), runtime_families())


@pytest.mark.parametrize("part", _DASHBOARDS)
def test_a_dashboards_panels_do_not_overlap_and_have_ids_of_their_own(part):
    document = json.loads((ROOT / FOLDER / f"{part}-dashboard.json").read_text())
    assert document["uid"] == f"ferry-{part}"
    panels = document["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_every_alert_says_what_to_do_where_its_runbook_leads():
    page = (ROOT / "docs" / "reference" / "alerts.md").read_text()
    for alert in alerts((*RUNTIME_GROUPS, *OPERATOR_GROUPS)):
        section = page.partition(f"## {alert.name}\n")[2].partition("\n## ")[0]
        assert alert.do in section
        anchor = f"docs/reference/alerts.md#{alert.name.lower()}"
        assert alert.spelled()["annotations"]["runbook_url"] == anchor


def test_names_of_alerts_and_recorded_series_are_unique():
    names = [alert.name for alert in alerts((*RUNTIME_GROUPS, *OPERATOR_GROUPS))]
    assert len(set(names)) == len(names)
    documents_ = [yaml.safe_load((ROOT / FOLDER / f"{part}-rules.yaml").read_text()) for part in _DASHBOARDS]
    records = [r["record"] for d in documents_ for g in d["groups"] for r in g["rules"] if "record" in r]
    assert len(set(records)) == len(records)


def test_what_a_slow_first_token_is_can_be_chosen_among_the_metrics_bounds():
    stack = build_stack()
    for family in stack.services.registry.collect():
        if family.name == "ferry_time_to_first_token_seconds":
            bounds = {sample.labels["le"] for sample in family.samples if "le" in sample.labels}
    schema = json.loads((ROOT / "charts/ferry/values.schema.json").read_text())
    rule = schema["properties"]["metrics"]["properties"]["prometheusRule"]
    assert set(rule["properties"]["slowFirstTokenSeconds"]["enum"]) <= bounds
    assert SLOW_SECONDS in bounds
