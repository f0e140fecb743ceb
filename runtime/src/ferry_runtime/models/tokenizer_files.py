"""The tokenizer as transformers would use it, in files that the `tokenizers` library reads alone.

A repository's tokenizer.json is not the whole truth: transformers adds tokens from
tokenizer_config.json, rebuilds some families' tokenizers and their begin-of-sequence rule, or
converts a sentencepiece model. Saving what ``AutoTokenizer`` ends up with settles all of it once.
"""

from __future__ import annotations

from pathlib import Path

from ferry_runtime.errors import ModelPreparationError


def write_tokenizer(origin: Path, target: Path, uri: str) -> None:
    """Write tokenizer.json, tokenizer_config.json and chat templates of ``origin`` to ``target``."""
    from transformers import AutoTokenizer  # noqa: PLC0415 (only the preparation process may load it)

    try:
        tokenizer = AutoTokenizer.from_pretrained(origin, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # whatever a broken or unknown tokenizer makes the library raise
        raise ModelPreparationError(
            f"{uri} has no tokenizer that transformers can load: it needs tokenizer.json, "
            "or the vocabulary files of its family."
        ) from error
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise ModelPreparationError(
            f"{uri} uses a tokenizer ({type(tokenizer).__name__}) that has no tokenizer.json form."
        )
    tokenizer.padding_side = "left"
    tokenizer.save_pretrained(target)
