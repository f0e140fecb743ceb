"""Models of other sizes than the packaged one: its tokenizer, a Llama of another shape, random weights.

What they say is noise. What they cost is what any model of that shape costs, which is all that a load test
of sizes asks.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from ferry_runtime.models.cachefolder import default_cache_folder

_TOKENIZER = ("tokenizer*", "special_tokens_map.json", "chat_template*", "vocab.json", "merges.txt")


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    layers: int
    width: int
    heads: int
    key_value_heads: int
    between: int  # width of the feed-forward layers


SMALL = Shape("random-24m", layers=8, width=320, heads=5, key_value_heads=1, between=864)
LARGE = Shape("random-360m", layers=32, width=960, heads=15, key_value_heads=5, between=2560)


def random_model(shape: Shape, like: Path) -> Path:
    """The model's folder, made once per machine; ``like`` is the model whose tokenizer it takes."""
    folder = default_cache_folder() / "bench" / shape.name
    if (folder / "config.json").exists():
        return folder
    staging = folder.with_name(f".{shape.name}")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    _write(shape, like, staging)
    staging.rename(folder)
    return folder


def _write(shape: Shape, like: Path, folder: Path) -> None:
    import torch
    from transformers import AutoConfig, LlamaConfig, LlamaForCausalLM

    pattern = AutoConfig.from_pretrained(like)
    config = LlamaConfig(
        vocab_size=pattern.vocab_size,
        hidden_size=shape.width,
        intermediate_size=shape.between,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        max_position_embeddings=2048,
        bos_token_id=pattern.bos_token_id,
        eos_token_id=pattern.eos_token_id,
        pad_token_id=pattern.pad_token_id,
        tie_word_embeddings=True,
        dtype=torch.float32,
    )
    torch.manual_seed(1)
    LlamaForCausalLM(config).save_pretrained(folder)
    for glob in _TOKENIZER:
        for file in like.glob(glob):
            shutil.copy(file, folder)
