"""POST /generate: one prompt, one answer, nothing to choose."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from ferry_runtime.api.account import is_cached
from ferry_runtime.api.body import read_body
from ferry_runtime.api.context import context_of
from ferry_runtime.api.openapi import Documented
from ferry_runtime.api.prepare import PromptOf, check_length, context_text, generation_request, limits
from ferry_runtime.api.replies import cache_headers, generate, json_response
from ferry_runtime.api.resolve import Wanted
from ferry_runtime.api.schemas.answers import Generated
from ferry_runtime.api.schemas.completions import GenerateBody
from ferry_runtime.api.schemas.unsupported import refuse_unsupported
from ferry_runtime.api.services import Services
from ferry_runtime.api.streaming import ignored_header
from ferry_runtime.generation import GenerationRequest

# Where neither the body nor the configuration says: a base model never stops by itself.
DEFAULT_MAX_NEW_TOKENS = 256


def generate_router(services: Services, documented: Documented) -> APIRouter:
    router = APIRouter(tags=["Ferry"])

    @router.post("/generate", **documented.post(GenerateBody, Generated))
    async def generate_text(request: Request) -> Response:
        """Answers a prompt; greedy unless a temperature is given. An instruct model reads the
        prompt as one user message."""
        body = await read_body(request, GenerateBody, services.body)
        refuse_unsupported(body)
        job = await _request(services, request, body)
        generation, account = await generate(services, request, [job])
        choice = generation.choices[0]
        latency_ms = account.latency_ms
        answer = Generated(
            request_id=job.id,
            prompt=body.prompt,
            generated_text=choice.text,
            latency_ms=round(latency_ms, 3),
            cached=is_cached(generation.cache),
            input_tokens=len(job.prompt_token_ids),
            output_tokens=choice.tokens,
            tokens_per_second=round(choice.tokens / max(latency_ms / 1000, 1e-6), 3),
            finish_reason=str(choice.finish_reason),
        )
        account.succeeded(generation.cache, generation.output_tokens)
        headers = {**cache_headers(generation.cache), **ignored_header(job.unknown_fields)}
        return json_response(answer, headers)

    return router


async def _request(services: Services, request: Request, body: GenerateBody) -> GenerationRequest:
    bounds = limits(services)
    text = services.text()
    context = ""
    check_length(text, len(body.prompt), bounds, "prompt")
    if text.chat_template is None:
        encoded = await text.encode(body.prompt)
    else:
        messages = [{"role": "user", "content": body.prompt}]
        encoded = await text.encode_chat(messages)
        context = context_text(messages)
    wanted = Wanted(
        max_tokens=body.max_new_tokens,
        max_tokens_param="max_new_tokens",
        prompt_param="prompt",
        default_max_tokens=DEFAULT_MAX_NEW_TOKENS,
        default_temperature=0.0,
    )
    prompt = PromptOf(encoded=encoded, user_text=body.prompt, context=context)
    return generation_request(request, body, prompt, wanted, bounds, answer_id=context_of(request).id, n=1)
