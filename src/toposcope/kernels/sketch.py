"""One block of a count sketch: signed values are added to given coordinates."""

from __future__ import annotations

import numpy as np

from toposcope.core.compiling import kernel

COORDINATES = 4096
"""Coordinates of a count sketch: squared distances keep their mean, with a relative standard deviation of at
most sqrt(2 / COORDINATES) = 2.2%."""


def sign_codes(generator: np.random.Generator, count: int) -> np.ndarray:
    """Return random uint16 codes for `signed_sums`, four to a word, the same on every machine."""
    raw = generator.bit_generator.random_raw(-(-count // 4))
    return np.asarray(raw.astype("<u8", copy=False).view("<u2")[:count])


def signed_sums(values: np.ndarray, codes: np.ndarray, size: int) -> np.ndarray:
    """Return `size` sums: value k is added to one coordinate, or subtracted from it.

    The lowest bit of `codes[k]` is the sign, the bits above it are the coordinate; bits above 2 * size are
    ignored. `size` is a power of two.
    """
    signed = np.zeros(2 * size)
    _add(values, codes, signed)
    return np.asarray(signed[::2] - signed[1::2])


@kernel
def _add(values: np.ndarray, codes: np.ndarray, signed: np.ndarray) -> None:
    mask = np.uint16(len(signed) - 1)
    for k in range(values.size):
        signed[codes[k] & mask] += values[k]
