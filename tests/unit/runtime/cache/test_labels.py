"""Labels: bounded, gone with their entry, within one tenant's reach."""

from ferry_runtime.cache.labels import MOST_LABELS, Labels, encode
from ferry_runtime.cache.messages import Judged, Scope

MARKS = (0.6, 0.05)
NOW = 1000.0


def make(most: int = 100) -> Labels:
    return Labels(lambda: MARKS, most)


def judged(entry_id: str = "e", *, right: bool = True, score: float = 0.4, **changes: object) -> Judged:
    values: dict[str, object] = {"owner": "a", "model": "m", "expires": NOW + 60}
    return Judged(id=entry_id, label=encode(score, right=right), **(values | changes))


def test_an_entry_without_labels_has_no_threshold() -> None:
    assert make().threshold("e", NOW) is None


def test_right_labels_lower_the_threshold_and_wrong_ones_raise_it() -> None:
    labels = make()
    for _ in range(5):
        labels.add(judged("good"), NOW)
        labels.add(judged("bad", right=False), NOW)
    assert labels.threshold("good", NOW) < MARKS[0] < labels.threshold("bad", NOW)


def test_a_label_goes_with_its_entry() -> None:
    labels = make()
    labels.add(judged(expires=NOW + 1), NOW)
    assert labels.threshold("e", NOW + 1) is None
    labels.sweep(NOW + 1)
    assert len(labels) == 0


def test_what_has_expired_is_not_learned_and_does_not_count_for_a_later_life() -> None:
    labels = make()
    labels.add(judged(expires=NOW), NOW)
    assert len(labels) == 0
    for _ in range(5):
        labels.add(judged(expires=NOW + 1), NOW)
    labels.add(judged(expires=NOW + 100), NOW + 2)
    once = make()
    once.add(judged(), NOW)
    assert labels.threshold("e", NOW + 2) == once.threshold("e", NOW)


def test_memory_is_bounded_by_entries_and_by_labels_of_each() -> None:
    labels = make(most=10)
    for number in range(50):
        labels.add(judged(str(number)), NOW)
    assert len(labels) == 10
    assert labels.threshold("0", NOW) is None
    for _ in range(5 * MOST_LABELS):
        labels.add(judged("49"), NOW)
    assert len(labels._known["49"].labels) == MOST_LABELS


def test_the_latest_labels_count() -> None:
    labels = make()
    for _ in range(MOST_LABELS):
        labels.add(judged(right=False), NOW)
    strict = labels.threshold("e", NOW)
    for _ in range(MOST_LABELS):
        labels.add(judged(right=True), NOW)
    assert labels.threshold("e", NOW) < MARKS[0] < strict


def test_a_purge_takes_what_its_scope_covers() -> None:
    labels = make()
    for entry_id, owner in (("1", "a"), ("2", "a"), ("3", "b")):
        labels.add(judged(entry_id, owner=owner), NOW)
    labels.purge(Scope(tenant="b", ids=frozenset({"1", "3"})))
    assert [entry_id for entry_id in "123" if labels.threshold(entry_id, NOW)] == ["1", "2"]
    labels.purge(Scope(model="another"))
    assert len(labels) == 2
    labels.purge(Scope(tenant="a"))
    assert len(labels) == 0
