"""What the chart renders is valid, consistent with the operator, and least in its rights."""

from __future__ import annotations

import json

import jsonschema
import kubernetes_validate
import pytest
import yaml
from charts import values_table
from tests.chart.conftest import CHART, ROOT

from ferry_operator.settings import Rollout, from_environment

_CRD = "inferenceservices.serving.ferry.dev"
_NAMESPACED = 'scope={"kind":"Namespaces","namespaces":["team-b","team-a"]}'


def of_kind(documents, kind):
    return [document for document in documents if document["kind"] == kind]


def environment(documents):
    (deployment,) = of_kind(documents, "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    found = {v["name"]: v.get("value", "from-the-pod") for v in container["env"]}
    return {**found, "POD_NAMESPACE": "serving"}


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ['metrics={"dashboards":{"enabled":true}}'],
        [_NAMESPACED, "replicas=2"],
        [
            "replicas=3",
            'nodeSelector={"a":"b"}',
            'tolerations=[{"operator":"Exists"}]',
            'podLabels={"x":"y"}',
        ],
        ['image={"repository":"r/i","digest":"sha256:' + "0" * 64 + '"}', 'imagePullSecrets=[{"name":"s"}]'],
        ['networkPolicy={"enabled":true}', 'crds={"enabled":false}', 'affinity={"podAntiAffinity":{}}'],
        [
            'serviceAccount={"create":false,"name":"mine"}',
            'priorityClassName="high"',
            'podAnnotations={"a":"b"}',
            'fullnameOverride="other"',
        ],
        [
            'runtime={"image":"r:1","rollout":"Immediate"}',
            'redis={"image":"v:2"}',
            "resources={}",
            'logLevel="DEBUG"',
        ],
    ],
    ids=[
        *("defaults", "dashboards", "namespaces", "placement", "image"),
        *("network-policy", "names", "images-of-services"),
    ],
)
def test_every_object_is_valid_kubernetes(render, settings):
    for document in render(*settings):
        kubernetes_validate.validate(document, "1.34", strict=True)


def test_the_linter_is_content(helm):
    helm("lint", "--strict", str(CHART))


def test_the_crd_is_the_one_of_the_source_and_is_kept():
    source = (ROOT / "crds" / f"{_CRD}.yaml").read_text()
    assert (CHART / "files" / "crd.yaml").read_text() == source


def test_the_crd_is_rendered_whole_and_marked_to_be_kept(render):
    (crd,) = of_kind(render(), "CustomResourceDefinition")
    assert crd["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
    source = yaml.safe_load((ROOT / "crds" / f"{_CRD}.yaml").read_text())
    assert crd["spec"] == source["spec"]


def test_the_crd_can_be_left_to_somebody_else(render):
    assert of_kind(render('crds={"enabled":false}'), "CustomResourceDefinition") == []


def test_the_operator_reads_what_the_chart_sets(render):
    settings = from_environment(environment(render()))
    assert settings.cluster_wide
    assert settings.lease_name == "models-ferry-operator"
    assert settings.rollout is Rollout.ON_CHANGE
    assert settings.runtime_image.startswith("ferry-runtime:")
    chosen = from_environment(
        environment(
            render(_NAMESPACED, 'runtime={"image":"r:1","rollout":"Immediate"}', 'redis={"image":"v:2"}')
        )
    )
    assert chosen.namespaces == ("team-a", "team-b")
    assert (chosen.runtime_image, chosen.redis_image, chosen.rollout) == ("r:1", "v:2", Rollout.IMMEDIATE)


def test_the_lease_that_is_held_is_the_one_that_is_allowed(render):
    documents = render()
    (role,) = of_kind(documents, "Role")
    named = [name for rule in role["rules"] for name in rule.get("resourceNames", ())]
    assert named == [environment(documents)["FERRY_LEASE_NAME"]]


def test_namespaced_scope_has_no_right_in_the_cluster(render):
    documents = render(_NAMESPACED)
    assert of_kind(documents, "ClusterRole") == []
    assert of_kind(documents, "ClusterRoleBinding") == []
    bound = {b["metadata"]["namespace"] for b in of_kind(documents, "RoleBinding")}
    assert bound == {"serving", "team-a", "team-b"}


def test_namespaced_scope_without_names_is_the_releases_own(render):
    settings = from_environment(environment(render('scope={"kind":"Namespaces","namespaces":[]}')))
    assert settings.namespaces == ("serving",)


def test_every_binding_names_the_account_that_the_pod_runs_as(render):
    for settings in ([], ['serviceAccount={"create":false,"name":"mine"}']):
        documents = render(*settings)
        (deployment,) = of_kind(documents, "Deployment")
        account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
        for binding in (*of_kind(documents, "RoleBinding"), *of_kind(documents, "ClusterRoleBinding")):
            assert [s["name"] for s in binding["subjects"]] == [account]
            assert [s["namespace"] for s in binding["subjects"]] == ["serving"]


def test_no_right_over_everything(render):
    for role in (*of_kind(render(), "Role"), *of_kind(render(), "ClusterRole")):
        for rule in role["rules"]:
            assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]


def test_a_budget_only_where_one_pod_can_go(render):
    assert of_kind(render(), "PodDisruptionBudget") == []
    (budget,) = of_kind(render("replicas=2"), "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_selectors_hold_no_version(render):
    (deployment,) = of_kind(render(), "Deployment")
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert set(selector) == {"app.kubernetes.io/name", "app.kubernetes.io/instance"}
    assert selector.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


def test_the_pod_meets_the_restricted_standard(render):
    (deployment,) = of_kind(render(), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_service_monitor_on_request(render):
    assert of_kind(render(), "ServiceMonitor") == []
    (monitor,) = of_kind(render('metrics={"serviceMonitor":{"enabled":true}}'), "ServiceMonitor")
    (service,) = of_kind(render(), "Service")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()


def rules_of(documents):
    return {
        rule.get("alert", rule.get("record")): rule
        for document in of_kind(documents, "PrometheusRule")
        for group in document["spec"]["groups"]
        for rule in group["rules"]
    }


def test_rules_on_request_are_those_that_were_made(render):
    assert of_kind(render(), "PrometheusRule") == []
    shipped = {}
    for part in ("runtime", "operator"):
        groups = yaml.safe_load((CHART / "files" / "monitoring" / f"{part}-rules.yaml").read_text())["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        shipped |= {rule.get("alert", rule.get("record")): rule for rule in rules}
    both = 'metrics={"prometheusRule":{"enabled":true},"serviceMonitor":{"enabled":true}}'
    assert rules_of(render(both)) == shipped


def test_no_rule_asks_for_an_operator_that_nothing_scrapes(render):
    """absent() of a name that only the ServiceMonitor gives would fire for ever."""
    rules = rules_of(render('metrics={"prometheusRule":{"enabled":true}}'))
    assert rules
    assert [name for name, rule in rules.items() if 'job="ferry-operator"' in rule["expr"]] == []
    assert not any("Operator" in name for name in rules)


def test_rules_are_fitted_to_the_values(render):
    wanted = {
        "enabled": True,
        "labels": {"release": "kps"},
        "alertLabels": {"team": "models"},
        "disabled": ["FerrySemanticTierNeverHits", "FerryOperatorDown"],
        "slowFirstTokenSeconds": "10.0",
        "runbookBaseUrl": "https://example.com/ferry",
    }
    monitored = '"serviceMonitor":{"enabled":true}'
    documents = render(f'metrics={{"prometheusRule":{json.dumps(wanted)},{monitored}}}')
    assert {d["metadata"]["labels"]["release"] for d in of_kind(documents, "PrometheusRule")} == {"kps"}
    rules = rules_of(documents)
    assert rules.keys().isdisjoint(wanted["disabled"])
    alert = rules["FerryFailing"]
    assert alert["labels"] == {"severity": "critical", "team": "models"}
    assert alert["annotations"]["runbook_url"].startswith(
        "https://example.com/ferry/docs/reference/alerts.md#"
    )
    slow = rules["ferry:first_token_slow:ratio_rate1h"]
    assert 'le="10.0"' in slow["expr"]
    assert "labels" not in slow


def test_dashboards_on_request_are_found_by_grafanas_sidecar(render):
    assert of_kind(render(), "ConfigMap") == []
    (config_map,) = of_kind(render('metrics={"dashboards":{"enabled":true}}'), "ConfigMap")
    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    for part in ("runtime", "operator"):
        shipped = (CHART / "files" / "monitoring" / f"{part}-dashboard.json").read_text()
        assert json.loads(config_map["data"][f"ferry-{part}.json"]) == json.loads(shipped)


def test_labels_of_service_monitors_reach_those_of_the_runtimes(render):
    settings = 'metrics={"serviceMonitor":{"enabled":true,"labels":{"release":"kps","team":"a"}}}'
    read = from_environment(environment(render(settings)))
    assert read.monitor_labels == {"release": "kps", "team": "a"}
    assert from_environment(environment(render())).monitor_labels == {}


@pytest.mark.parametrize(
    "setting",
    [
        'metrics={"prometheusRule":{"slowFirstTokenSeconds":"3"}}',
        'metrics={"prometheusRule":{"disabled":["NotOurs"]}}',
        'scope={"kind":"Everything"}',
        'scope={"kind":"Cluster","namespaces":["a"]}',
        'scope={"kind":"Namespaces","namespaces":["Not_A_Name"]}',
        'replicas="two"',
        "replica=2",
        'runtime={"rollout":"Sometimes"}',
        'image={"repository":"r","digest":"latest"}',
        'logLevel="LOUD"',
        'serviceAccount={"create":false,"name":""}',
    ],
)
def test_wrong_values_are_refused(helm, setting):
    done = helm("template", "models", str(CHART), "--set-json", setting, check=False)
    assert done.returncode != 0
    assert "schema" in done.stderr


def test_the_table_of_values_is_up_to_date():
    text = (CHART / "values.yaml").read_text()
    readme = (CHART / "README.md").read_text()
    assert values_table.readme(readme, text) == readme, "run `make generate`"


def test_every_value_says_what_it_means():
    text = (CHART / "values.yaml").read_text()
    assert [value.path for value in values_table.values(text) if not value.comment] == []


def _keys(values, schema, path=""):
    """Keys whose schema has properties of its own must forbid others; returns those that do not."""
    for key, inner in values.items():
        known = schema["properties"].get(key)
        if known is None or "properties" not in known:
            continue
        if known.get("additionalProperties") is not False:
            yield f"{path}{key}"
        yield from _keys(inner, known, f"{path}{key}.")


def test_no_object_of_the_schema_takes_unknown_keys():
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert schema["additionalProperties"] is False
    assert list(_keys(values, schema)) == []


def test_the_network_policy_lets_in_the_port_that_is_probed(render):
    assert of_kind(render(), "NetworkPolicy") == []
    documents = render('networkPolicy={"enabled":true}')
    (policy,) = of_kind(documents, "NetworkPolicy")
    (deployment,) = of_kind(documents, "Deployment")
    ports = deployment["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert [port["port"] for port in policy["spec"]["ingress"][0]["ports"]] == [ports[0]["name"]]
    selected = policy["spec"]["podSelector"]["matchLabels"]
    assert selected.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


def test_helms_own_test_asks_the_operators_service(render):
    documents = render()
    (pod,) = of_kind(documents, "Pod")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    (service,) = of_kind(documents, "Service")
    address = f"http://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}/readyz"
    assert address in pod["spec"]["containers"][0]["command"][-1]
    # Not one of the pods that the Service sends requests to.
    assert not service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


def test_the_schema_knows_every_value_and_the_defaults_are_valid():
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(values, schema)
    assert set(schema["properties"]) - {"global", "nameOverride", "fullnameOverride"} == set(values)
