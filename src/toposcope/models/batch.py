"""The tokens on which a loss is computed: rows of token ids, and the digest that identifies them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.errors import InputError

if TYPE_CHECKING:
    from toposcope.models.protocol import LanguageModel


@dataclass(frozen=True)
class Batch:
    """Sequences of token ids, each of two tokens or more; every token but the first is predicted.

    With `last_only`, only the last token of each is predicted.

    >>> batch = Batch.of([[1, 2, 3], [4, 5]])
    >>> len(batch), batch.counts.tolist(), batch.digest
    (2, [2, 1], '270199910fede194')
    """

    rows: tuple[tuple[int, ...], ...]
    last_only: bool = False

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]] | np.ndarray, *, last_only: bool = False) -> Batch:
        """Return the batch of these rows; rows of one token, which predict nothing, are dropped.

        Raises
        ------
        InputError
            When no row has two tokens.
        """
        usable = tuple(tuple(int(token) for token in row) for row in rows if len(row) > 1)
        if not usable:
            raise InputError(
                f"the batch has {len(rows):,} rows, and none has two tokens or more; give longer texts"
            )
        return cls(usable, last_only)

    @classmethod
    def of_texts(cls, model: LanguageModel, texts: Sequence[str], *, length: int = 128) -> Batch:
        """Return the batch of texts as a model reads them, each cut at `length` tokens."""
        return cls.of(model.encode(texts, length), last_only=model.last_only)

    def __len__(self) -> int:
        """Return the number of sequences."""
        return len(self.rows)

    @cached_property
    def counts(self) -> np.ndarray:
        """How many tokens of each sequence are predicted, int64 of shape (sequences,)."""
        return np.array([1 if self.last_only else len(row) - 1 for row in self.rows], dtype=np.int64)

    @property
    def tokens(self) -> int:
        """The number of predicted tokens."""
        return int(self.counts.sum())

    @cached_property
    def digest(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the rows."""
        digest = hashlib.sha256(b"last" if self.last_only else b"all")
        for row in self.rows:
            digest.update(np.array([len(row), *row], dtype="<i8").tobytes())
        return digest.hexdigest()[:16]

    def parts(self, tokens: int) -> Iterator[list[int]]:
        """Yield groups of sequence numbers, of similar length, with at most `tokens` to read, padding too.

        A model reads all tokens of a sequence but its last.
        """
        lengths = [len(row) - 1 for row in self.rows]
        order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
        group: list[int] = []
        for i in order:
            if group and lengths[group[0]] * (len(group) + 1) > tokens:
                yield group
                group = []
            group.append(i)
        yield group

    def padded(self, members: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ids and mask (sequences, length), and which next tokens count (sequences, length - 1)."""
        rows = [self.rows[i] for i in members]
        ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
        mask = np.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
            mask[i, : len(row)] = 1
        scored = mask[:, 1:].astype(bool)
        if self.last_only:
            last = np.zeros_like(scored)
            last[np.arange(len(rows)), [len(row) - 2 for row in rows]] = True
            scored &= last
        return ids, mask, scored
