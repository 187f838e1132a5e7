"""Sixteen float32 at a time inside numba kernels.

The compiler turns loops over rows of memory into vector code well, but it keeps no running vector in a
register across a loop, which is where attention with 8 or 12 features per head spends its time. A
`Vector` is such a value: the compiler maps it to whatever registers the machine has.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic as _intrinsic
from numba.extending import models, register_model

intrinsic: Any = _intrinsic  # to a type checker an intrinsic is anything: its arguments are compiled away

LANES = 16
FAST = {"contract", "nsz", "arcp"}
"""What kernels may relax: multiply-adds and signed zeros; never NaN, infinity or the order of sums."""

_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_INTS = ir.VectorType(ir.IntType(32), LANES)


class VectorType(types.Type):
    """The numba type of sixteen float32."""

    def __init__(self) -> None:
        super().__init__(name="Vector16xFloat32")


vector = VectorType()


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _FLOATS)


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _FLOATS.as_pointer())


@intrinsic
def load(typing: Any, array: Any, index: Any) -> Any:
    """Return elements `index` to `index` + 15 of a flat float32 array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        return builder.load(pointer, align=4)

    return vector(array, types.intp), generate


@intrinsic
def store(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Write a vector to elements `index` to `index` + 15 of a flat float32 array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        builder.store(arguments[2], pointer, align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


def _splat(builder: Any, kind: Any, value: Any) -> Any:
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.IntType(32)(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_INTS, [0] * LANES))


@intrinsic
def splat(typing: Any, value: Any) -> Any:
    """Return a vector that holds one number sixteen times."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _splat(builder, _FLOATS, arguments[0])

    return vector(types.float32), generate


def _call(builder: Any, name: str, arguments: Any) -> Any:
    kind = ir.FunctionType(_FLOATS, [_FLOATS] * len(arguments))
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f32")
    return builder.call(function, arguments)


@intrinsic
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(builder, "fma", arguments)

    return vector(vector, vector, vector), generate


@intrinsic
def larger(typing: Any, a: Any, b: Any) -> Any:
    """Return the larger of each pair."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *arguments), *arguments)

    return vector(vector, vector), generate


@intrinsic
def floor(typing: Any, a: Any) -> Any:
    """Return each number rounded down."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(builder, "floor", arguments)

    return vector(vector), generate


@intrinsic
def power_of_two(typing: Any, a: Any) -> Any:
    """Return 2 to each whole number of -126 to 127."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = builder.fptosi(arguments[0], _INTS)
        biased = builder.add(whole, ir.Constant(_INTS, [127] * LANES))
        return builder.bitcast(builder.shl(biased, ir.Constant(_INTS, [23] * LANES)), _FLOATS)

    return vector(vector), generate


@intrinsic
def multiply(typing: Any, a: Any, b: Any) -> Any:
    """Return a * b."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fmul(*arguments)

    return vector(vector, vector), generate


@intrinsic
def add(typing: Any, a: Any, b: Any) -> Any:
    """Return a + b."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fadd(*arguments)

    return vector(vector, vector), generate


@intrinsic
def subtract(typing: Any, a: Any, b: Any) -> Any:
    """Return a - b."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fsub(*arguments)

    return vector(vector, vector), generate


@intrinsic
def divide(typing: Any, a: Any, b: Any) -> Any:
    """Return a / b."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fdiv(*arguments)

    return vector(vector, vector), generate


@intrinsic
def absolute(typing: Any, a: Any) -> Any:
    """Return |a|."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(builder, "fabs", arguments)

    return vector(vector), generate


@intrinsic
def with_sign(typing: Any, a: Any, b: Any) -> Any:
    """Return |a| with the sign of b."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(builder, "copysign", arguments)

    return vector(vector, vector), generate


@intrinsic
def total(typing: Any, a: Any) -> Any:
    """Return the sum of the lanes, halves onto halves."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = arguments[0]
        for half in (8, 4, 2, 1):
            order = [(lane + half) % LANES for lane in range(LANES)]
            value = builder.fadd(value, builder.shuffle_vector(value, value, ir.Constant(_INTS, order)))
        return builder.extract_element(value, ir.IntType(32)(0))

    return types.float32(vector), generate


@intrinsic
def largest(typing: Any, a: Any) -> Any:
    """Return the largest lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = arguments[0]
        for half in (8, 4, 2, 1):
            order = [(lane + half) % LANES for lane in range(LANES)]
            other = builder.shuffle_vector(value, value, ir.Constant(_INTS, order))
            value = builder.select(builder.fcmp_ordered(">", value, other), value, other)
        return builder.extract_element(value, ir.IntType(32)(0))

    return types.float32(vector), generate


@intrinsic
def keep(typing: Any, value: Any, first: Any, last: Any, otherwise: Any) -> Any:
    """Return `value` in the lanes `first` to `last`, and the number `otherwise` in the others."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, first, last, otherwise = arguments
        lanes = ir.Constant(_INTS, list(range(LANES)))
        above = builder.icmp_signed(">=", lanes, _splat(builder, _INTS, builder.trunc(first, _INTS.element)))
        below = builder.icmp_signed("<=", lanes, _splat(builder, _INTS, builder.trunc(last, _INTS.element)))
        return builder.select(builder.and_(above, below), value, _splat(builder, _FLOATS, otherwise))

    return vector(vector, types.intp, types.intp, types.float32), generate


_LOG2_E = np.float32(1.0 / math.log(2.0))
_LN2_HIGH = np.float32(-0.693359375)
_LN2_LOW = np.float32(-(math.log(2.0) - 0.693359375))
_C = [np.float32(1.0 / math.factorial(k)) for k in range(8)]
_C2, _C3, _C4, _C5, _C6, _C7 = _C[2:]
_SMALLEST = np.float32(-87.0)
_HALF, _ONE = np.float32(0.5), np.float32(1.0)


@njit(cache=True, fastmath=FAST)
def exp(x):
    """Return e to each number of at most 87; below -87 the result is that at -87 (1.6e-38).

    x = n ln 2 + r with |r| <= ln 2 / 2, the Taylor polynomial of degree 7 in r, and n put into the
    exponent: the relative error is below 3e-7.
    """
    x = larger(x, splat(_SMALLEST))
    n = floor(fma(x, splat(_LOG2_E), splat(_HALF)))
    r = fma(n, splat(_LN2_LOW), fma(n, splat(_LN2_HIGH), x))
    p = fma(splat(_C7), r, splat(_C6))
    p = fma(p, r, splat(_C5))
    p = fma(p, r, splat(_C4))
    p = fma(p, r, splat(_C3))
    p = fma(p, r, splat(_C2))
    p = fma(multiply(p, r), r, add(r, splat(_ONE)))
    return multiply(p, power_of_two(n))
