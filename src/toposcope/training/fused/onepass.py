"""Causal attention without its gradient: one pass over the keys, and no score is written to memory.

Sixteen queries lie in the lanes. Their features, the running sums and the mixed values stay in registers
while keys and values pass by four at a time. Weights are powers of two of scores relative to a reference
that is raised only where a score lies far above it, so that no other pass looks for the largest.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types

from toposcope.training.fused.vectors import (
    _FLOATS,
    _INTS,
    FAST,
    LANES,
    _call,
    _pointer,
    _splat,
    fma,
    intrinsic,
    load,
    splat,
    store,
    total,
)

WIDEST_HEAD = 16
_KEYS = 4
_FAR = 20.0
"""A score may exceed the reference by so many powers of two: sums of such weights are far from infinite."""
_SMALLEST = -125.0
_ROUNDER = 1.5 * 2.0**23
_EXP2 = (1.0, 0.69314700, 0.24022242, 0.05550734, 0.00967151, 0.00132647)
"""The polynomial of degree 5 with the least relative error (9e-8) to 2^r, |r| <= 1/2, exact at 0."""
_UNSEEN = -1e30
_ZERO = np.float32(0.0)
_LOG2_E = 1.0 / math.log(2.0)


def _constant(value: float) -> ir.Constant:
    return ir.Constant(_FLOATS, [value] * LANES)


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _exp2(builder: Any, x: Any) -> Any:
    """Return 2 to each number of at most 126; below -125 the result is that at -125."""
    x = _larger(builder, x, _constant(_SMALLEST))
    shifted = builder.fadd(x, _constant(_ROUNDER))  # the nearest whole number, in the last bits
    rest = builder.fsub(x, builder.fsub(shifted, _constant(_ROUNDER)))
    power = _constant(_EXP2[-1])
    for coefficient in _EXP2[-2::-1]:
        power = _call(builder, "fma", [power, rest, _constant(coefficient)])
    exponent = builder.shl(builder.bitcast(shifted, _INTS), ir.Constant(_INTS, [23] * LANES))
    return builder.bitcast(builder.add(builder.bitcast(power, _INTS), exponent), _FLOATS)


class _Sums:
    """The running state of sixteen queries, in variables that become registers."""

    def __init__(self, builder: Any, features: int) -> None:
        self.mixed = [cgutils.alloca_once_value(builder, _constant(0.0)) for _ in range(features)]
        self.weight = cgutils.alloca_once_value(builder, _constant(0.0))
        self.reference = cgutils.alloca_once_value(builder, _constant(_UNSEEN))

    def raise_reference(self, builder: Any, scores: list[Any]) -> None:
        """Put the reference at the largest score where one lies far above it."""
        now, top = builder.load(self.reference), scores[0]
        for score in scores[1:]:
            top = _larger(builder, score, top)
        far = builder.fcmp_ordered(">", top, builder.fadd(now, _constant(_FAR)))
        anywhere = builder.icmp_unsigned("!=", builder.bitcast(far, ir.IntType(LANES)), ir.IntType(LANES)(0))
        with builder.if_then(anywhere, likely=False):
            new = _larger(builder, top, now)
            share = _exp2(builder, builder.fsub(now, new))
            builder.store(new, self.reference)
            for place in (self.weight, *self.mixed):
                builder.store(builder.fmul(builder.load(place), share), place)


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Return the columns of sixteen vectors, by exchanging ever smaller blocks of them."""
    for half in (8, 4, 2, 1):
        upper = [lane if not lane & half else LANES + lane - half for lane in range(LANES)]
        lower = [lane + half if not lane & half else LANES + lane for lane in range(LANES)]
        orders = [ir.Constant(_INTS, order) for order in (upper, lower)]
        for i in range(LANES):
            if not i & half:
                pair = rows[i], rows[i + half]
                rows[i], rows[i + half] = (builder.shuffle_vector(*pair, order) for order in orders)
    return rows


class _Kernel:
    """Emits the attention of sixteen queries of a head of up to so many features."""

    def __init__(self, features: int, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.features, self.context, self.builder, self.kinds = features, context, builder, signature.args
        self.qkv, self.at, self.stride, self.pairs, self.start, self.out, self.to, self.wide, self.size = (
            arguments
        )
        self.number = self.start.type
        self.lanes = ir.Constant(_INTS, list(range(LANES)))
        self.data = context.make_array(self.kinds[3])(context, builder, self.pairs).data
        self.owned = builder.icmp_signed("<", self.lanes, self._short(self.size))
        self.sums = _Sums(builder, features)

    def emit(self) -> None:
        b, number = self.builder, self.number
        self.queries = self._queries()
        groups = b.udiv(self.start, number(_KEYS))
        with cgutils.for_range(b, groups, intp=number) as loop:
            self._four(b.mul(loop.index, number(_KEYS)), masked=False)
        with cgutils.for_range(b, number(LANES // _KEYS), intp=number) as loop:
            self._four(b.add(self.start, b.mul(loop.index, number(_KEYS))), masked=True)
        self._write()

    def _queries(self) -> list[Any]:
        """Load the queries, sixteen rows of `qkv`; return their features, scaled."""
        b = self.builder
        rows = [self._masked("load", 0, self.qkv, self._row(self.at, self.stride, i)) for i in range(LANES)]
        root = b.call(
            cgutils.get_or_insert_function(
                b.module, ir.FunctionType(ir.FloatType(), [ir.FloatType()]), "llvm.sqrt.f32"
            ),
            [b.sitofp(self.size, ir.FloatType())],
        )
        scale = _splat(b, _FLOATS, b.fdiv(ir.Constant(ir.FloatType(), _LOG2_E), root))
        return [b.fmul(column, scale) for column in _transposed(b, rows)[: self.features]]

    def _write(self) -> None:
        b = self.builder
        share = b.fdiv(_constant(1.0), b.load(self.sums.weight))
        columns = [b.fmul(b.load(place), share) for place in self.sums.mixed]
        missing = [_constant(0.0)] * (LANES - self.features)
        for i, row in enumerate(_transposed(b, columns + missing)):
            self._masked("store", 5, self.out, self._row(self.to, self.wide, i), row)

    def _row(self, at: Any, stride: Any, i: int) -> Any:
        return self.builder.add(at, self.builder.mul(stride, self.number(i)))

    def _short(self, value: Any) -> Any:
        return _splat(self.builder, _INTS, self.builder.trunc(value, _INTS.element))

    def _masked(self, what: str, kind: int, array: Any, index: Any, value: Any = None) -> Any:
        """Load or store the lanes that are the head's own; the others read 0."""
        b = self.builder
        place = _pointer(self.context, b, self.kinds[kind], array, index)
        aligned, mask = ir.Constant(ir.IntType(32), 4), self.owned
        given = [place, aligned, mask, _constant(0.0)] if value is None else [value, place, aligned, mask]
        returned = _FLOATS if value is None else ir.VoidType()
        kinds = ir.FunctionType(returned, [argument.type for argument in given])
        name = f"llvm.masked.{what}.v{LANES}f32.p0"
        return b.call(cgutils.get_or_insert_function(b.module, kinds, name), given)

    def _number(self, key: Any, place: int) -> Any:
        b = self.builder
        at = b.add(b.mul(key, self.number(2 * LANES)), self.number(place))
        return _splat(b, _FLOATS, b.load(b.gep(self.data, [at])))

    def _four(self, first: Any, *, masked: bool) -> None:
        """Take in four keys and their values; where `masked`, a key is seen from its own query on."""
        b = self.builder
        keys = [b.add(first, self.number(u)) for u in range(_KEYS)]
        scores = [self._score(key, masked=masked) for key in keys]
        self.sums.raise_reference(b, scores)
        reference = b.load(self.sums.reference)
        for key, score in zip(keys, scores, strict=True):
            weight = _exp2(b, b.fsub(score, reference))
            b.store(b.fadd(b.load(self.sums.weight), weight), self.sums.weight)
            for e, place in enumerate(self.sums.mixed):
                b.store(_call(b, "fma", [weight, self._number(key, LANES + e), b.load(place)]), place)

    def _score(self, key: Any, *, masked: bool) -> Any:
        b = self.builder
        score = b.fmul(self.queries[0], self._number(key, 0))
        for e in range(1, self.features):
            score = _call(b, "fma", [self.queries[e], self._number(key, e), score])
        if not masked:
            return score
        seen = b.icmp_signed(">=", self.lanes, self._short(b.sub(key, self.start)))
        return b.select(seen, score, _constant(_UNSEEN))


def _made(features: int) -> Any:
    """Return the intrinsic for heads of up to so many features."""

    @intrinsic
    def sixteen_queries(
        typing: Any, qkv: Any, at: Any, stride: Any, pairs: Any, start: Any, out: Any, to: Any, wide: Any,
        size: Any,
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            _Kernel(features, context, builder, signature, arguments).emit()
            return context.get_dummy_value()

        whole = types.intp
        return types.void(qkv, whole, whole, pairs, whole, out, whole, whole, whole), generate

    return sixteen_queries


_upto4, _upto8, _upto12, _upto16 = (_made(features) for features in (4, 8, 12, WIDEST_HEAD))


@njit(cache=True, nogil=True)
def attend(qkv, three, d, heads, rows, mixed, wide, pairs):
    """Fill `mixed` (rows, wide) from `qkv` (rows, three), both flat; return whether all scores are finite.

    `rows` is a multiple of sixteen, heads have at most `WIDEST_HEAD` features, `qkv` goes on for sixteen
    numbers after its last row, and `pairs` (rows * 32) is room. The sum of the squares of a head's numbers
    is finite where True is returned, and with it every score.
    """
    size = d // heads
    good = True
    for h in range(heads):
        column = h * size
        good &= _pair(qkv, three, d, column, rows, pairs)
        for start in range(0, rows, LANES):
            at, to = start * three + column, start * wide + column
            if size <= 4:
                _upto4(qkv, at, three, pairs, start, mixed, to, wide, size)
            elif size <= 8:
                _upto8(qkv, at, three, pairs, start, mixed, to, wide, size)
            elif size <= 12:
                _upto12(qkv, at, three, pairs, start, mixed, to, wide, size)
            else:
                _upto16(qkv, at, three, pairs, start, mixed, to, wide, size)
    return good


@njit(cache=True, fastmath=FAST, nogil=True)
def _pair(qkv, three, d, column, rows, pairs):
    """Put a head's keys and values side by side; return whether the sum of its squares is finite."""
    squares = splat(_ZERO)
    for row in range(rows):
        at = row * three + column
        q, k, v = load(qkv, at), load(qkv, at + d), load(qkv, at + 2 * d)
        squares = fma(v, v, fma(k, k, fma(q, q, squares)))
        store(pairs, row * 2 * LANES, k)
        store(pairs, row * 2 * LANES + LANES, v)
    return total(squares) < np.inf
