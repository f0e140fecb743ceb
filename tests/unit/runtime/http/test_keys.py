from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from ferry_runtime.api.auth import files
from ferry_runtime.api.auth.files import KeyFiles
from ferry_runtime.api.auth.keys import parse_key_table
from ferry_runtime.api.auth.policy import KeyPolicy, OpenPolicy, bearer
from ferry_runtime.api.auth.principal import MAX_PRIORITY, Principal
from ferry_runtime.errors import InvalidRequest


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def entry(key: str = "s3cret", **fields: Any) -> bytes:
    return json.dumps({"sha256": digest(key)} | fields).encode()


def test_an_entry_gives_its_principal() -> None:
    table = parse_key_table({"ann": entry(tenant="team-a", admin=True, priority={"min": -5, "max": 5})})
    assert table.find(b"s3cret") == Principal(
        key_id="ann", tenant="team-a", admin=True, min_priority=-5, max_priority=5
    )
    assert table.find(b"other") is None
    assert not table.problems


def test_defaults_are_the_least() -> None:
    found = parse_key_table({"ann": entry()}).find(b"s3cret")
    assert found == Principal(
        key_id="ann", tenant="ann", admin=False, min_priority=0, max_priority=MAX_PRIORITY
    )


DIGEST = digest("s3cret").encode()


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(entry() + b"\n", id="newline"),
        pytest.param(b"\n\n  " + entry() + b"  \r\n\r\n", id="blanks"),
        pytest.param(b"\xef\xbb\xbf" + entry(), id="byte order mark"),
        pytest.param(b"# web team\r\n" + entry(admin=False).replace(b", ", b",\r\n"), id="comment, CRLF"),
        pytest.param(entry().replace(DIGEST, b" " + DIGEST + b"\\n"), id="blanks inside"),
        pytest.param(entry().replace(DIGEST, DIGEST.upper() + b"  -"), id="output of sha256sum"),
        pytest.param(entry().replace(DIGEST, digest("s3cret\n").encode()), id="echo KEY | sha256sum"),
    ],
)
def test_what_editors_and_shells_add_does_not_lock_anybody_out(raw: bytes) -> None:
    table = parse_key_table({"ann": raw})
    assert table.find(b"s3cret") is not None
    assert not table.problems


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b" \n\r\n# only a comment\n", id="only a comment"),
        pytest.param(b"s3cret", id="the key itself"),
        pytest.param(b"[]", id="list"),
        pytest.param(b"\xff\xfe", id="not text"),
        pytest.param(b"[" * 100_000, id="nested"),
        pytest.param(b'{"tenant": "a"}', id="no digest"),
        pytest.param(entry(sha256="abc"), id="short digest"),
        pytest.param(entry(sha256="zz" * 32), id="no digits"),
        pytest.param(entry(sha256=7), id="number"),
        pytest.param(entry(""), id="digest of nothing"),
        pytest.param(entry("\n"), id="digest of a newline"),
        pytest.param(entry(tenant=""), id="empty tenant"),
        pytest.param(entry(tenant=7), id="tenant is a number"),
        pytest.param(entry(admin="yes"), id="admin is a text"),
        pytest.param(entry(priority={"min": 5, "max": 1}), id="empty range"),
        pytest.param(entry(priority={"min": True}), id="true"),
        pytest.param(entry(priority={"least": 1}), id="unknown bound"),
        pytest.param(entry(priority=3), id="priority is a number"),
        pytest.param(entry(adnim=True), id="unknown field"),
        pytest.param(entry()[:-1] + b', "admin": true, "admin": false}', id="field twice"),
    ],
)
def test_a_wrong_entry_is_named_and_lets_nobody_in(raw: bytes) -> None:
    table = parse_key_table({"ann": raw, "bob": entry("other")})
    assert table.find(b"s3cret") is None
    assert table.find(b"") is None
    assert table.find(b"other") is not None
    (problem,) = table.problems
    assert "'ann'" in problem
    assert "s3cret" not in problem
    assert digest("s3cret") not in problem


def test_the_same_key_twice_is_reported_by_name() -> None:
    table = parse_key_table({"ann": entry(tenant="a"), "bob": entry(tenant="b")})
    found = table.find(b"s3cret")
    assert found is not None
    assert found.tenant == "a"
    (problem,) = table.problems
    assert "'ann'" in problem
    assert "'bob'" in problem
    assert digest("s3cret") not in problem


def test_a_table_without_keys_is_closed() -> None:
    for entries in ({}, {"ann": b""}):
        table = parse_key_table(entries)
        assert table.find(b"") is None
        assert table.find(b"x") is None
        assert any("no usable" in problem for problem in table.problems)
        assert KeyPolicy(lambda table=table: table).authenticate([]) is None


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([b"Bearer s3cret"], b"s3cret"),
        ([b"bearer   s3cret  "], b"s3cret"),
        ([b"BEARER s3cret"], b"s3cret"),
        ([b"Basic s3cret"], None),
        ([b"s3cret"], None),
        ([b"Bearer"], None),
        ([b"Bearer "], None),
        ([b""], None),
        ([], None),
        ([b"Bearer s3cret", b"Bearer s3cret"], None),
        ([b"Bearer \xff\xfe"], b"\xff\xfe"),
    ],
)
def test_one_bearer_header_holds_the_key(headers: list[bytes], expected: bytes | None) -> None:
    assert bearer(headers) == expected


def test_without_api_keys_everybody_is_anonymous_and_only_a_key_makes_an_admin() -> None:
    table = parse_key_table({"admin": entry(admin=True, tenant="admin")})
    policy = KeyPolicy(lambda: table, anonymous=True)
    for headers in ([], [b"Bearer EMPTY"]):
        nobody = policy.authenticate(headers)
        assert nobody is not None
        assert (nobody.tenant, nobody.admin, nobody.key_id) == ("anonymous", False, None)
    admin = policy.authenticate([b"Bearer s3cret"])
    assert admin is not None
    assert admin.admin


def test_the_open_policy_makes_everybody_the_local_admin() -> None:
    everybody = OpenPolicy().authenticate([])
    assert everybody is not None
    assert everybody.admin


def test_priorities_are_bounded_by_the_key() -> None:
    urgent = Principal(key_id="a", tenant="a", min_priority=-10, max_priority=5)
    patient = Principal(key_id="b", tenant="b", min_priority=3, max_priority=9)
    assert [urgent.priority(asked) for asked in (None, -10, 5)] == [0, -10, 5]
    assert [patient.priority(asked) for asked in (None, 3, 9)] == [3, 3, 9]
    for principal, asked in ((urgent, -11), (urgent, 6), (patient, 0)):
        with pytest.raises(InvalidRequest, match="between"):
            principal.priority(asked)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    clock = [0.0]
    monkeypatch.setattr(files.time, "monotonic", lambda: clock[0])
    return clock


def test_a_changed_folder_counts_within_a_second(tmp_path: Path, now: list[float]) -> None:
    keys = KeyFiles([tmp_path])
    assert keys.table().find(b"s3cret") is None
    (tmp_path / "ann").write_bytes(entry())
    assert keys.table().find(b"s3cret") is None
    now[0] += 1
    assert keys.table().find(b"s3cret") is not None
    (tmp_path / "ann").unlink()
    now[0] += 1
    assert keys.table().find(b"s3cret") is None


def test_a_mounted_secret_is_read_once_and_followed_through_its_links(
    tmp_path: Path, now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    """The kubelet keeps versions in folders with dots and swaps one link."""

    def publish(version: str, content: bytes) -> None:
        folder = tmp_path / f"..{version}"
        folder.mkdir()
        (folder / "ann").write_bytes(content)
        (tmp_path / "..new").symlink_to(folder.name)
        (tmp_path / "..new").replace(tmp_path / "..data")

    publish("v1", entry())
    (tmp_path / "ann").symlink_to("..data/ann")
    keys = KeyFiles([tmp_path])
    with caplog.at_level(logging.WARNING):
        assert keys.table().find(b"s3cret") is not None
        publish("v2", entry("rotated key"))
        now[0] += 1
        assert keys.table().find(b"s3cret") is None
        assert keys.table().find(b"rotated key") is not None
    assert not caplog.records


def test_several_folders_are_one_table(tmp_path: Path, now: list[float]) -> None:
    """An entry of the user's that has the admin's name does not replace it."""
    for folder, key, admin in (("keys", "plain", False), ("admin", "boss", True)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "admin").write_bytes(entry(key, admin=admin))
    table = KeyFiles([tmp_path / "keys", tmp_path / "admin"]).table()
    plain, boss = table.find(b"plain"), table.find(b"boss")
    assert plain is not None
    assert boss is not None
    assert (plain.admin, boss.admin) == (False, True)


def test_a_missing_folder_or_a_huge_file_is_closed_and_said_once(
    tmp_path: Path, now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "huge").write_bytes(entry() + b" " * 100_000)
    keys = KeyFiles([tmp_path, tmp_path / "missing"])
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            now[0] += 1
            assert keys.table().find(b"s3cret") is None
    assert len(caplog.records) == 3
    assert "'huge'" in caplog.text
