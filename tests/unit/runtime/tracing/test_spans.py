from __future__ import annotations

import asyncio

import httpx
from opentelemetry.trace import SpanKind, StatusCode
from tests.conftest import until
from tests.integration.runtime.http.support import serving
from tests.unit.runtime.http.support import CONTEXT, VOCAB, chat_body, completion_body

from ferry_api.runtime_config import HotConfig, QueueConfig
from ferry_runtime.engine.fake import FakeBackend

_TRACE = "0af7651916cd43dd8448eb211c80319c"
_CALLER = "b7ad6b7169203331"
_SECRET = "Xanthippe"


class Listening(FakeBackend):
    """The double, which keeps the headers that it was given."""

    def __init__(self) -> None:
        super().__init__(vocab_size=VOCAB, context_length=CONTEXT)
        self.headers: list[dict[str, str]] = []

    def generate(self, request):
        self.headers.append(request.headers)
        return super().generate(request)


def told(span):
    """As headers spell a span; the flags are sampled, and in newer SDKs random."""
    context = span.context
    assert context.trace_flags.sampled
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


async def ask(traced, **fields):
    return await traced.client.post("/v1/completions", json=completion_body(temperature=0, **fields))


async def test_a_generated_answer_leaves_four_spans_of_one_trace(traced):
    server = await traced(cached=True)
    answer = await ask(server, prompt="abc", max_tokens=5, ignore_eos=True)
    await until(lambda: len(server.spans) == 4)
    (http,) = server.named("POST /v1/completions")
    (cache,), (queue,), (engine,) = (server.named(name) for name in ("cache", "queue", "engine"))
    assert {span.parent.span_id for span in (cache, queue, engine)} == {http.context.span_id}
    assert http.kind is SpanKind.SERVER
    assert dict(http.attributes) == {
        "http.request.method": "POST",
        "http.route": "/v1/completions",
        "http.response.status_code": 200,
        "ferry.request.id": answer.headers["x-request-id"],
        "ferry.outcome": "ok",
    }
    assert cache.attributes["ferry.cache.outcome"] == "miss"
    assert engine.attributes["gen_ai.usage.input_tokens"] == 3
    assert engine.attributes["gen_ai.usage.output_tokens"] == 5
    assert engine.attributes["gen_ai.response.finish_reasons"] == ("length",)
    assert [event.name for event in engine.events] == ["first_token"]


async def test_the_spans_follow_each_other_within_the_request(traced):
    server = await traced(cached=True)
    server.served.stack.backend.controls.step_seconds = 0.01
    await ask(server, max_tokens=5, ignore_eos=True)
    await until(lambda: len(server.spans) == 4)
    (http,) = server.named("POST /v1/completions")
    (queue,), (engine,) = server.named("queue"), server.named("engine")
    assert http.start_time <= queue.start_time <= queue.end_time == engine.start_time
    assert engine.start_time <= engine.events[0].timestamp <= engine.end_time <= http.end_time
    assert engine.end_time - engine.start_time >= 5 * 10_000_000


async def test_a_callers_trace_goes_on_and_is_told_back(traced):
    server = await traced()
    headers = {"traceparent": f"00-{_TRACE}-{_CALLER}-01", "tracestate": "vendor=1"}
    answer = await server.client.post("/v1/completions", json=completion_body(), headers=headers)
    await until(lambda: len(server.spans) == 3)
    (http,) = server.named("POST /v1/completions")
    assert f"{http.context.trace_id:032x}" == _TRACE
    assert f"{http.parent.span_id:016x}" == _CALLER
    assert http.context.trace_state.get("vendor") == "1"
    assert answer.headers["traceresponse"] == told(http)


async def test_an_engine_that_is_a_server_gets_the_context(traced):
    backend = Listening()
    server = await traced(backend=backend)
    await ask(server)
    await until(lambda: len(server.spans) == 3)
    (http,) = server.named("POST /v1/completions")
    assert backend.headers == [{"traceparent": told(http)}]


async def test_what_the_caller_does_not_sample_leaves_no_spans(traced):
    server = await traced(cached=True)
    headers = {"traceparent": f"00-{_TRACE}-{_CALLER}-00"}
    answer = await server.client.post("/v1/completions", json=completion_body(), headers=headers)
    assert answer.status_code == 200
    assert answer.headers["traceresponse"].endswith("-00")
    assert server.spans == ()


async def test_a_malformed_context_begins_a_trace_of_its_own(traced):
    server = await traced()
    answer = await server.client.post(
        "/v1/completions", json=completion_body(), headers={"traceparent": "00-zz-zz-01"}
    )
    assert answer.status_code == 200
    await until(lambda: len(server.spans) == 3)
    assert server.named("POST /v1/completions")[0].parent is None


async def test_a_hit_waits_for_no_engine(traced):
    server = await traced(cached=True)
    await ask(server)
    await until(lambda: len(server.spans) == 4)
    await ask(server)
    await until(lambda: len(server.spans) == 6)
    assert [span.attributes.get("ferry.cache.outcome") for span in server.named("cache")] == ["miss", "exact"]


async def test_a_trace_does_not_change_what_is_cached(traced):
    server = await traced(cached=True)
    for number in range(2):
        headers = {"traceparent": f"00-{_TRACE}-{_CALLER[:-1]}{number}-01"}
        answer = await server.client.post(
            "/v1/completions", json=completion_body(temperature=0), headers=headers
        )
    assert answer.headers["x-ferry-cache"] == "exact"


async def test_a_streams_span_lasts_as_long_as_the_stream(traced):
    server = await traced()
    server.served.stack.backend.controls.step_seconds = 0.02
    body = chat_body(stream=True, max_tokens=5, ignore_eos=True)
    answer = await server.client.post("/v1/chat/completions", json=body)
    assert answer.text.endswith("data: [DONE]\n\n")
    await until(lambda: len(server.spans) == 3)
    (http,), (engine,) = server.named("POST /v1/chat/completions"), server.named("engine")
    assert http.end_time >= engine.end_time
    assert http.end_time - http.start_time >= 5 * 20_000_000


async def test_a_refusal_and_its_reason_show(traced):
    queue = QueueConfig(max_requests=2, timeout_seconds=0.2)
    server = await traced(hot=HotConfig(queue=queue), backend=FakeBackend(slots=1, vocab_size=VOCAB))
    server.served.stack.backend.controls.hanging = True
    asked = [asyncio.create_task(ask(server)) for _ in range(6)]
    # One has the slot, one lies ready beside it, one waits in vain.
    await until(lambda: sum(task.done() for task in asked) == 4)
    server.served.stack.backend.controls.hanging = False
    statuses = [(await task).status_code for task in asked]
    assert 504 in statuses
    assert 503 in statuses
    waited = [span for span in server.named("queue") if span.status.status_code is StatusCode.ERROR]
    assert {span.attributes["error.type"] for span in waited} == {"DeadlineExceeded"}
    failed = [
        span for span in server.named("POST /v1/completions") if span.status.status_code is StatusCode.ERROR
    ]
    assert len(failed) == sum(status >= 500 for status in statuses)
    assert all(span.attributes["error.type"] for span in failed)


async def test_a_client_that_leaves_ends_its_engine_span(traced):
    server = await traced()
    server.served.stack.backend.controls.step_seconds = 0.01
    body = chat_body(stream=True, max_tokens=500, ignore_eos=True)
    async with server.client.stream("POST", "/v1/chat/completions", json=body) as answer:
        await anext(answer.aiter_bytes())
    await until(lambda: len(server.spans) == 3)
    (engine,) = server.named("engine")
    assert engine.attributes["error.type"] == "CancelledError"
    assert 0 < engine.attributes["gen_ai.usage.output_tokens"] < 500
    assert server.named("POST /v1/chat/completions")[0].attributes["ferry.outcome"] == "cancelled"


async def test_followers_of_a_generation_share_its_engine_span(traced):
    server = await traced(cached=True)
    server.served.stack.backend.controls.step_seconds = 0.02
    answers = await asyncio.gather(*(ask(server, max_tokens=8, ignore_eos=True) for _ in range(4)))
    assert {answer.status_code for answer in answers} == {200}
    await until(lambda: len(server.spans) == 4 + 4 + 2)
    outcomes = sorted(span.attributes["ferry.cache.outcome"] for span in server.named("cache"))
    assert outcomes == ["coalesced", "coalesced", "coalesced", "miss"]


async def test_no_text_of_prompt_answer_or_error_is_in_any_span(traced):
    server = await traced(cached=True)
    backend = server.served.stack.backend
    backend._answer = lambda _: [f" {_SECRET}", " answers"]
    prompt = f"Say {_SECRET}"
    assert _SECRET in (await ask(server, prompt=prompt)).text
    await server.client.post(
        "/v1/chat/completions", json=chat_body(messages=[{"role": "user", "content": prompt}])
    )
    await server.client.post("/generate", json={"prompt": prompt, "max_new_tokens": -1})
    await server.client.post(f"/v1/{_SECRET}?q={_SECRET}", json={"prompt": prompt})
    backend.controls.fails = lambda _: True
    assert (await ask(server, prompt=f"{prompt} again")).status_code == 500
    await until(lambda: len(server.named("engine")) == 3)
    assert len(server.named("POST unmatched")) == 1
    assert all(_SECRET not in span.to_json() for span in server.spans)


async def test_probes_and_scrapes_leave_no_spans(traced):
    server = await traced()
    for path in ("/livez", "/readyz", "/metrics"):
        assert "traceresponse" not in (await server.client.get(path)).headers
    assert server.spans == ()


async def test_a_server_without_traces_says_nothing_of_them():
    async with serving() as served, httpx.AsyncClient(base_url=served.url) as client:
        headers = {"traceparent": f"00-{_TRACE}-{_CALLER}-01"}
        answer = await client.post("/v1/completions", json=completion_body(), headers=headers)
        assert answer.status_code == 200
        assert "traceresponse" not in answer.headers
