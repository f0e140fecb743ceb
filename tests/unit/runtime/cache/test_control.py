"""Orders to the cache: obeyed within the caller's rights, and no further."""

import pytest

from ferry_runtime.cache.control import CacheControl, Caller, EntryNotFound
from ferry_runtime.errors import InvalidRequest
from ferry_runtime.generation import CacheOutcome

ADMIN, A, B = Caller("ops", admin=True), Caller("a"), Caller("b")


@pytest.fixture
def control(cache) -> CacheControl:
    return CacheControl(cache.layer)


async def stored(cache, make_request, tenant: str = "a", text: str = "What is it?") -> str:
    await cache.ask(make_request(text, tenant=tenant))
    _, info = await cache.ask(make_request(text, tenant=tenant))
    assert info.entry_id is not None
    return info.entry_id


async def still_there(cache, make_request, tenant: str = "a", text: str = "What is it?") -> bool:
    return (await cache.ask(make_request(text, tenant=tenant)))[1].outcome is CacheOutcome.EXACT


async def test_an_entry_is_shown_to_its_tenant_and_to_administrators(cache, make_request, control) -> None:
    entry_id = await stored(cache, make_request)
    for caller in (A, ADMIN):
        shown = await control.entry(entry_id, caller)
        assert shown["choices"] == [{"text": "A ferry is a boat.", "finishReason": "stop"}]
    with pytest.raises(EntryNotFound):
        await control.entry(entry_id, B)


@pytest.mark.parametrize("entry_id", ["", "x" * 32, "0" * 32, "../../etc", "0" * 31 + "\ud800", "*"])
async def test_an_unknown_entry_is_not_found(control, entry_id: str) -> None:
    with pytest.raises(EntryNotFound):
        await control.entry(entry_id, ADMIN)


@pytest.mark.parametrize("order", ["delete", "wrong"])
async def test_an_entry_goes_by_order_of_its_tenant(cache, make_request, control, order: str) -> None:
    entry_id = await stored(cache, make_request)
    act = control.delete_entry if order == "delete" else lambda i, c: control.feedback(i, "wrong", c)
    with pytest.raises(EntryNotFound):
        await act(entry_id, B)
    assert await still_there(cache, make_request)
    await act(entry_id, A)
    assert not await still_there(cache, make_request)


async def test_good_feedback_keeps_the_entry(cache, make_request, control) -> None:
    await control.feedback(await stored(cache, make_request), "good", A)
    assert await still_there(cache, make_request)


async def test_an_unknown_verdict_is_refused(cache, make_request, control) -> None:
    with pytest.raises(InvalidRequest, match="good or wrong"):
        await control.feedback(await stored(cache, make_request), "meh", A)


async def test_a_tenant_clears_its_own_entries_only(cache, make_request, control) -> None:
    await stored(cache, make_request, "a")
    await stored(cache, make_request, "b")
    assert await control.clear(A) == 1
    assert not await still_there(cache, make_request, "a")
    assert await still_there(cache, make_request, "b")
    with pytest.raises(EntryNotFound):
        await control.delete(A, tenant="b")


async def test_an_administrator_deletes_by_tenant_and_by_model(cache, make_request, control) -> None:
    await stored(cache, make_request, "a")
    await stored(cache, make_request, "b")
    assert await control.delete(ADMIN, model="another") == 0
    assert await control.delete(ADMIN, tenant="a", model="m") == 1
    assert await control.clear(ADMIN) == 1


async def test_statistics_are_counts_and_no_text(cache, make_request, control) -> None:
    await stored(cache, make_request, tenant="secret-tenant", text="Where is the secret?")
    stats = control.stats()
    assert stats["entries"] == 1
    assert stats["lookups"]["exact_local/hit"] == 1
    assert "secret" not in repr(stats)
