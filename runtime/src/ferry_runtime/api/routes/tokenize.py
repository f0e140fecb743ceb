"""POST /tokenize and /detokenize, as vLLM has them."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from ferry_runtime.api.body import read_body
from ferry_runtime.api.offload import off_loop
from ferry_runtime.api.openapi import Documented
from ferry_runtime.api.prepare import check_model, conversation, limits
from ferry_runtime.api.replies import json_response
from ferry_runtime.api.resolve import check_vocabulary
from ferry_runtime.api.schemas.answers import Detokenized, Tokenized
from ferry_runtime.api.schemas.completions import DetokenizeBody, TokenizeBody
from ferry_runtime.api.services import Services
from ferry_runtime.errors import InvalidRequest
from ferry_runtime.text.model import EncodedPrompt
from ferry_runtime.text.tokenizer import Tokenizer


def tokenize_router(services: Services, documented: Documented) -> APIRouter:
    router = APIRouter(tags=["Ferry"])

    @router.post("/tokenize", **documented.post(TokenizeBody, Tokenized))
    async def tokenize(request: Request) -> Response:
        """The token ids of a prompt or of a conversation."""
        body = await read_body(request, TokenizeBody, services.body)
        if body.model is not None:
            check_model(services, body.model)
        bounds = limits(services)
        ids = list((await _encode(services, body)).token_ids)
        texts = None
        if body.return_token_strs:
            texts = await off_loop(len(ids), _each_decoded, services.text().tokenizer, ids)
        return json_response(Tokenized(len(ids), bounds.context_length, ids, texts))

    @router.post("/detokenize", **documented.post(DetokenizeBody, Detokenized))
    async def detokenize(request: Request) -> Response:
        """The text of token ids."""
        body = await read_body(request, DetokenizeBody, services.body)
        if body.model is not None:
            check_model(services, body.model)
        vocab_size = limits(services).vocab_size
        tokenizer = services.text().tokenizer
        return json_response(
            Detokenized(await off_loop(len(body.tokens), _decoded, tokenizer, body.tokens, vocab_size))
        )

    return router


def _decoded(tokenizer: Tokenizer, ids: list[int], vocab_size: int) -> str:
    check_vocabulary(ids, vocab_size, "tokens")
    return tokenizer.decode(ids, skip_special_tokens=False)


def _each_decoded(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    return [tokenizer.decode([token_id], skip_special_tokens=False) for token_id in ids]


async def _encode(services: Services, body: TokenizeBody) -> EncodedPrompt:
    text = services.text()
    if body.messages is not None and body.prompt is None:
        return await text.encode_chat(
            conversation(body.messages), add_generation_prompt=body.add_generation_prompt is not False
        )
    if body.prompt is None or body.messages is not None:
        raise InvalidRequest("Send either prompt or messages.", param="prompt")
    return await text.encode(body.prompt, add_special_tokens=body.add_special_tokens is not False)
