"""Addresses with every kind of password, and none of them shown."""

from urllib.parse import quote

import pytest

from ferry_runtime.errors import ConfigurationError
from ferry_runtime.store.address import StoreAddress

NASTY = "p@ss/w?rd#1%2F:+ &"


@pytest.mark.parametrize(
    "address",
    [
        pytest.param(StoreAddress.parse(f"redis://:{quote(NASTY, safe='')}@h:7/3"), id="encoded once"),
        pytest.param(StoreAddress.parse("redis://h:7/3", password=NASTY), id="apart"),
        pytest.param(StoreAddress.parse("redis://:old@h:7/3", password=NASTY), id="apart wins"),
    ],
)
def test_a_password_of_special_characters_arrives_whole(address: StoreAddress) -> None:
    assert (address.password, address.host, address.port, address.db) == (NASTY, "h", 7, 3)
    assert NASTY not in repr(address)
    assert NASTY not in address.label


def test_a_raw_password_with_the_urls_own_marks_still_parses() -> None:
    address = StoreAddress.parse("redis://user:p@ss/w?rd#1:+&@h:7/3")
    assert (address.username, address.password, address.host) == ("user", "p@ss/w?rd#1:+&", "h")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h", StoreAddress(host="h")),
        ("rediss://acl@h:7/2", StoreAddress(host="h", port=7, db=2, username="acl", tls=True)),
        ("redis://[::1]:7", StoreAddress(host="::1", port=7)),
        ("unix:///run/redis.sock?db=2", StoreAddress(path="/run/redis.sock", db=2)),
        (" redis://h:1\n", StoreAddress(host="h", port=1)),
    ],
)
def test_addresses(url: str, expected: StoreAddress) -> None:
    assert StoreAddress.parse(url) == expected


@pytest.mark.parametrize(
    "url",
    ["", "h:6379", "http://:secret@h", "redis://:secret@", "redis://:secret@h:x", "redis://:secret@h/x"],
)
def test_a_wrong_address_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        StoreAddress.parse(url)
    assert "secret" not in str(refused.value)


def test_labels_name_the_place() -> None:
    assert StoreAddress.parse("redis://:x@[::1]:7/1").label == "[::1]:7/1"
    assert StoreAddress.parse("unix:///s").label == "/s/0"
