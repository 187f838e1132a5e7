"""The loss of every sequence in one compiled call: for a GPT at many parameters, one after the other.

Sequences pass through the whole model one by one, so that all they need stays in the near caches, and no
time goes to calls and to memory. Parameters lie packed: weights as (inputs, outputs), in whole vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numba import njit

from toposcope.training.fused.attention import attention_forward
from toposcope.training.fused.onepass import WIDEST_HEAD, attend
from toposcope.training.fused.pointwise import below_and_bell
from toposcope.training.fused.tile import product
from toposcope.training.fused.vectors import (
    FAST,
    LANES,
    add,
    exp,
    fma,
    keep,
    larger,
    largest,
    load,
    multiply,
    splat,
    store,
    subtract,
    total,
)
from toposcope.training.shapes import TIED_TO, GPTShape, parameter_shapes

_BLOCK = 32
_WIDEST = 128
_EPSILON = np.float32(1e-5)
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_LOWEST = np.float32(-3e38)


def supports_losses(shape: GPTShape) -> bool:
    """Say whether the forward pass fits a shape: whole vectors of logits, a loss of every token, and narrow.

    Wider layers no longer fit into the near caches, and a library's products are faster there.
    """
    return shape.vocabulary % LANES == 0 and not shape.last_only and shape.width <= _WIDEST


class SequenceLosses:
    """Mean losses per predicted token of fixed sequences, at packed parameters.

    Parameters
    ----------
    shape : GPTShape
        See `supports_losses`.
    rows : sequence of sequences of int
        Token ids, two or more in each.
    """

    def __init__(self, shape: GPTShape, rows: Sequence[Sequence[int]]) -> None:
        self.shape = shape
        self._tokens = np.concatenate([np.asarray(row, np.int64) for row in rows])
        self._starts = np.cumsum([0, *map(len, rows)])

    @cached_property
    def _places(self) -> np.ndarray:
        """Which parameter each packed place holds; -1 is padding."""
        return np.concatenate([part.ravel() for part in _packed(self.shape)])

    def pack(self, parameters: np.ndarray) -> np.ndarray:
        """Return flat parameters, in the order of `parameter_shapes`, as the kernel reads them."""
        flat = np.append(np.asarray(parameters, np.float32), _ZERO)
        return _aligned(flat[self._places])

    def at(self, packed: np.ndarray) -> np.ndarray:
        """Return the losses, float64 (sequences,); NaN where anything on the way is not finite."""
        shape = self.shape
        found = np.empty(len(self._starts) - 1)
        sizes = (shape.width, shape.layers, shape.heads, shape.vocabulary, shape.context)
        _losses(packed, self._tokens, self._starts, sizes, found)
        return found

    def along(self, centre: np.ndarray, vectors: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return the losses at centre + steps @ vectors, all packed (vectors: one a row)."""
        moved = _aligned(centre)
        _move(moved, vectors, np.asarray(steps, np.float32))
        return self.at(moved)


def _aligned(values: np.ndarray) -> np.ndarray:
    """Return a copy that starts at a line of the cache."""
    room = np.empty(values.size + LANES, np.float32)
    start = (-(room.ctypes.data // 4)) % LANES
    room[start : start + values.size] = values
    return room[start : start + values.size]


def _packed(shape: GPTShape) -> list[np.ndarray]:
    """Return the numbers of the parameters in the order and the padding of the kernel."""
    at, named = 0, {}
    for name, size in parameter_shapes(shape):
        named[name] = np.arange(at, at + math.prod(size)).reshape(size)
        at += math.prod(size)
    parts = [_wide(named[TIED_TO]), _wide(named["pos_emb.weight"])]
    for i in range(shape.layers):
        for part in ("ln1", "attn.qkv", "attn.proj", "ln2", "mlp.fc1", "mlp.fc2"):
            weight, bias = (named[f"layers.{i}.{part}.{kind}"] for kind in ("weight", "bias"))
            parts += [_wide(weight if weight.ndim == 1 else weight.T), _wide(bias)]
    head = np.full(shape.vocabulary, -1)
    return [*parts, _wide(named["ln_f.weight"]), _wide(named["ln_f.bias"]), _wide(named[TIED_TO].T), head]


def _wide(part: np.ndarray) -> np.ndarray:
    """Pad the last axis to whole vectors."""
    missing = -part.shape[-1] % LANES
    return np.pad(part, [(0, 0)] * (part.ndim - 1) + [(0, missing)], constant_values=-1)


@njit(cache=True, nogil=True)
def _move(values, vectors, steps):
    """Add the sum of steps times vectors."""
    for v in range(steps.size):
        vector, step = vectors[v], steps[v]
        for i in range(values.size):
            values[i] += step * vector[i]


@njit(cache=True)
def _padded(count):
    return (count + LANES - 1) // LANES * LANES


@njit(cache=True, nogil=True)
def _losses(values, tokens, starts, sizes, found):
    """Fill the mean loss of every sequence, `tokens` from `starts[s]` to `starts[s + 1]`."""
    d, layers, heads, vocabulary, context = sizes
    wide, three, four = _padded(d), _padded(3 * d), _padded(4 * d)
    longest = _padded(np.max(np.diff(starts)) - 1)
    rows = (longest + _BLOCK - 1) // _BLOCK * _BLOCK
    x, mixed = np.zeros(rows * wide, np.float32), np.zeros(rows * wide, np.float32)
    qkv, pairs = np.zeros(rows * three + LANES, np.float32), np.zeros(rows * 2 * LANES, np.float32)
    normed = np.zeros(_BLOCK * wide, np.float32)
    hidden, logits = np.zeros(_BLOCK * four, np.float32), np.zeros(_BLOCK * vocabulary, np.float32)
    for s in range(found.size):
        first, time = starts[s], starts[s + 1] - starts[s] - 1
        filled = _padded(time)
        _embed(values, tokens, first, time, wide, vocabulary, x)
        at, good = (vocabulary + context) * wide, True
        for _ in range(layers):
            for row in range(0, filled, _BLOCK):
                count = min(_BLOCK, filled - row)
                good &= _normalise(x, row * wide, count, d, wide, values, at, normed)
                w = at + 2 * wide
                product(normed, 0, wide, count, d, values, w, w + d * three, three, qkv, row * three, 0)
            at += 2 * wide + (d + 1) * three
            if d // heads <= WIDEST_HEAD:
                good &= attend(qkv, three, d, heads, filled, mixed, wide, pairs)
            else:
                good &= _attend_wide(qkv, three, d, heads, time, mixed, wide)
            for row in range(0, filled, _BLOCK):
                count = min(_BLOCK, filled - row)
                good &= _rest_of_block(x, mixed, row, count, d, wide, four, values, at, normed, hidden)
            at += (d + 1) * wide + 2 * wide + (d + 1) * four + (4 * d + 1) * wide
        summed = 0.0
        for row in range(0, time, _BLOCK):
            count = min(_BLOCK, filled - row)
            good &= _normalise(x, row * wide, count, d, wide, values, at, normed)
            head = at + 2 * wide
            product(normed, 0, wide, count, d, values, head, head + d * vocabulary, vocabulary, logits, 0, 0)
            for i in range(min(count, time - row)):
                summed += _token_loss(logits, i * vocabulary, vocabulary, tokens[first + row + i + 1])
        found[s] = summed / time if good else np.nan


@njit(cache=True, nogil=True)
def _attend_wide(qkv, three, d, heads, time, mixed, wide):
    """Do what `attend` does, for heads of more features than it holds in registers."""
    log_sum = np.zeros(heads * time, np.float32)
    rows = qkv[: time * three].reshape(time, three)
    attention_forward(rows[:, : 3 * d], heads, time, mixed[: time * wide].reshape(time, wide)[:, :d], log_sum)
    return np.abs(log_sum).max() < np.inf


@njit(cache=True, nogil=True)
def _embed(values, tokens, first, time, wide, vocabulary, x):
    for t in range(_padded(time)):
        token, place = tokens[first + t] * wide if t < time else 0, (vocabulary + min(t, time - 1)) * wide
        for at in range(0, wide, LANES):
            store(x, t * wide + at, add(load(values, token + at), load(values, place + at)))


@njit(cache=True, fastmath=FAST, nogil=True)
def _normalise(x, start, count, d, wide, values, at, out):
    """Fill `out` with the layer norm of `count` rows of x; return whether all of them are finite."""
    share, good = np.float32(1.0 / d), True
    for row in range(count):
        here = start + row * wide
        sums = splat(_ZERO)
        for e in range(0, wide, LANES):
            sums = add(sums, load(x, here + e))
        mean = total(sums) * share
        squares = splat(_ZERO)
        for e in range(0, wide, LANES):
            apart = keep(subtract(load(x, here + e), splat(mean)), 0, d - 1 - e, _ZERO)
            squares = fma(apart, apart, squares)
        spread = total(squares) * share
        good &= spread < np.inf
        scale = _ONE / np.float32(math.sqrt(spread + _EPSILON))
        for e in range(0, wide, LANES):
            value = multiply(subtract(load(x, here + e), splat(mean)), splat(scale))
            store(out, row * wide + e, fma(value, load(values, at + e), load(values, at + wide + e)))
    return good


@njit(cache=True, nogil=True)
def _rest_of_block(x, mixed, row, count, d, wide, four, values, at, normed, hidden):
    """Add the projected attention and the MLP to rows of the stream; return whether all are finite."""
    start = row * wide
    product(mixed, start, wide, count, d, values, at, at + d * wide, wide, x, start, 1)
    at += (d + 1) * wide
    good = _normalise(x, start, count, d, wide, values, at, normed)
    at += 2 * wide
    product(normed, 0, wide, count, d, values, at, at + d * four, four, hidden, 0, 0)
    for i in range(0, count * four, LANES):
        value = load(hidden, i)
        store(hidden, i, multiply(value, below_and_bell(value)[0]))
    at += (d + 1) * four
    product(hidden, 0, four, count, 4 * d, values, at, at + 4 * d * wide, wide, x, start, 1)
    return good


@njit(cache=True, fastmath=FAST, nogil=True)
def _token_loss(logits, start, vocabulary, target):
    """Return the cross-entropy of one row of logits."""
    peaks = splat(_LOWEST)
    for at in range(start, start + vocabulary, LANES):
        peaks = larger(load(logits, at), peaks)
    peak = largest(peaks)
    sums = splat(_ZERO)
    for at in range(start, start + vocabulary, LANES):
        sums = add(sums, exp(subtract(load(logits, at), splat(peak))))
    return math.log(total(sums)) + (peak - logits[start + target])
