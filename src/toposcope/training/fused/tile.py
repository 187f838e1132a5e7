"""Matrix products of small float32 layers inside numba kernels, a block of rows held in registers.

A library's product costs more for its call than for its arithmetic at widths of 8 to 48, and its operands
leave the nearest cache between two calls. Here weights lie as (inputs, outputs) with the outputs padded to
whole vectors, and eight rows by up to three vectors of a product stay in registers while the inputs pass by.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit
from numba.core import cgutils, types

from toposcope.training.fused.vectors import _FLOATS, FAST, LANES, _pointer, _splat, intrinsic

ROWS = 8
"""Rows of a block: the number of rows of a product is a multiple of it."""


def _made(vectors: int) -> Any:
    """Return the intrinsic that computes eight rows by so many vectors of x w + b (+ what `out` holds)."""

    @intrinsic
    def tile(
        typing: Any, x: Any, x_at: Any, x_stride: Any, w: Any, w_at: Any, w_stride: Any, b_at: Any,
        depth: Any, out: Any, out_at: Any, out_stride: Any, more: Any,
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            x, x_at, x_stride, w, w_at, w_stride, b_at, depth, out, out_at, out_stride, more = arguments
            kinds = signature.args
            number = out_at.type
            steps = [number(LANES * v) for v in range(vectors)]
            data = context.make_array(kinds[0])(context, builder, x).data
            sums = [[cgutils.alloca_once(builder, _FLOATS) for _ in steps] for _ in range(ROWS)]
            for v, step in enumerate(steps):
                first = builder.load(
                    _pointer(context, builder, kinds[3], w, builder.add(b_at, step)), align=4
                )
                for row in range(ROWS):
                    builder.store(first, sums[row][v])
            starts = [builder.add(x_at, builder.mul(x_stride, number(row))) for row in range(ROWS)]
            with cgutils.for_range(builder, depth, intp=number) as loop:
                line = builder.add(w_at, builder.mul(loop.index, w_stride))
                weights = [
                    builder.load(_pointer(context, builder, kinds[3], w, builder.add(line, step)), align=4)
                    for step in steps
                ]
                for row in range(ROWS):
                    one = builder.load(builder.gep(data, [builder.add(starts[row], loop.index)]))
                    factor = _splat(builder, _FLOATS, one)
                    for v in range(vectors):
                        total = _fma(builder, factor, weights[v], builder.load(sums[row][v]))
                        builder.store(total, sums[row][v])
            with builder.if_then(cgutils.is_not_null(builder, more)):
                _each(context, builder, kinds[8], out, out_at, out_stride, steps, sums, held=True)
            _each(context, builder, kinds[8], out, out_at, out_stride, steps, sums, held=False)
            return context.get_dummy_value()

        at = types.intp
        return types.void(x, at, at, w, at, at, at, at, out, at, at, types.intp), generate

    return tile


def _fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    kind = ir.FunctionType(_FLOATS, [_FLOATS] * 3)
    return builder.call(
        cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32"), [a, b, c]
    )


def _each(
    context: Any, builder: Any, kind: Any, out: Any, out_at: Any, out_stride: Any, steps: Any, sums: Any, *,
    held: bool,
) -> None:  # fmt: skip
    """Add what `out` holds to the sums, or write the sums there."""
    for row in range(ROWS):
        start = builder.add(out_at, builder.mul(out_stride, out_at.type(row)))
        for v, step in enumerate(steps):
            place = _pointer(context, builder, kind, out, builder.add(start, step))
            now = builder.load(sums[row][v])
            if held:
                builder.store(builder.fadd(now, builder.load(place, align=4)), sums[row][v])
            else:
                builder.store(now, place, align=4)


_one, _two, _three = (_made(vectors) for vectors in (1, 2, 3))


@njit(cache=True, fastmath=FAST, nogil=True)
def product(x, x_at, wide, rows, depth, values, w_at, b_at, columns, out, out_at, more):
    """Fill `rows` rows of `out`, `columns` wide, with x w + b, adding to what is there where `more` is not 0.

    All arrays are flat. The rows of x are `wide` apart and `depth` long; w (depth, columns) starts at `w_at`
    of `values` and b (columns,) at `b_at`. `rows` is a multiple of `ROWS`, `columns` of `LANES`.
    """
    column = 0
    while column < columns:
        left = (columns - column) // LANES
        taken = 3 if left == 3 or left > 4 else min(left, 2)
        w, b = w_at + column, b_at + column
        for row in range(0, rows, ROWS):
            at, to = x_at + row * wide, out_at + row * columns + column
            if taken == 3:
                _three(x, at, wide, values, w, columns, b, depth, out, to, columns, more)
            elif taken == 2:
                _two(x, at, wide, values, w, columns, b, depth, out, to, columns, more)
            else:
                _one(x, at, wide, values, w, columns, b, depth, out, to, columns, more)
        column += taken * LANES
