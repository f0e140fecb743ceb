from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity

from ferry_api.values import Duration, Quantity


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("50ms", 0.05),
        ("0s", 0),
        ("1h", 3600),
        ("1h30m", 5400),
        ("1m30s500ms", 90.5),
        ("99999ms", 99.999),
        ("1s1s1s1s", 4),
        ("00001m", 60),
    ],
)
def test_durations_are_sums_of_their_parts(text, seconds):
    assert Duration(text).seconds == seconds
    assert Duration(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "1 day",
        "-5s",
        "+5s",
        "1.5s",
        "50MS",
        "1d",
        "100000s",
        "1s1s1s1s1s",
        "50ms\n",
        " 50ms",
        "s",
        "\u0665s",
    ],
)
def test_what_is_no_gep_2257_duration_is_refused(text):
    with pytest.raises(ValueError, match="write for example 50ms"):
        Duration(text)


@given(
    st.lists(st.tuples(st.integers(0, 99999), st.sampled_from(["h", "m", "s", "ms"])), min_size=1, max_size=4)
)
def test_any_duration_has_the_length_of_its_parts(parts):
    unit = {"h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds"}
    expected = sum((timedelta(**{unit[name]: number}) for number, name in parts), timedelta())
    duration = Duration("".join(f"{number}{name}" for number, name in parts))
    assert timedelta(milliseconds=duration.milliseconds) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4Gi", 4 << 30),
        ("1.5Gi", 3 << 29),
        ("500M", 500_000_000),
        ("1", 1),
        ("200m", Decimal("0.2")),
        ("1e3", 1000),
        ("1E3", 1000),
        ("2E", 2 * 10**18),
        (".5Ki", 512),
        (8, 8),
    ],
)
def test_quantities_have_kubernetes_values(text, value):
    assert Quantity(text).value == value


@pytest.mark.parametrize(
    "text", ["", "4GB", "4 Gi", "-1", "+1", "Gi", "1ki", "1K", "0x10", "1Gi\n", "1e", "four", -1]
)
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(ValueError, match="write for example 4Gi"):
        Quantity(text)


@given(
    st.decimals(min_value=0, max_value=10**6, places=2),
    st.sampled_from(["", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"]),
)
def test_quantities_agree_with_the_kubernetes_client(number, suffix):
    text = f"{number}{suffix}"
    assert Quantity(text).value == parse_quantity(text)


@pytest.mark.parametrize("text", ["1e5000", "1E999999999999", "9" * 5000, "10E", "9e180", "99999Ei"])
def test_quantities_past_kubernetes_largest_are_the_largest(text):
    assert Quantity(text).value == 2**63 - 1
    assert Quantity(text).bytes == 2**63 - 1


@pytest.mark.parametrize("text", ["1e-5000", "1e-999999999999", "0." + "0" * 5000 + "1", "0e5000"])
def test_quantities_below_any_sense_are_almost_nothing(text):
    assert Quantity(text).value < Decimal("1e-9")
    assert Quantity(text).bytes == 0


def test_bytes_are_whole():
    assert Quantity("1.5Ki").bytes == 1536
    assert Quantity("1500m").bytes == 1
