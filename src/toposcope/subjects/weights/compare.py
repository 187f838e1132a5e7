"""Two checkpoints compared layer by layer, with the noise that subsampling adds to each difference."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.types import Checkpoint, Matrix, Row, Scope
from toposcope.files.formats.adapter import PEFT
from toposcope.sources.matrices import is_weight
from toposcope.store.draws import is_counted, over_draws
from toposcope.subjects.snapshot import RunReader, SeriesLike
from toposcope.subjects.weights.options import WeightOptions
from toposcope.subjects.weights.probes.baselines import Baselines
from toposcope.subjects.weights.probes.distances import Distances
from toposcope.subjects.weights.probes.neural_persistence import NeuralPersistence
from toposcope.subjects.weights.probes.rips import Rips

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.sources import Series

KEY = ["probe", "scope", "name", "role", "layer", "filtration", "feature"]
_MOVED = ["name", "role", "change", "cosine"]
LEAST_ENTRIES = 1000
"""Entries of a matrix for a cosine: of fewer, two random ones reach 0.1 too often (its sd is 0.03 here)."""


class _Pair:
    """Two checkpoints as two steps of one run; both subsample the same rows, so that draws can be paired."""

    def __init__(self, first: tuple[SeriesLike, Checkpoint], second: tuple[SeriesLike, Checkpoint]) -> None:
        self._held = dict(zip(("first", "second"), (first, second), strict=True))
        self.checkpoints = [Checkpoint("comparison", 0, uri=side) for side in self._held]

    def matrices(self, checkpoint: Checkpoint) -> Iterator[Matrix]:
        series, true = self._held[checkpoint.uri]
        for matrix in series.matrices(true):
            yield dataclasses.replace(matrix, checkpoint=checkpoint)

    def content_hash(self, checkpoint: Checkpoint) -> str:
        series, true = self._held[checkpoint.uri]
        return series.content_hash(true)

    def origin(self, checkpoint: Checkpoint) -> tuple[Series, Checkpoint]:
        series, true = self._held[checkpoint.uri]
        return series.origin(true)


def compare(
    first: tuple[SeriesLike, Checkpoint],
    second: tuple[SeriesLike, Checkpoint],
    *,
    options: WeightOptions | None = None,
) -> pd.DataFrame:
    """Return the differences between two checkpoints, second minus first, one line per feature.

    Subsamples have the same rows of both checkpoints, so differences are paired. `difference` is their mean
    over `draws`, `sd` their standard deviation, and `standard_error` = sd / sqrt(draws) the noise of the
    mean; both are null without draws. A feature of the probe "distances" has no value for each side:
    `difference` is the distance between the two diagrams. `status` is "ok", or says that only one checkpoint
    has the matrix.

    Raises
    ------
    InputError
        When the two share no matrix name.
    """
    options = options or WeightOptions()
    pair = _Pair(first, second)
    reader = RunReader(pair, pair.checkpoints)
    sides: list[list[Row]] = [[], []]
    for probe in (NeuralPersistence(options), Rips(options), Baselines(options)):
        for side, index in zip(sides, (0, 1), strict=True):
            side += probe.measure(reader[index]).rows
    names = [{row.name for row in side if row.scope == Scope.MATRIX} for side in sides]
    if not names[0] & names[1]:
        mine, other = (min(common, default="none") for common in names)
        remedy = "compare models of one family"
        if mine.startswith(PEFT) != other.startswith(PEFT):
            remedy = "an adapter holds changes of weights: compare two, or merge it into its model with PEFT"
        raise InputError(f"the two have no matrix name in common (such as {mine} and {other}); {remedy}")
    table = _differences(*(_frame(side) for side in sides))
    return _with_distances(table, _frame(Distances(options).measure(reader[1]).rows))


def of_other_shapes(first: tuple[Series, Checkpoint], second: tuple[Series, Checkpoint]) -> bool:
    """Return whether two checkpoints have weights of the same names, all with different shapes.

    Only file headers are read. This detects two sizes of a model.
    """
    mine, other = (_shapes(*side) for side in (first, second))
    both = mine.keys() & other.keys()
    return bool(both) and all(mine[name] != other[name] for name in both)


def _shapes(series: Series, checkpoint: Checkpoint) -> dict[str, tuple[int, ...]]:
    with series.reading(checkpoint) as reader:
        weights = {name: info for name, info in reader.infos().items() if is_weight(info)}
    return {name: info.shape[-2:] for name, info in weights.items()}  # of a stack, those of its matrices


def weight_changes(
    first: tuple[SeriesLike, Checkpoint], second: tuple[SeriesLike, Checkpoint]
) -> pd.DataFrame:
    """Return how far each common matrix moved: name, role, change = ||second - first|| / ||first||, cosine.

    Matrices of different shapes are left out. The change of a matrix that was zero is infinite, or 0 if it is
    still zero. The cosine is that of the angle between the two; NaN for fewer than `LEAST_ENTRIES` entries.
    """
    import pandas as pd

    matrices, other = (iter(series.matrices(checkpoint)) for series, checkpoint in (first, second))
    waiting: dict[str, Matrix] = {}
    rows = []
    for mine in matrices:
        theirs = waiting.pop(mine.name, None)
        while theirs is None and (nearest := next(other, None)) is not None:
            if nearest.name == mine.name:
                theirs = nearest
            else:  # the two have another order, or not the same matrices
                waiting[nearest.name] = nearest
        if theirs is not None and theirs.values.shape == mine.values.shape:
            rows.append((mine.name, str(mine.role), *_relative(mine.values, theirs.values)))
    return pd.DataFrame(rows, columns=_MOVED)


def no_differences() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the two tables, empty, for checkpoints that cannot be measured."""
    import pandas as pd

    names = [*KEY, "first", "second", "difference", "sd", "draws", "standard_error", "status"]
    return pd.DataFrame(columns=names), pd.DataFrame(columns=_MOVED)


def _relative(before: np.ndarray, after: np.ndarray) -> tuple[float, float]:
    """Return the change in parts of the norm before, and the cosine of the angle between the two."""
    old, new = before.astype(np.float64), after.astype(np.float64)
    moved, size, grown = (float(np.linalg.norm(part)) for part in (new - old, old, new))
    change = moved / size if size > 0 else float("inf") if moved > 0 else 0.0
    enough = old.size >= LEAST_ENTRIES and size > 0 and grown > 0
    return change, float(np.vdot(old, new)) / (size * grown) if enough else float("nan")


def _frame(rows: list[Row]) -> pd.DataFrame:
    import pandas as pd

    columns = [*KEY, "draw", "value", "status"]
    frame = pd.DataFrame([[getattr(row, column) for column in columns] for row in rows], columns=columns)
    frame = frame.assign(**{name: frame[name].astype(str) for name in ("role", "scope", "status")})
    return frame.astype({"layer": "Int64", "draw": "Int64"})


def _differences(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    # a shuffled null has draws of its own: the two sides' permutations are not pairs, only equally many
    sides = [side.assign(value=side["value"].where(is_counted(side))) for side in (first, second)]
    both = sides[0].merge(
        sides[1], on=[*KEY, "draw"], how="outer", suffixes=("_first", "_second"), indicator=True
    )
    table = _averaged(both.assign(value=both["value_second"] - both["value_first"]))
    for side in ("second", "first"):
        means = over_draws(both.assign(value=both[f"value_{side}"]), KEY)[[*KEY, "value"]]
        means = means.rename(columns={"value": side})
        table.insert(len(KEY), side, table[KEY].merge(means, on=KEY, how="left")[side])
    status = {"both": "ok", "left_only": "only in the first", "right_only": "only in the second"}
    merge_sides = both.groupby(KEY, dropna=False, sort=False)["_merge"].first()
    table["status"] = merge_sides.astype(str).map(status).to_numpy()
    return table


def _averaged(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a line for each number (`KEY`): the mean of its differences over draws, and their noise.

    `draws` is the number of draws that gave a difference; 0 where nothing was drawn.
    """
    drawn = rows.groupby(KEY, dropna=False, sort=False)["draw"].count().rename("drawn").reset_index()
    table = drawn.merge(over_draws(rows, KEY), on=KEY, how="left").rename(columns={"value": "difference"})
    table["draws"] = table["n"].fillna(0).astype(int).where(table["drawn"] > 0, 0)
    table["standard_error"] = table["sd"] / table["draws"].clip(lower=1) ** 0.5
    return table[[*KEY, "difference", "sd", "draws", "standard_error"]]


def _with_distances(table: pd.DataFrame, distances: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    if distances.empty:
        return table
    distance_rows = _averaged(distances).assign(status="ok")
    return pd.concat([table, distance_rows.reindex(columns=table.columns)], ignore_index=True)
