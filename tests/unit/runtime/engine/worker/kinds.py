"""Small real tokenizers of the three kinds that the engine tells apart."""

import json
from collections.abc import Callable

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from ferry_runtime.engine.worker.vocabulary import Vocabulary

CORPUS = [
    "The ferry leaves at noon with eight people and a dog, or at fifty past if it is full.",
    "Die Fähre fährt über die Elbe; café, naïve, œuvre — 渡し船は正午に出ます。🚢🚢 😀😃😄",
    "stop STOP xyzzy xyz  two  spaces\n\nand lines\n",
]


def _vocabulary(tokenizer: tokenizers.Tokenizer) -> Vocabulary:
    tokenizer.add_special_tokens(["<|end|>", "<|start|>"])
    tokenizer.add_tokens([tokenizers.AddedToken("<tool>", normalized=False)])
    return Vocabulary(tokenizer, json.loads(tokenizer.to_str())["decoder"])


def byte_level() -> tokenizers.Tokenizer:
    """As GPT-2, SmolLM2 and Qwen."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def pieces(*, strip: bool) -> tokenizers.Tokenizer:
    """As Llama 2 and Mistral (which strip the first space) or Gemma (which does not)."""
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    words = sorted({character for text in CORPUS[:1] for character in text if character != " "})
    texts = [*byte_tokens, "▁", *words, "fe", "▁fe", "rr", "▁ferr", "▁ferry", "y"]
    vocab = {token: rank for rank, token in enumerate(dict.fromkeys(["<unk>", *texts, "ferr"]))}
    merges = [("f", "e"), ("▁", "fe"), ("r", "r"), ("▁fe", "rr"), ("▁ferr", "y")]
    tokenizer = tokenizers.Tokenizer(
        models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if strip else steps)
    return tokenizer


def word_pieces() -> tokenizers.Tokenizer:
    """As BERT: a decoder that only the library knows."""
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=["[UNK]"], show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


KINDS: dict[str, Callable[[], tokenizers.Tokenizer]] = {
    "byte-level": byte_level,
    "pieces-strip": lambda: pieces(strip=True),
    "pieces": lambda: pieces(strip=False),
    "word-pieces": word_pieces,
}


class Kind:
    def __init__(self, name: str) -> None:
        self.name = name
        self.tokenizer = KINDS[name]()
        self.vocabulary = _vocabulary(self.tokenizer)
        self.size = self.tokenizer.get_vocab_size(with_added_tokens=True)

    def ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids: list[int], *, skip: bool = True) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=skip)

    def id(self, token: str) -> int:
        token_id = self.tokenizer.token_to_id(token)
        assert token_id is not None
        return token_id
