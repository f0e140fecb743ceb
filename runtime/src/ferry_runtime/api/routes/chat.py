"""POST /v1/chat/completions."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from ferry_runtime.api.body import read_body
from ferry_runtime.api.context import context_of
from ferry_runtime.api.openapi import Documented
from ferry_runtime.api.prepare import (
    PromptOf,
    check_length,
    check_model,
    context_text,
    conversation,
    generation_request,
    last_user_text,
    limits,
)
from ferry_runtime.api.render import ChatRenderer
from ferry_runtime.api.replies import cache_headers, generate, stream, whole_response
from ferry_runtime.api.resolve import Wanted
from ferry_runtime.api.schemas.answers import ChatChunk, ChatCompletion
from ferry_runtime.api.schemas.chat import ChatBody
from ferry_runtime.api.schemas.unsupported import refuse_unsupported
from ferry_runtime.api.services import Services
from ferry_runtime.api.streaming import ignored_header, wants_usage
from ferry_runtime.errors import InvalidRequest
from ferry_runtime.generation import GenerationRequest


def chat_router(services: Services, documented: Documented) -> APIRouter:
    router = APIRouter(tags=["OpenAI"])

    @router.post("/v1/chat/completions", **documented.post(ChatBody, ChatCompletion, stream=ChatChunk))
    async def create_chat_completion(request: Request) -> Response:
        """Answers a conversation, in one piece or streamed."""
        body = await read_body(request, ChatBody, services.body)
        check_model(services, body.model)
        refuse_unsupported(body)
        include_usage = wants_usage(body)
        answer_id = context_of(request).answer_id("chatcmpl")
        job = await _request(services, request, body, answer_id)
        renderer = ChatRenderer(
            answer_id, services.model_name, logprobs=bool(body.logprobs), include_usage=include_usage
        )
        headers = ignored_header(job.unknown_fields)
        if body.stream:
            return await stream(
                services, request, [job], renderer, include_usage=include_usage, headers=headers
            )
        generation, account = await generate(services, request, [job])
        account.succeeded(generation.cache, generation.output_tokens)
        headers = {**cache_headers(generation.cache), **headers}
        return await whole_response(renderer, generation.choices, generation.usage, headers)

    return router


async def _request(services: Services, request: Request, body: ChatBody, answer_id: str) -> GenerationRequest:
    if body.top_logprobs is not None and not body.logprobs:
        raise InvalidRequest("top_logprobs needs logprobs to be true.", param="top_logprobs")
    bounds = limits(services)
    messages = conversation(body.messages)
    text = services.text()
    check_length(text, sum(len(message.content) for message in body.messages), bounds, "messages")
    encoded = await text.encode_chat(
        messages,
        add_generation_prompt=body.add_generation_prompt is not False,
        continue_final_message=bool(body.continue_final_message),
        variables=body.chat_template_kwargs,
    )
    wanted = Wanted(
        max_tokens=body.max_completion_tokens or body.max_tokens,
        max_tokens_param="max_completion_tokens" if body.max_completion_tokens else "max_tokens",
        prompt_param="messages",
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
    )
    prompt = PromptOf(
        encoded=encoded, user_text=last_user_text(body.messages), context=context_text(messages)
    )
    return generation_request(request, body, prompt, wanted, bounds, answer_id=answer_id, n=body.n or 1)
