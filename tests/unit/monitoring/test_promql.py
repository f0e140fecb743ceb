from __future__ import annotations

import pytest
from monitoring.inventory import Family
from monitoring.promql import Names, UnknownName

_FAMILIES = (
    Family("ferry_requests", "counter", "", ("route", "outcome")),
    Family("ferry_batch_size", "histogram", "", ()),
    Family("ferry_ready", "gauge", "", ()),
)
NAMES = Names.of(_FAMILIES, {"ferry:late:ratio": frozenset({"namespace", "service"})})


@pytest.mark.parametrize(
    ("query", "used"),
    [
        ('sum by (route) (rate(ferry_requests_total{outcome="error"}[5m]))', {"ferry_requests_total"}),
        ("sum by (le) (rate(ferry_batch_size_bucket[5m]))", {"ferry_batch_size_bucket"}),
        ("ferry_batch_size_sum / ferry_batch_size_count", {"ferry_batch_size_sum", "ferry_batch_size_count"}),
        ('ferry:late:ratio{namespace="a"} > 1', {"ferry:late:ratio"}),
        ('up{job="ferry-runtime"} == 0', {"up"}),
        ('ferry_requests_total{outcome=~"$outcome"}', {"ferry_requests_total"}),
        ("sum by (namespace, service, instance) (ferry_ready)", {"ferry_ready"}),
    ],
)
def test_what_a_query_names_is_found(query, used):
    assert NAMES.used(query) == used


@pytest.mark.parametrize(
    "query",
    [
        "ferry_requets_total",
        "ferry_requests",  # a counter's series has a suffix
        "ferry_ready_total",
        "ferry_batch_size",
        "ferry:early:ratio",
        'ferry_ready{route="a"}',
        'ferry_requests_total{outcome="eror"}',
        'ferry_requests_total{outcome=~"error|lost"}',
        "sum by (reason) (ferry_requests_total)",
        'ferry_batch_size_sum{le="1"}',
        'ferry:late:ratio{pod="a"}'.replace("pod", "route"),
        "vector(1)",
    ],
)
def test_what_does_not_exist_is_refused(query):
    with pytest.raises(UnknownName):
        NAMES.used(query)
