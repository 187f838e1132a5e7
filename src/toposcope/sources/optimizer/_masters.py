"""Are the weights those of the master copies in full precision, rounded: a few megabytes at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.core.types import Checkpoint
from toposcope.files.formats.reader import WEIGHT_DTYPES, Reader
from toposcope.files.training_state.nouns import OptimizerState, ParameterState, blocks
from toposcope.sources.optimizer.moments import sample_rows
from toposcope.sources.optimizer.naming import ParameterNames
from toposcope.sources.optimizer.resumption import DISAGREES, Facet
from toposcope.sources.series import Series

_ALIKE = 2.0**-7
"""How far a weight may be from its master copy, in parts of it: twice the rounding of bfloat16."""
_MOST_UNLIKE = 0.01
"""More than this share of values unlike their masters is no rounding."""


def masters_facets(
    series: Series, checkpoint: Checkpoint, now: OptimizerState, names: ParameterNames, *, sample: bool
) -> Iterator[Facet]:
    """Find master copies that no weights of their shape are rounded from, by all values or by a sample.

    Where the weights' order alone named them and none agrees, their order may be another one.
    """
    with_master = [parameter for parameter in now.parameters.values() if parameter.master is not None]
    if not with_master or now.flat:
        return
    bad: list[str] = []
    try:
        with series.reading(checkpoint) as reader:
            for parameter in with_master:
                candidates = names.candidates.get(parameter.key, ())
                if candidates and not any(
                    _rounded_from(parameter, reader, name, sample=sample) for name in candidates
                ):
                    bad.append(parameter.key)
    except SourceError:  # a finding says so
        return
    if not bad:
        return
    if now.by_order and len(bad) == len(with_master):
        why = "no master copies are the weights, if they follow the weights' order"
        yield Facet("moments", DISAGREES, why, unsure=True)
        return
    of = names.name(bad[0]) if len(bad) == 1 else f"{len(bad):,} of {len(with_master):,} tensors"
    yield Facet(
        "moments", DISAGREES, f"the master copies of {of} are not the weights", "masters-unlike-weights"
    )


def _rounded_from(parameter: ParameterState, reader: Reader, name: str, *, sample: bool) -> bool:
    """Return whether weights are those of a master copy, rounded: all but one value in a hundred."""
    assert parameter.master is not None
    info = reader.infos()[name]
    if info.skip or info.dtype not in WEIGHT_DTYPES or info.size != parameter.master.size:
        return True
    unlike = looked = 0
    for rows in blocks(parameter.master, sample_rows(parameter.master) if sample else None):
        stored = reader.read(name) if rows is None else reader.rows(name, *rows)
        weights, master = stored.astype(np.float64).reshape(-1), parameter.master.values(rows)
        with np.errstate(invalid="ignore"):
            near = np.abs(weights - master) <= _ALIKE * np.abs(master) + float(np.finfo(np.float16).tiny)
        unlike += int(np.count_nonzero(~near))
        looked += len(master)
    return unlike <= _MOST_UNLIKE * looked
