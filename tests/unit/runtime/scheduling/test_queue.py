from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ferry_runtime.scheduling.job import Job
from ferry_runtime.scheduling.queue import WaitingQueue, by_score


def job(number, arrival=0.0, priority=0, cost=10):
    return Job(id=f"job-{number}", arrival=arrival, queue_deadline=1e9, priority=priority, prompt_tokens=cost)


def drain(queue):
    order = []
    while (best := queue.peek()) is not None:
        order.append(best.id)
        queue.remove(best.id)
    return order


operations = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(0, 40), st.integers(-2, 2)),
        st.tuples(st.just("remove"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("follow"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("urge"), st.integers(0, 40), st.integers(-9, -3)),
    ),
    max_size=80,
)


@given(operations)
def test_the_queue_is_always_in_the_order_of_the_score(steps):
    queue, held, pressure = WaitingQueue(), {}, 0.0
    queue.follow(pressure, 40.0)
    for now, (step, number, priority) in enumerate(steps):
        name = f"job-{number}"
        match step:
            case "push" if name not in held:
                held[name] = job(number, float(now), priority, cost=1 + number)
                queue.push(held[name])
            case "remove" if name in held:
                queue.remove(name)
                del held[name]
            case "urge" if name in held:
                held[name] = job(number, held[name].arrival, priority, cost=1 + number)
                queue.replace(held[name])
            case "follow":
                pressure = 10.0**number  # far enough apart that the order is computed anew
                queue.follow(pressure, 40.0)
        expected = sorted(
            held.values(), key=lambda held: (held.arrival + by_score(held, pressure, 40.0), held.priority)
        )
        assert [found.id for found in queue.best(len(held))] == [wanted.id for wanted in expected]
        assert queue.peek() == (expected[0] if expected else None)
    assert len(queue) == len(held)


def test_equal_requests_go_in_the_order_of_admission():
    queue = WaitingQueue()
    for number in (3, 1, 2):
        queue.push(job(number))
    assert drain(queue) == ["job-3", "job-1", "job-2"]


def test_one_that_becomes_more_urgent_keeps_its_age():
    queue = WaitingQueue()
    queue.follow(0.0, 40.0)
    for number in range(3):
        queue.push(job(number, arrival=float(number), priority=1))
    queue.replace(job(2, arrival=2.0, priority=0))
    assert drain(queue) == ["job-2", "job-0", "job-1"]


def test_removed_requests_do_not_pile_up():
    queue = WaitingQueue()
    queue.push(job(0))
    for number in range(1, 10_000):
        queue.push(job(number, arrival=1.0))
        queue.remove(f"job-{number}")
    assert len(queue._heap) < 50
    assert drain(queue) == ["job-0"]
