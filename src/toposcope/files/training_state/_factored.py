"""Second moments that Adafactor keeps as means of rows and of columns: v_ij = r_i c_j / mean(r)."""

from __future__ import annotations

import math

import numpy as np

from toposcope.files.training_state.nouns import Rows, StateTensor

ROWS = ("row_var", "exp_avg_sq_row")
COLUMNS = ("col_var", "exp_avg_sq_col")
"""The fields of the factors: of PyTorch's Adafactor, which keeps axes of length 1, and of transformers'."""


def from_factors(rows: StateTensor | None, columns: StateTensor | None) -> StateTensor | None:
    """Return the second moment that two factors stand for; None if they are not such.

    >>> r = StateTensor((2, 1), np.dtype("f4"), lambda rows: np.array([[1.0], [3.0]]))
    >>> c = StateTensor((1, 3), np.dtype("f4"), lambda rows: np.array([[2.0, 4.0, 6.0]]))
    >>> from_factors(r, c).values((1, 2)), from_factors(r, None)
    (array([3., 6., 9.]), None)
    """
    if rows is None or columns is None or not rows.shape or not columns.shape:
        return None
    kept = len(rows.shape) == len(columns.shape) > 1 and rows.shape[-1] == 1 and columns.shape[-2] == 1
    outer = rows.shape[:-2] if kept else rows.shape[:-1]
    if outer != (columns.shape[:-2] if kept else columns.shape[:-1]):
        return None
    high, wide = rows.shape[-2 if kept else -1], columns.shape[-1]
    row_factor, column_factor = rows, columns

    def read(part: Rows | None) -> np.ndarray:
        r = row_factor.values().reshape(*outer, high, 1)
        c = column_factor.values().reshape(*outer, 1, wide)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            r = r / r.mean(axis=-2, keepdims=True) if np.any(r) else r
            some = slice(None) if part is None else slice(*part)
            values: np.ndarray = r[some] * (c[some] if outer else c)
        return values

    shape = (*outer, high, wide)
    return StateTensor(shape, rows.dtype, read) if math.prod(shape) else None
