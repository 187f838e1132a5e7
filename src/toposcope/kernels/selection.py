"""Order statistics and moments of |W| without a copy of the matrix."""

from __future__ import annotations

import numpy as np

from toposcope.core.compiling import kernel
from toposcope.core.threads import row_blocks, run_blocks
from toposcope.kernels.bipartite_scan import SERIAL_BELOW, collected
from toposcope.kernels.bipartite_tree import heaviest_edges, magnitude_bits

COMFORTABLE_SINGLE = 2.0**-20, 2.0**20
"""The range of largest entries that need no scaling: their squares are well inside single precision."""
# Bits of a digit of the radix selection: its 65,536 counts per block stay small.
_DIGIT = 16
# Share above the wanted count at which the first threshold aims, so that a second pass is rare. Affects speed
# only.
_SPARE = 1.3
# Below this share of all entries, only the heaviest are examined. Affects speed only.
_FEW = 0.1
# Entries of a block, to bound memory; does not affect results.
_CHUNK = 1 << 20


def key_of_rank(bits: np.ndarray, mask: np.unsignedinteger, rank: int) -> np.unsignedinteger:
    """Return the key of 0-based descending rank `rank`: 0 is the largest.

    The entries are counted in bins by 16 bits at a time, from the highest bits down.
    """
    width = bits.dtype.itemsize * 8
    flat = bits.reshape(-1)
    serial = flat.size < SERIAL_BELOW
    prefix, left = np.uint64(0), rank
    for shift in range(width - _DIGIT, -1, -_DIGIT):

        def count(block: tuple[int, int], shift: int = shift, prefix: np.uint64 = prefix) -> np.ndarray:
            counts = np.zeros(1 << _DIGIT, np.int64)
            first = shift + _DIGIT >= width
            _count_digits(flat[slice(*block)], mask, np.uint64(shift), prefix, first, counts)
            return counts

        counts = np.sum(run_blocks(count, row_blocks(flat.size, per_thread=1, serial=serial)), axis=0)
        above = np.cumsum(counts[::-1])
        digit = int(np.searchsorted(above, left, side="right"))
        left -= int(above[digit - 1]) if digit else 0
        prefix = (prefix << np.uint64(_DIGIT)) | np.uint64(counts.size - 1 - digit)
    return bits.dtype.type(prefix)


def largest_keys(bits: np.ndarray, mask: np.unsignedinteger, count: int) -> np.ndarray:
    """Return the `count` largest keys, descending."""
    if count < _FEW * bits.size:
        edges = heaviest_edges(bits, mask, _SPARE * count + 64).keys
        if edges.size >= count:
            return _top(edges, count)
    elif bits.size < SERIAL_BELOW:
        return _top(bits.reshape(-1) & mask, count)
    last = key_of_rank(bits, mask, count - 1)
    floor = np.full(bits.shape[0], last + bits.dtype.type(1)), np.full(bits.shape[1], mask)
    found_above, _ = collected(bits, mask, *floor, count)
    above = found_above.keys if found_above is not None else bits[:0].reshape(-1)
    return np.concatenate((_top(above, above.size), np.full(count - above.size, last)))


def absolute_moments(W: np.ndarray) -> tuple[float, float]:
    """Return the mean and the population variance of |W|, summed in float64."""
    rows = max(1, _CHUNK // W.shape[1])
    # Only a chunk of float16 or bfloat16 is widened at a time, never the matrix.
    wide = W.dtype if W.dtype.itemsize > 2 else np.dtype(np.float32)

    def sums(start: int) -> tuple[float, float]:
        return _sums(np.ascontiguousarray(W[start : start + rows]).astype(wide, copy=False).reshape(-1), 0.0)

    chunks = range(0, W.shape[0], rows)
    first, _ = np.sum(run_blocks(sums, chunks, serial=W.size < SERIAL_BELOW), axis=0)
    mean = float(first) / W.size

    def around_mean(start: int) -> tuple[float, float]:
        return _sums(np.ascontiguousarray(W[start : start + rows]).astype(wide, copy=False).reshape(-1), mean)

    _, second = np.sum(run_blocks(around_mean, chunks, serial=W.size < SERIAL_BELOW), axis=0)
    return mean, float(second) / W.size


def largest_magnitude(W: np.ndarray) -> float:
    """Return max |W|: NaN or infinity if `W` holds one, 0 for an empty array.

    numpy's own function is slow for 16-bit types, which it compares one by one.
    """
    if W.size == 0:
        return 0.0
    if W.dtype.itemsize > 2:
        return max(abs(float(np.max(W))), abs(float(np.min(W))))
    bits, mask = magnitude_bits(W)
    flat = bits.reshape(-1)
    serial = flat.size < SERIAL_BELOW
    blocks = row_blocks(flat.size, per_thread=1, serial=serial)
    top = max(run_blocks(lambda block: _largest_key(flat[slice(*block)], mask), blocks, serial=serial))
    return float(np.array([top], bits.dtype).view(W.dtype)[0])


def _top(keys: np.ndarray, count: int) -> np.ndarray:
    return np.sort(np.partition(keys, keys.size - count)[keys.size - count :] if count else keys[:0])[::-1]


@kernel
def _largest_key(flat: np.ndarray, mask: np.unsignedinteger) -> np.unsignedinteger:
    top = flat[0] & mask
    for k in range(flat.size):
        top = max(top, flat[k] & mask)
    return top


@kernel
def _count_digits(
    flat: np.ndarray,
    mask: np.unsignedinteger,
    shift: np.uint64,
    prefix: np.uint64,
    first: bool,
    counts: np.ndarray,
) -> None:
    """Count the 16-bit digits at `shift` of the keys whose bits above are `prefix`."""
    digit = np.uint64(0xFFFF)
    for k in range(flat.size):
        key = np.uint64(flat[k] & mask) >> shift
        if first or key >> np.uint64(16) == prefix:
            counts[key & digit] += 1


@kernel(fastmath={"reassoc"})
def _sums(flat: np.ndarray, center: float) -> tuple[float, float]:
    """Return the sum of |w| - center and of its square."""
    total = 0.0
    square = 0.0
    for k in range(flat.size):
        value = abs(np.float64(flat[k])) - center
        total += value
        square += value * value
    return total, square
