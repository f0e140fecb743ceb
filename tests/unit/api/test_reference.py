from __future__ import annotations

import re

from ferry_api import crd, reference
from ferry_api.limits import NOT_BUILT

PAGE = reference.render(crd.build())


def test_every_field_is_on_the_page():
    def fields(schema):
        for name, child in schema.get("properties", {}).items():
            yield name
            yield from fields(child.get("items", child))

    schema = crd.build()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in ("spec", "status"):
        for name in fields(schema["properties"][part]):
            assert f"| `{name}` |" in PAGE


def test_every_rule_and_limit_is_on_the_page():
    def rules(schema):
        if isinstance(schema, dict):
            yield from (rule["message"] for rule in schema.get("x-kubernetes-validations", []))
            for child in schema.values():
                yield from rules(child)

    for message in rules(crd.build()):
        assert message in PAGE
    for limit in NOT_BUILT:
        assert f"`spec.{limit.path}`: {limit.rule.message}" in PAGE


def test_tables_are_whole():
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    for row in rows:
        assert len(re.findall(r"(?<!\\)\|", row)) == 5, row


def test_sections_have_their_own_titles():
    titles = [line for line in PAGE.splitlines() if line.startswith("## ")]
    assert len(titles) == len(set(titles))
    assert "## spec.cache.redis.managed" in titles
