"""GELU with its slope and cross-entropy with its gradient, each in one pass over memory."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from toposcope.training.fused.vectors import (
    FAST,
    LANES,
    absolute,
    add,
    divide,
    exp,
    fma,
    larger,
    largest,
    load,
    multiply,
    splat,
    store,
    subtract,
    total,
    with_sign,
)

_ZERO, _HALF, _ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)
_LOWEST = np.float32(-3e38)
_DENSITY = np.float32(1.0 / math.sqrt(2.0 * math.pi))
# Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26, with x / sqrt(2) put in and halved.
_T = np.float32(0.3275911 / math.sqrt(2.0))
_A1, _A2, _A3, _A4, _A5 = (
    np.float32(a / 2.0) for a in (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
)


@njit(cache=True, fastmath=FAST)
def below_and_bell(value):
    """Return Phi(x), the normal distribution function to an absolute error below 2e-7, and exp(-x^2 / 2)."""
    size = absolute(value)
    bell = exp(multiply(multiply(value, value), splat(-_HALF)))
    t = divide(splat(_ONE), fma(splat(_T), size, splat(_ONE)))
    p = fma(splat(_A5), t, splat(_A4))
    p = fma(p, t, splat(_A3))
    p = fma(p, t, splat(_A2))
    p = multiply(fma(p, t, splat(_A1)), t)
    inside = subtract(splat(_HALF), multiply(p, bell))  # Phi(|x|) - 1/2
    return add(with_sign(inside, value), splat(_HALF)), bell


@njit(cache=True, fastmath=FAST)
def gelu(x, out):
    """Fill `out` with x Phi(x) and replace `x` by the slope Phi(x) + x phi(x); flat, whole vectors."""
    for at in range(0, x.size, LANES):
        value = load(x, at)
        below, bell = below_and_bell(value)
        store(out, at, multiply(value, below))
        store(x, at, fma(multiply(value, bell), splat(_DENSITY), below))


@njit(cache=True, fastmath=FAST)
def cross_entropy(logits, targets, weight):
    """Return the summed cross-entropy and replace `logits` (n, vocabulary) by its gradient times `weight`.

    The vocabulary is a multiple of sixteen. The sum is in float64.
    """
    rows, vocabulary = logits.shape
    flat = logits.ravel()
    summed = 0.0
    for row in range(rows):
        start = row * vocabulary
        stop = start + vocabulary
        peaks = splat(_LOWEST)
        for at in range(start, stop, LANES):
            peaks = larger(load(flat, at), peaks)
        peak = largest(peaks)
        at_target = flat[start + targets[row]]
        sums = splat(_ZERO)
        for at in range(start, stop, LANES):
            p = exp(subtract(load(flat, at), splat(peak)))
            store(flat, at, p)
            sums = add(sums, p)
        whole = total(sums)
        scale = splat(weight / whole)
        for at in range(start, stop, LANES):
            store(flat, at, multiply(load(flat, at), scale))
        flat[start + targets[row]] -= weight
        summed += math.log(whole) + (peak - at_target)
    return summed
