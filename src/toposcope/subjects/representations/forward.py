"""One forward pass over a set of texts: every layer's pooled states and the perplexity together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.progress import track
from toposcope.core.seeding import rng
from toposcope.core.wording import command, option
from toposcope.models.protocol import LanguageModel

if TYPE_CHECKING:
    import torch

Pooling = Literal["mean", "last", "token"]

_STATE_BYTES = 256 * 2**20
_LOGIT_BYTES = 128 * 2**20
"""The most bytes of the hidden states of one pass, and of the logits of one piece."""


@dataclass(frozen=True, slots=True)
class StateReading:
    """What to read from a model.

    Embeddings are pooled over the first `length` tokens of every text; the perplexity is that of the first
    `perplexity_texts` texts, cut at `perplexity_length`, weighted by tokens. A causal model's state at a
    position ignores what follows, so both come from one pass over the longer cut. With pooling "token",
    at most `max_tokens` positions are kept, the same ones at every checkpoint.
    """

    layers: tuple[int, ...]
    pooling: Pooling = "mean"
    length: int = 128
    perplexity_texts: int = 100
    perplexity_length: int = 256
    max_tokens: int = 2000


@dataclass(frozen=True, slots=True)
class Representation:
    """The result of one pass: `states[layer]` is float32 of shape (n_points, width)."""

    states: dict[int, np.ndarray]
    nll: float
    """Mean negative log-likelihood in nats per predicted token; NaN for an encoder."""
    predicted: int
    notes: tuple[str, ...] = field(default=())

    @property
    def perplexity(self) -> float:
        """Return exp(nll)."""
        return math.exp(self.nll) if self.nll < 700 else math.inf


def resolve_layers(choice: str, n_layers: int) -> tuple[int, ...]:
    """Return hidden-state numbers for "last", "all" or a list such as "0,6,12" (0 is the embedding).

    >>> resolve_layers("0,2", 3), resolve_layers("last", 3), resolve_layers("all", 2)
    ((0, 2), (3,), (0, 1, 2))

    Raises
    ------
    InputError
        When a number is not between 0 and `n_layers`.
    """
    if choice == "last":
        return (n_layers,)
    if choice == "all":
        return tuple(range(n_layers + 1))
    try:
        layers = tuple(sorted({int(part) for part in choice.split(",")}))
    except ValueError:
        raise InputError(
            "not a choice of layers", argument="layers", value=choice,
            remedy="give last, all, or numbers such as 0,6,12",
        ) from None  # fmt: skip
    if layers[0] < 0 or layers[-1] > n_layers:
        raise InputError(
            f"this model's hidden states are numbered 0 to {n_layers}",
            argument="layers",
            value=choice,
            remedy="choose from these",
        )
    return layers


def read(model: LanguageModel, texts: Sequence[str], reading: StateReading) -> Representation:
    """Run the model over `texts` once and return pooled states and perplexity.

    States that overflow in half precision are read again in float32, and the result's notes say so.

    Raises
    ------
    InputError
        When a text has no token, or the states are not finite in float32 either.
    """
    result = _read_once(model, texts, reading)
    if _finite(result):
        return result
    model.widen()
    result = _read_once(model, texts, reading)
    if not _finite(result):
        raise InputError(
            f"the hidden states are not finite in float32; look for errors with {command('audit', 'SERIES')}"
        )
    notes = (*result.notes, "half precision overflowed; read in float32")
    return Representation(result.states, result.nll, result.predicted, notes)


def _finite(result: Representation) -> bool:
    return all(np.isfinite(values).all() for values in result.states.values()) and not math.isinf(result.nll)


def _read_once(model: LanguageModel, texts: Sequence[str], reading: StateReading) -> Representation:
    import torch

    longest = max(reading.length, reading.perplexity_length) if model.causal else reading.length
    ids = model.encode(texts, longest)
    if not all(ids):
        raise InputError(
            f"text {[bool(i) for i in ids].index(False)} has no token; raise {option('min_chars')}"
        )
    n_scored = min(reading.perplexity_texts, len(ids)) if model.causal else 0
    scored_to = [reading.perplexity_length if i < n_scored else 0 for i in range(len(ids))]
    cut = [row[: max(reading.length, to)] for row, to in zip(ids, scored_to, strict=True)]
    pool = _Pool(reading, [min(len(row), reading.length) for row in cut])
    total, predicted = 0.0, 0
    with torch.inference_mode():
        batches = list(_batches([len(row) for row in cut], _tokens_per_batch(model)))
        for members in track(batches, "batches of texts", quiet=True):
            batch, mask = _padded([cut[i] for i in members], model.device)
            states = model.hidden_states(batch, mask)
            pool.add(members, states)
            nll, n = _score(model, states[-1], batch, [min(len(cut[i]), scored_to[i]) for i in members])
            total, predicted = total + nll, predicted + n
    cuts = f"texts cut at the model's context of {model.context:,} tokens"
    notes = () if longest <= model.context else (cuts,)
    return Representation(pool.states(), total / predicted if predicted else math.nan, predicted, notes)


def _tokens_per_batch(model: LanguageModel) -> int:
    per_token = 4 * (model.n_layers + 1) * model.width
    return max(256, min(16384, _STATE_BYTES // per_token))


def _batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield groups of texts of similar length, with at most `budget` tokens including padding."""
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    group: list[int] = []
    for i in order:
        if group and lengths[group[0]] * (len(group) + 1) > budget:
            yield group
            group = []
        group.append(i)
    if group:
        yield group


def _padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    ids = np.zeros((len(rows), len(rows[0])), dtype=np.int64)
    mask = np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


def _score(
    model: LanguageModel, hidden: torch.Tensor, ids: torch.Tensor, lengths: Sequence[int]
) -> tuple[float, int]:
    """Return the summed negative log-likelihood of the scored texts' tokens and their number."""
    import torch

    keep = torch.zeros(ids.shape, dtype=torch.bool, device=ids.device)
    for i, length in enumerate(lengths):
        keep[i, : max(0, length - 1)] = True
    keep = keep[:, :-1]
    states, targets = hidden[:, :-1][keep], ids[:, 1:][keep]
    chunk = max(16, _LOGIT_BYTES // (4 * model.vocabulary))
    total = 0.0
    for start in range(0, len(targets), chunk):
        log_likelihood = torch.log_softmax(model.logits(states[start : start + chunk]).float(), dim=-1)
        total -= float(log_likelihood.gather(1, targets[start : start + chunk, None]).double().sum())
    return total, len(targets)


class _Pool:
    """Collects the pooled states of every chosen layer, text by text, in any order of the batches."""

    def __init__(self, reading: StateReading, lengths: Sequence[int]) -> None:
        self._reading = reading
        self._lengths = lengths
        self._rows: dict[int, np.ndarray] = {}
        if reading.pooling == "token":
            self._positions, self._slots = _chosen_tokens(lengths, reading.max_tokens)
            self._n = sum(len(slots) for slots in self._slots)
        else:
            self._n = len(lengths)

    def add(self, members: Sequence[int], states: Sequence[torch.Tensor]) -> None:
        for layer in self._reading.layers:
            hidden = states[layer]
            if layer not in self._rows:
                self._rows[layer] = np.empty((self._n, hidden.shape[-1]), dtype=np.float32)
            if self._reading.pooling == "token":
                self._add_tokens(members, hidden, self._rows[layer])
            else:
                self._rows[layer][list(members)] = self._pooled(members, hidden)

    def _pooled(self, members: Sequence[int], hidden: torch.Tensor) -> np.ndarray:
        import torch

        lengths = torch.tensor([self._lengths[i] for i in members], device=hidden.device)
        if self._reading.pooling == "last":
            return hidden[torch.arange(len(members)), lengths - 1].float().cpu().numpy()
        inside = torch.arange(hidden.shape[1], device=hidden.device) < lengths[:, None]
        total = torch.where(inside[:, :, None], hidden.float(), 0.0).sum(1)
        return (total / lengths[:, None]).cpu().numpy()

    def _add_tokens(self, members: Sequence[int], hidden: torch.Tensor, rows: np.ndarray) -> None:
        for row, i in enumerate(members):
            if len(self._slots[i]):
                rows[self._slots[i]] = hidden[row, self._positions[i]].float().cpu().numpy()

    def states(self) -> dict[int, np.ndarray]:
        return self._rows


def _chosen_tokens(lengths: Sequence[int], limit: int) -> tuple[list[list[int]], list[list[int]]]:
    """Return, per text, the kept positions and the rows that they fill; the same draw at every checkpoint."""
    starts = np.concatenate([[0], np.cumsum(lengths)])
    chosen = np.arange(starts[-1])
    if len(chosen) > limit:
        chosen = np.sort(rng(purpose="tokens", total=int(starts[-1])).choice(chosen, limit, replace=False))
    text = np.searchsorted(starts, chosen, side="right") - 1
    positions: list[list[int]] = [[] for _ in lengths]
    slots: list[list[int]] = [[] for _ in lengths]
    for slot, (i, token) in enumerate(zip(text, chosen, strict=True)):
        positions[i].append(int(token - starts[i]))
        slots[i].append(slot)
    return positions, slots
