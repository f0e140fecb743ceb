"""GGUF weights to a Hugging Face directory. Runs only in the preparation process: imports torch."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ferry_runtime.errors import ModelPreparationError
from ferry_runtime.models.progress import Progress, Report, Stage

# Grows when the same GGUF would convert to something else.
CONVERTER = 1
# What GGUF says of its tokenizer and configuration is about a file that will no longer exist.
_FOREIGN_KEYS = ("quantization_config", "_name_or_path", "name_or_path")


def convert_gguf(gguf: Path, target: Path, report: Report) -> None:
    """Write config.json, model.safetensors (float32) and the tokenizer's files to ``target``.

    Float32, because dequantized values need more than bfloat16's 8 bits; the engine casts at load.
    Raises ModelPreparationError when transformers does not know the architecture.
    """
    report(Progress(Stage.READ))
    import torch  # noqa: PLC0415 (only this process may load it, and only when there is work)
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    location = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    try:
        with _reported(report):
            model = AutoModelForCausalLM.from_pretrained(**location, dtype=torch.float32)
        report(Progress(Stage.TOKENIZER))
        tokenizer = AutoTokenizer.from_pretrained(**location)
    except (ValueError, KeyError, NotImplementedError) as error:
        raise ModelPreparationError(f"{gguf.name} is of an architecture that cannot be converted.") from error

    report(Progress(Stage.WRITE))
    _plain_copy(model).save_pretrained(target, max_shard_size="1000GB")
    # The file asks for padding on the right; a causal model is batched on the left.
    tokenizer.padding_side = "left"
    tokenizer.save_pretrained(target)
    _drop_foreign_keys(target / "config.json")


def _plain_copy(model: Any) -> Any:
    """The same weights in a model without a quantization config, which saving would refuse or keep."""
    import torch  # noqa: PLC0415

    fields = {key: value for key, value in model.config.to_dict().items() if key not in _FOREIGN_KEYS}
    config = type(model.config)(**fields)
    with torch.device("meta"):
        plain = type(model)(config)
    plain.load_state_dict(model.state_dict(), assign=True)
    plain.tie_weights()
    plain.generation_config = model.generation_config
    return plain


def _drop_foreign_keys(config: Path) -> None:
    fields = json.loads(config.read_text(encoding="utf-8"))
    for key in _FOREIGN_KEYS:
        fields.pop(key, None)
    config.write_text(json.dumps(fields, indent=2, sort_keys=True) + "\n", encoding="utf-8")


@contextlib.contextmanager
def _reported(report: Report) -> Iterator[None]:
    """Count tensors as transformers dequantizes them.

    Its loop offers no callback, but takes its progress bar from a module attribute; should that
    name go, only the counting does.
    """
    from transformers import modeling_gguf_pytorch_utils as loop  # noqa: PLC0415

    def counted(items: Iterable[Any], *_: object, **__: object) -> Iterator[Any]:
        everything = list(items)
        for done, item in enumerate(everything, start=1):
            report(Progress(Stage.CONVERT, done, len(everything), "tensors"))
            yield item

    original = getattr(loop, "tqdm", None)
    if original is None:
        yield
        return
    loop.tqdm = counted
    try:
        yield
    finally:
        loop.tqdm = original
