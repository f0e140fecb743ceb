"""POST /v1/completions."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Request, Response

from ferry_runtime.api.answers import Choice
from ferry_runtime.api.body import read_body
from ferry_runtime.api.context import context_of
from ferry_runtime.api.offload import off_loop
from ferry_runtime.api.openapi import Documented
from ferry_runtime.api.prepare import PromptOf, check_length, check_model, generation_request, limits
from ferry_runtime.api.render import CompletionRenderer
from ferry_runtime.api.replies import cache_headers, generate, stream, whole_response
from ferry_runtime.api.resolve import Limits, Wanted, check_vocabulary, too_long
from ferry_runtime.api.schemas.answers import Completion, CompletionChunk
from ferry_runtime.api.schemas.completions import CompletionBody, OnePrompt
from ferry_runtime.api.schemas.unsupported import refuse_unsupported
from ferry_runtime.api.services import Services
from ferry_runtime.api.streaming import ignored_header, wants_usage
from ferry_runtime.errors import InvalidRequest
from ferry_runtime.generation import GenerationRequest
from ferry_runtime.text.model import EncodedPrompt

# OpenAI's default for this route; a base model would otherwise fill its whole context.
DEFAULT_MAX_TOKENS = 16
MAX_CHOICES_PER_BODY = 512
_WITHOUT_SPECIAL = '{"add_special_tokens":false}'


def completions_router(services: Services, documented: Documented) -> APIRouter:
    router = APIRouter(tags=["OpenAI"])

    @router.post("/v1/completions", **documented.post(CompletionBody, Completion, stream=CompletionChunk))
    async def create_completion(request: Request) -> Response:
        """Continues one or more prompts, in one piece or streamed."""
        body = await read_body(request, CompletionBody, services.body)
        check_model(services, body.model)
        refuse_unsupported(body)
        include_usage = wants_usage(body)
        _check(body)
        answer_id = context_of(request).answer_id("cmpl")
        jobs = await _requests(services, request, body, answer_id)
        n = body.n or 1
        renderer = CompletionRenderer(
            answer_id,
            services.model_name,
            logprobs=body.logprobs is not None,
            include_usage=include_usage,
            echo=_echo(jobs, n) if body.echo else None,
            only_echo=body.max_tokens == 0,
        )
        headers = ignored_header(jobs[0].unknown_fields)
        if body.stream:
            return await stream(
                services, request, jobs, renderer, include_usage=include_usage, headers=headers
            )
        generation, account = await generate(services, request, jobs)
        choices = _best(generation.choices, jobs[0].n, n)
        account.succeeded(generation.cache, generation.output_tokens)
        headers = {**cache_headers(generation.cache), **headers}
        return await whole_response(renderer, choices, generation.usage, headers)

    return router


def _check(body: CompletionBody) -> None:
    if body.max_tokens == 0 and not body.echo:
        raise InvalidRequest("max_tokens must be at least 1; 0 needs echo.", param="max_tokens")
    if len(body.prompt) * max(body.n or 1, body.best_of or 1) > MAX_CHOICES_PER_BODY:
        raise InvalidRequest(
            f"prompts times n (or best_of) must not exceed {MAX_CHOICES_PER_BODY}.", param="n"
        )
    if body.best_of is None:
        return
    if body.best_of < (body.n or 1):
        raise InvalidRequest("best_of must not be smaller than n.", param="best_of")
    if body.stream and body.best_of > (body.n or 1):
        raise InvalidRequest("best_of cannot be streamed: the best is known at the end.", param="best_of")


async def _requests(
    services: Services, request: Request, body: CompletionBody, answer_id: str
) -> list[GenerationRequest]:
    bounds = limits(services)
    candidates = _candidates(body, bounds)
    ranked = candidates > (body.n or 1)
    wanted = Wanted(
        # With echo alone one token is generated all the same, and not shown.
        max_tokens=1 if body.max_tokens == 0 else body.max_tokens,
        prompt_param="prompt",
        default_max_tokens=DEFAULT_MAX_TOKENS,
        logprobs=0 if body.logprobs is None and ranked else body.logprobs,
        prompt_logprobs=body.logprobs if body.echo else None,
    )
    jobs = []
    for position, prompt in enumerate(body.prompt):
        encoded = await _encode(services, prompt, bounds, special=body.add_special_tokens)
        described = PromptOf(
            encoded=encoded,
            user_text=prompt if isinstance(prompt, str) else None,
            # Not to be seen in the text, and another prompt all the same.
            context=_WITHOUT_SPECIAL if body.add_special_tokens is False else "",
        )
        mine = answer_id if len(body.prompt) == 1 else f"{answer_id}-{position}"
        jobs.append(
            generation_request(request, body, described, wanted, bounds, answer_id=mine, n=candidates)
        )
    return jobs


def _candidates(body: CompletionBody, bounds: Limits) -> int:
    """Greedy candidates are all the same, so that the first ones are the best."""
    temperature = body.temperature if body.temperature is not None else bounds.generation.temperature
    n = body.n or 1
    return n if temperature == 0 else max(n, body.best_of or 1)


async def _encode(
    services: Services, prompt: OnePrompt, bounds: Limits, *, special: bool | None
) -> EncodedPrompt:
    text = services.text()
    if isinstance(prompt, str):
        check_length(text, len(prompt), bounds, "prompt")
        return await text.encode(prompt, add_special_tokens=special is not False)
    if len(prompt) >= bounds.context_length:
        raise too_long("prompt", bounds.context_length, len(prompt))  # before millions of ids are looked at
    check_vocabulary(prompt, bounds.vocab_size, "prompt")
    decoded = await off_loop(len(prompt), text.tokenizer.decode, prompt, skip_special_tokens=False)
    return EncodedPrompt(decoded, prompt)


def _echo(jobs: Sequence[GenerationRequest], n: int) -> dict[int, str]:
    """The text in front of every shown choice, by the choice's index."""
    return {position * n + index: job.prompt_text for position, job in enumerate(jobs) for index in range(n)}


def _best(choices: Sequence[Choice], candidates: int, n: int) -> list[Choice]:
    """The n likeliest of every prompt's candidates, by mean log-probability."""
    if candidates == n:
        return list(choices)
    best = []
    for first in range(0, len(choices), candidates):
        ranked = sorted(choices[first : first + candidates], key=lambda choice: -choice.mean_logprob)
        best += ranked[:n]
    return best
