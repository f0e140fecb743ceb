"""Text to token ids and back, with the `tokenizers` library alone.

A prepared directory's tokenizer.json is the backend that transformers itself would use (see
`ferry_runtime.models.tokenizer_files`), so ids equal ``AutoTokenizer``'s for every family.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import tokenizers

from ferry_runtime.errors import InvalidRequest, ModelPreparationError
from ferry_runtime.model_files import special_tokens

# Encoding runs at roughly 2 million characters a second: beyond this many the event loop would be
# held for over two milliseconds, and a thread's hop is cheaper.
OFFLOAD_CHARACTERS = 4_000


class Tokenizer:
    """Immutable after construction, so it is safe to use from several threads."""

    def __init__(self, backend: tokenizers.Tokenizer, special_tokens: Mapping[str, str]) -> None:
        # A file may carry its training's truncation and padding; both would corrupt prompts.
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        self.special_tokens: Mapping[str, str] = MappingProxyType(dict(special_tokens))
        longest = max(map(len, backend.get_vocab(with_added_tokens=True)), default=1)
        # A normalizer may make a text shorter; Unicode's compositions join at most four characters.
        self._characters_per_token = longest * (1 if backend.normalizer is None else 4)

    @classmethod
    def from_directory(cls, directory: Path) -> Tokenizer:
        """Raises ModelPreparationError when tokenizer.json is missing or cannot be read."""
        path = directory / "tokenizer.json"
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises a bare Exception
            raise ModelPreparationError(
                f"{path} cannot be read as a tokenizer: prepare the model again, or check the file."
            ) from error
        return cls(backend, special_tokens(directory))

    @property
    def vocab_size(self) -> int:
        """Tokens that have a text, added ones included; the model's output layer may be larger."""
        return self._backend.get_vocab_size(with_added_tokens=True)

    def token_id(self, token: str) -> int | None:
        return self._backend.token_to_id(token)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> tuple[int, ...]:
        """``add_special_tokens`` as in transformers: what the family puts around a plain prompt.

        Rendered chats carry theirs already and are encoded without. Raises InvalidRequest on a
        lone surrogate, which has no encoding.
        """
        try:
            # The batch call lets other threads run meanwhile and keeps no offsets.
            (encoding,) = self._backend.encode_batch_fast([text], add_special_tokens=add_special_tokens)
        except (UnicodeEncodeError, TypeError) as error:
            raise InvalidRequest("The text holds a lone surrogate, which is not valid Unicode.") from error
        return tuple(encoding.ids)

    async def encode_off_loop(self, text: str, *, add_special_tokens: bool = True) -> tuple[int, ...]:
        """``encode`` without holding the event loop for a long text."""
        if len(text) <= OFFLOAD_CHARACTERS:
            return self.encode(text, add_special_tokens=add_special_tokens)
        return await asyncio.to_thread(self.encode, text, add_special_tokens=add_special_tokens)

    def fewest_tokens(self, characters: int) -> int:
        """No text of so many characters has fewer tokens: tells an endless prompt without encoding it."""
        return characters // self._characters_per_token

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return self._backend.decode(list(token_ids), skip_special_tokens=skip_special_tokens)
