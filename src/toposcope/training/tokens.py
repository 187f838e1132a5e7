"""Text to token numbers, and token numbers to batches that depend only on seed and step."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.errors import InputError, MissingExtraError
from toposcope.core.seeding import rng
from toposcope.recipes import TrainingRecipe
from toposcope.training.corpus import Corpus

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_UNKNOWN = "[UNK]"
_LEARNT = 32_000_000
"""Characters from which merges of bytes are learnt: more change only the rarest merges."""
_BLOCK, _TOGETHER = 1 << 16, 256
"""Characters of a block, and blocks that are encoded at a time: they bound memory."""


@dataclass(frozen=True, slots=True)
class TokenData:
    """Two parts, int64, and the tokenizer that made them (as JSON; empty for characters).

    A part is a stream (tokens,), from which windows are drawn, or a table (rows, context + 1), all of whose
    rows are in every batch.
    """

    corpus: str
    sha256: str
    train: np.ndarray
    heldout: np.ndarray
    tokenizer: str = ""


def tokenize(corpus: Corpus, recipe: TrainingRecipe, *, tokenizer: str = "") -> TokenData:
    """Return both parts of `corpus` as tokens; a trained `tokenizer` (JSON) is reused if given.

    Raises
    ------
    InputError
        When either part is shorter than one context.
    """
    if recipe.tokenizer == "characters":
        parts = [characters(text, recipe.vocabulary) for text in (corpus.train, corpus.heldout)]
    else:
        train = {"bpe": _train_bpe, "byte-bpe": _train_byte_bpe}[recipe.tokenizer]
        trained = _load(tokenizer) if tokenizer else train(corpus.train, recipe.vocabulary)
        of_text = _blocks if recipe.tokenizer == "byte-bpe" else _whole
        parts = [_encoded(trained, of_text(text)) for text in (corpus.train, corpus.heldout)]
        tokenizer = trained.to_str()
    for part, tokens in zip(("training", "held-out"), parts, strict=True):
        if len(tokens) <= recipe.context:
            raise InputError(
                f"corpus {corpus.name} is too small: its {part} part has {len(tokens):,} tokens, "
                f"but more than {recipe.context} (one context) are needed; give a longer text"
            )
    return TokenData(corpus.name, corpus.sha256, parts[0], parts[1], tokenizer)


def characters(text: str, vocabulary: int) -> np.ndarray:
    """Return the code points of `text` modulo `vocabulary`, int64, (characters,).

    >>> characters("a\u2013", 128).tolist()
    [97, 19]
    """
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return (points % vocabulary).astype(np.int64)


def batch(tokens: np.ndarray, *, seed: int, step: int, size: int, context: int) -> np.ndarray:
    """Return `size` random windows of `context` + 1 tokens: a pure function of `seed` and `step`.

    Inputs are the first `context` columns, targets the last. Models of one family with the same seed
    see the same batches.
    """
    starts = rng(name="batch", seed=seed, step=step).integers(0, len(tokens) - context, size=size)
    return tokens[starts[:, None] + np.arange(context + 1)]


def training_batch(data: TokenData, recipe: TrainingRecipe, step: int) -> np.ndarray:
    """Return the batch of `step`, (batch, context + 1): windows of a stream, or the whole table."""
    if data.train.ndim == 2:
        return data.train
    return batch(data.train, seed=recipe.seeds[0], step=step, size=recipe.batch_size, context=recipe.context)


def fixed_batches(data: TokenData, recipe: TrainingRecipe) -> np.ndarray:
    """Return the batches of the held-out loss, (count, batch, context + 1)."""
    if data.heldout.ndim == 2:
        return data.heldout[None]
    return heldout_batches(
        data.heldout, count=recipe.heldout_batches, size=recipe.batch_size, context=recipe.context
    )


def heldout_batches(tokens: np.ndarray, *, count: int, size: int, context: int) -> np.ndarray:
    """Return evenly spaced windows, (count, size, context + 1), the same at every checkpoint.

    Windows overlap if the held-out part is shorter than all windows together.
    """
    starts = np.linspace(0, len(tokens) - context - 1, count * size).astype(np.int64)
    return tokens[starts[:, None] + np.arange(context + 1)].reshape(count, size, context + 1)


def read_tokenizer(path: Path) -> str:
    """Return the tokenizer that an earlier start of the same run trained; empty if there is none."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _load(tokenizer: str) -> Tokenizer:
    return _library().Tokenizer.from_str(tokenizer)


def _train_bpe(text: str, vocabulary: int) -> Tokenizer:
    library = _library()
    tokenizer = library.Tokenizer(library.models.BPE(unk_token=_UNKNOWN))
    tokenizer.pre_tokenizer = library.pre_tokenizers.Split(library.Regex(r" ?\w+|\s|[^\w\s]"), "isolated")
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocabulary,
        limit_alphabet=max(1, vocabulary // 2),  # half the vocabulary is left for merges
        special_tokens=[_UNKNOWN],
        show_progress=False,
    )
    tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer)
    return tokenizer


def _train_byte_bpe(text: str, vocabulary: int) -> Tokenizer:
    """Return merges of bytes with GPT-2's pieces: a run of spaces is a piece, and nothing is unknown."""
    library = _library()
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocabulary,
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_blocks(text[:_LEARNT]), trainer)
    return tokenizer


def _encoded(tokenizer: Tokenizer, blocks: Iterator[str]) -> np.ndarray:
    """Return the tokens of the blocks of a text, int64; some blocks are encoded in parallel."""
    parts = [np.empty(0, np.int64)]
    while together := list(itertools.islice(blocks, _TOGETHER)):
        encoded = tokenizer.encode_batch(together) if len(together) > 1 else map(tokenizer.encode, together)
        parts += [np.array(encoding.ids, dtype=np.int64) for encoding in encoded]
    return np.concatenate(parts)


def _whole(text: str) -> Iterator[str]:
    yield text


def _blocks(text: str) -> Iterator[str]:
    """Yield a text in blocks of whole lines, each of at least `_BLOCK` characters but the last."""
    start = 0
    while start < len(text):
        stop = text.find("\n", start + _BLOCK) + 1 or len(text)
        yield text[start:stop]
        start = stop


def _library():
    try:
        import tokenizers
    except ImportError:
        raise MissingExtraError("tokenizers", "train") from None
    return tokenizers
