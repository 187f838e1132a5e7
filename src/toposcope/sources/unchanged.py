"""Which matrices of a run never changed: the first checkpoint compared with the last one."""

from __future__ import annotations

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.formats.reader import WEIGHT_DTYPES, Reader, TensorInfo
from toposcope.sources.audit_evidence import SAMPLE_BYTES, sampled
from toposcope.sources.series import Series

LEAST_CHECKPOINTS = 3
"""The fewest checkpoints of a run: with two, the run may have hardly begun to move."""


def changed_matrices(series: Series, run: str) -> dict[str, bool]:
    """Return the matrices of a run, and whether each differs between its first and last checkpoint.

    A sample of the rows is read; every value is read only if the sample of a matrix did not change. The
    result is empty for a run with fewer than three checkpoints, if its first or last checkpoint cannot be
    read, and if they would have to be fetched from another machine.

    >>> from toposcope import open_series
    >>> weights = {s: {"fc1.weight": np.eye(3), "fc2.weight": s * np.eye(3)} for s in (0, 10, 20)}
    >>> changed_matrices(open_series(weights), "memory")
    {'fc1.weight': False, 'fc2.weight': True}
    """
    there = series.of_run(run)
    if len(there) < LEAST_CHECKPOINTS or series.identity(there[0]) is not None:
        return {}
    try:
        with series.reading(there[0]) as first, series.reading(there[-1]) as last:
            later = last.infos()
            return {
                name: _changed(first, last, info)
                for name, info in first.infos().items()
                if _counts(info) and name in later and later[name].shape == info.shape
            }
    except (SourceError, OSError):  # the audit reports it
        return {}


def _counts(info: TensorInfo) -> bool:
    return len(info.shape) > 1 and info.size > 0 and not info.skip and info.dtype in WEIGHT_DTYPES


def _changed(first: Reader, last: Reader, info: TensorInfo) -> bool:
    if info.nbytes > SAMPLE_BYTES:
        for start, stop in sampled(info.shape[0], info.nbytes):
            if _differ(first.rows(info.name, start, stop), last.rows(info.name, start, stop)):
                return True
    return _differ(first.read(info.name), last.read(info.name))


def _differ(first: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two arrays differ in any bit."""
    return first.dtype != other.dtype or first.tobytes() != other.tobytes()
