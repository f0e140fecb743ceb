"""The body of /v1/embeddings (https://platform.openai.com/docs/api-reference/embeddings/create)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ferry_runtime.api.schemas.base import Body, Integer, Text
from ferry_runtime.api.schemas.completions import Inputs


class EmbeddingsBody(Body):
    model: Text
    input: Inputs
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[Integer, Field(ge=1)] | None = None
    user: Text | None = None
