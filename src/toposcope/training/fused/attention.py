"""Causal attention, forward and backward, for heads of few features.

Scores live in a block of sixteen rows that stays in the nearest cache; the backward pass recomputes
them from the logarithm of each row's sum instead of reading them back from memory.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from toposcope.training.fused.vectors import (
    FAST,
    LANES,
    add,
    exp,
    fma,
    keep,
    larger,
    load,
    multiply,
    splat,
    store,
    subtract,
)

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
_LOWEST = np.float32(-1e30)


@njit(cache=True)
def attention_forward(qkv, heads, time, out, log_sum):
    """Fill `out` (n, d) and `log_sum` (batch * heads * time) from `qkv` (n, 3 d), n = batch * time."""
    d = out.shape[1]
    size = d // heads
    rows = (time + LANES - 1) // LANES * LANES
    features = (size + 3) // 4 * 4
    q, k = np.zeros((features, rows), np.float32), np.zeros((rows, features), np.float32)
    v = np.zeros((rows, features), np.float32)
    scores = np.zeros(rows * LANES, np.float32)
    mixed = np.zeros(features * LANES, np.float32)
    peak, total = np.zeros(LANES, np.float32), np.zeros(LANES, np.float32)
    scale = np.float32(1.0 / math.sqrt(size))
    for b in range(out.shape[0] // time):
        for h in range(heads):
            _columns(qkv, b * time, h * size, size, scale, time, q)
            _rows(qkv, b * time, d + h * size, size, _ONE, time, k)
            _rows(qkv, b * time, 2 * d + h * size, size, _ONE, time, v)
            for start in range(0, time, LANES):
                _scores(q.ravel()[start:], rows, k.ravel(), features, start, scores, peak, total)
                _mix(scores, start + LANES, v.ravel(), features, mixed)
                for i in range(min(LANES, time - start)):
                    log_sum[(b * heads + h) * time + start + i] = peak[i] + np.float32(math.log(total[i]))
                    share = _ONE / total[i]
                    for e in range(size):
                        out[b * time + start + i, h * size + e] = mixed[e * LANES + i] * share


@njit(cache=True)
def _rows(source, row, column, size, factor, time, into):
    for t in range(time):
        for e in range(size):
            into[t, e] = source[row + t, column + e] * factor


@njit(cache=True)
def _columns(source, row, column, size, factor, time, into):
    for t in range(time):
        for e in range(size):
            into[e, t] = source[row + t, column + e] * factor


@njit(cache=True, fastmath=FAST)
def _scores(q, rows, k, features, start, scores, peak, total):
    """Fill exp(score - peak) of sixteen queries (lanes) with every key up to the last of them."""
    top = splat(_LOWEST)
    for j in range(0, start + LANES, 4):
        s0, s1, s2, s3 = splat(_ZERO), splat(_ZERO), splat(_ZERO), splat(_ZERO)
        for e in range(features):
            x = load(q, e * rows)
            s0 = fma(splat(k[j * features + e]), x, s0)
            s1 = fma(splat(k[(j + 1) * features + e]), x, s1)
            s2 = fma(splat(k[(j + 2) * features + e]), x, s2)
            s3 = fma(splat(k[(j + 3) * features + e]), x, s3)
        if j >= start:  # a key is seen by its own query and the later ones
            s0 = keep(s0, j - start, LANES, _LOWEST)
            s1 = keep(s1, j + 1 - start, LANES, _LOWEST)
            s2 = keep(s2, j + 2 - start, LANES, _LOWEST)
            s3 = keep(s3, j + 3 - start, LANES, _LOWEST)
        store(scores, j * LANES, s0)
        store(scores, (j + 1) * LANES, s1)
        store(scores, (j + 2) * LANES, s2)
        store(scores, (j + 3) * LANES, s3)
        top = larger(larger(larger(s0, s1), larger(s2, s3)), top)
    store(peak, 0, top)
    below = splat(_ZERO)
    for j in range(start):
        p = exp(subtract(load(scores, j * LANES), top))
        store(scores, j * LANES, p)
        below = add(below, p)
    for j in range(start, start + LANES):
        p = keep(exp(subtract(load(scores, j * LANES), top)), j - start, LANES, _ZERO)
        store(scores, j * LANES, p)
        below = add(below, p)
    store(total, 0, below)


@njit(cache=True, fastmath=FAST)
def _mix(weights, count, values, features, out):
    """Fill out[e, lane] = sum over rows j < count of weights[j, lane] values[j, e]."""
    for e in range(0, features, 4):
        o0, o1, o2, o3 = splat(_ZERO), splat(_ZERO), splat(_ZERO), splat(_ZERO)
        for j in range(count):
            p = load(weights, j * LANES)
            o0 = fma(p, splat(values[j * features + e]), o0)
            o1 = fma(p, splat(values[j * features + e + 1]), o1)
            o2 = fma(p, splat(values[j * features + e + 2]), o2)
            o3 = fma(p, splat(values[j * features + e + 3]), o3)
        store(out, e * LANES, o0)
        store(out, (e + 1) * LANES, o1)
        store(out, (e + 2) * LANES, o2)
        store(out, (e + 3) * LANES, o3)


@njit(cache=True)
def attention_backward(qkv, heads, time, out, log_sum, d_out, d_qkv):
    """Fill `d_qkv` (n, 3 d) from the gradient `d_out` (n, d) and what the forward pass left."""
    d = out.shape[1]
    size = d // heads
    rows = (time + LANES - 1) // LANES * LANES
    features = (size + 3) // 4 * 4
    wide = (size + LANES - 1) // LANES * LANES
    q, g = np.zeros((rows, features), np.float32), np.zeros((rows, features), np.float32)
    k, v = np.zeros((features, rows), np.float32), np.zeros((features, rows), np.float32)
    k_rows, d_q = np.zeros((rows, wide), np.float32), np.zeros((rows, wide), np.float32)
    sums, inner = np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    weights, slopes = np.zeros(rows * LANES, np.float32), np.zeros(rows * LANES, np.float32)
    d_k, d_v = np.zeros((features, LANES), np.float32), np.zeros((features, LANES), np.float32)
    scale = np.float32(1.0 / math.sqrt(size))
    for b in range(out.shape[0] // time):
        for h in range(heads):
            top, left = b * time, h * size
            _rows(qkv, top, left, size, scale, time, q)
            _columns(qkv, top, d + left, size, _ONE, time, k)
            _columns(qkv, top, 2 * d + left, size, _ONE, time, v)
            _rows(qkv, top, d + left, size, _ONE, time, k_rows)
            _rows(d_out, top, left, size, _ONE, time, g)
            for t in range(time):
                sums[t] = log_sum[(b * heads + h) * time + t]
                inner[t] = _ZERO
                for e in range(size):
                    inner[t] += g[t, e] * out[top + t, left + e]
            d_q[:] = _ZERO
            for start in range(0, time, LANES):
                count = rows - start
                _slopes(q, g, k, v, sums, inner, start, weights, slopes)
                _mix(weights, count, g.ravel()[start * features :], features, d_v.ravel())
                _mix(slopes, count, q.ravel()[start * features :], features, d_k.ravel())
                _add_query_gradients(slopes, k_rows, start, d_q)
                _scatter(d_k, d_v, top + start, d + left, d, size, min(LANES, time - start), d_qkv)
            for t in range(time):
                for e in range(size):
                    d_qkv[top + t, left + e] = d_q[t, e] * scale


@njit(cache=True, fastmath=FAST)
def _slopes(q, g, k, v, sums, inner, start, weights, slopes):
    """Fill the attention weights of sixteen keys (lanes) for the queries that see one, and their slopes."""
    rows, features = q.shape
    keys, values = k.ravel(), v.ravel()
    for i in range(start, rows, 2):
        s0, s1 = splat(-sums[i]), splat(-sums[i + 1])
        t0, t1 = splat(-inner[i]), splat(-inner[i + 1])
        for e in range(features):
            x = load(keys, e * rows + start)
            y = load(values, e * rows + start)
            s0 = fma(splat(q[i, e]), x, s0)
            s1 = fma(splat(q[i + 1, e]), x, s1)
            t0 = fma(splat(g[i, e]), y, t0)
            t1 = fma(splat(g[i + 1, e]), y, t1)
        p0, p1 = exp(s0), exp(s1)
        if i < start + LANES:
            p0 = keep(p0, 0, i - start, _ZERO)
            p1 = keep(p1, 0, i + 1 - start, _ZERO)
        at = (i - start) * LANES
        store(weights, at, p0)
        store(weights, at + LANES, p1)
        store(slopes, at, multiply(p0, t0))
        store(slopes, at + LANES, multiply(p1, t1))


@njit(cache=True, fastmath=FAST)
def _add_query_gradients(slopes, k_rows, start, d_q):
    """Add the sum over sixteen keys of slope times key to the queries from `start` on (lanes: features)."""
    rows, wide = d_q.shape
    keys, into = k_rows.ravel(), d_q.ravel()
    for i in range(start, rows, 4):
        for e in range(0, wide, LANES):
            at = i * wide + e
            a0, a1 = load(into, at), load(into, at + wide)
            a2, a3 = load(into, at + 2 * wide), load(into, at + 3 * wide)
            for j in range(LANES):
                x = load(keys, (start + j) * wide + e)
                row = (i - start) * LANES + j
                a0 = fma(splat(slopes[row]), x, a0)
                a1 = fma(splat(slopes[row + LANES]), x, a1)
                a2 = fma(splat(slopes[row + 2 * LANES]), x, a2)
                a3 = fma(splat(slopes[row + 3 * LANES]), x, a3)
            store(into, at, a0)
            store(into, at + wide, a1)
            store(into, at + 2 * wide, a2)
            store(into, at + 3 * wide, a3)


@njit(cache=True)
def _scatter(d_k, d_v, row, column, d, size, count, d_qkv):
    for i in range(count):
        for e in range(size):
            d_qkv[row + i, column + e] = d_k[e, i]
            d_qkv[row + i, column + d + e] = d_v[e, i]
