"""Real embeddings from the packaged model, in a process of their own."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import pytest_asyncio

from ferry_runtime.embedding.client import EmbeddingClient
from ferry_runtime.embedding.openai import TextEmbedder
from ferry_runtime.errors import EmbedderUnavailable, InvalidRequest, Overloaded


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[EmbeddingClient]:
    client = EmbeddingClient()
    await client.load()
    yield client
    await client.stop()


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _vectors(client: EmbeddingClient, *texts: str) -> np.ndarray:
    embeddings = await client.embed(texts)
    return np.array([np.frombuffer(embedding.vector or b"", "<f4") for embedding in embeddings])


async def test_vectors_are_unit_and_tell_meanings_apart(client: EmbeddingClient) -> None:
    a, b, c = await _vectors(
        client, "How do I reset my password?", "How can I reset my password?", "The ferry leaves at noon."
    )

    assert a.shape == (384,)
    assert np.linalg.norm(a) == pytest.approx(1.0, abs=1e-5)
    assert a @ b > 0.95
    assert a @ c < 0.3


async def test_many_texts_keep_their_order(client: EmbeddingClient) -> None:
    texts = [f"passenger number {number} boards" for number in range(50)]

    together = await _vectors(client, *texts)
    alone = np.concatenate([await _vectors(client, text) for text in (texts[0], texts[33], texts[49])])

    np.testing.assert_allclose(together[[0, 33, 49]], alone, atol=1e-5)


async def test_callers_at_the_same_time_get_their_own(client: EmbeddingClient) -> None:
    texts = [f"question {number}" for number in range(20)]

    results = await asyncio.gather(*(_vectors(client, text) for text in texts))

    np.testing.assert_allclose(np.concatenate(results), await _vectors(client, *texts), atol=1e-5)


async def test_a_text_past_the_window_is_counted_not_cut(client: EmbeddingClient) -> None:
    fits, too_long, neighbour = await client.embed(["word " * 254, "word " * 255, "short"])

    assert (fits.tokens, too_long.tokens, neighbour.tokens) == (256, 257, 3)
    assert fits.vector is not None
    assert too_long.vector is None
    assert neighbour.vector is not None


async def test_what_stands_past_128_pieces_counts(client: EmbeddingClient) -> None:
    """The packaged tokenizer file cuts there by itself."""
    a, b = await _vectors(client, "word " * 150 + "alpha", "word " * 150 + "an entirely different ending")

    assert a @ b < 0.9999


async def test_token_ids_text_of_special_tokens_is_only_text(client: EmbeddingClient) -> None:
    (embedding,) = await client.embed(["[SEP] [CLS] 🚢 \u0000 é"])

    assert embedding.vector is not None


async def test_the_api_refuses_a_long_text_by_its_index(client: EmbeddingClient) -> None:
    with pytest.raises(InvalidRequest, match=r"input\[1\] has 257 tokens.*reads 256") as refusal:
        await TextEmbedder(client).embed(["short", "word " * 255])
    assert refusal.value.code == "context_length_exceeded"


async def test_the_api_gets_numbers_and_counts(client: EmbeddingClient) -> None:
    embedder = TextEmbedder(client)

    ((vector, tokens),) = await embedder.embed(["short"])

    assert (len(vector), tokens, embedder.dimensions) == (384, 3, 384)


async def test_memory_is_bounded(client: EmbeddingClient) -> None:
    with pytest.raises(Overloaded):
        await client.embed(["x" * 9_000_000])
    assert len(await client.embed(["short"])) == 1


async def test_it_uses_one_thread_and_no_network(client: EmbeddingClient) -> None:
    assert client.pid is not None
    environment = psutil.Process(client.pid).environ()

    assert environment["OMP_NUM_THREADS"] == "1"
    assert environment["HF_HUB_OFFLINE"] == "1"


async def test_a_killed_embedder_comes_back_as_the_same(client: EmbeddingClient) -> None:
    before = await client.load()
    assert client.pid is not None
    waiting = asyncio.create_task(client.embed(["word " * 200] * 200))
    await asyncio.sleep(0)
    os.kill(client.pid, signal.SIGKILL)

    with pytest.raises(EmbedderUnavailable):
        await waiting
    assert client.info is None
    assert len(await client.embed(["short"])) == 1
    assert client.info == before


async def test_a_missing_model_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRY_EMBEDDER_DIR", str(tmp_path))
    client = EmbeddingClient()

    with pytest.raises(EmbedderUnavailable, match="is not a sentence-transformers model directory"):
        await client.embed(["short"])
    await client.stop()


async def test_a_broken_model_is_given_up_on(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text("[]")
    client = EmbeddingClient(tmp_path)

    with pytest.raises(EmbedderUnavailable):
        await client.embed(["short"])
    assert client.info is None
    await client.stop()
