"""What changed: first and last values of the loss and the leading features, and what their nulls show."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from toposcope.core.forms import extent
from toposcope.core.groups import families_of, short
from toposcope.core.lines import LEAST, curve
from toposcope.core.types import Use
from toposcope.logs.objective import objective_of
from toposcope.store.draws import over_draws
from toposcope.study.findings.base import Finding
from toposcope.study.net_change import beyond_scatter, draw_noise, first_last
from toposcope.study.rows import null_band, of_column
from toposcope.study.shapes import Course, CurveShape, monotone, shape_of

if TYPE_CHECKING:
    from toposcope.study.tables import StudyTables


def changed(study: StudyTables) -> Finding:
    """Strength: "moved" (a leading quantity left the noise of draws and neighbours), else "still"."""
    moves = [move for column in _moved(study) if (move := move_of(study, column))]
    quality = _quality(study)
    nulls = nulls_of(study)
    numbers = {
        **_who(study), "quality": quality, "known": _known(study), "moves": moves,
        "trendless": trendless(study),
        "nulls": [asdict(null) for null in nulls],
        "null_draws": _null_draws(study), "least_draws": LEAST,
        "null": study.subject.null,
    }  # fmt: skip
    moved = bool(quality) or any(move["still"] != move["of"] for move in moves)
    return Finding(
        "changed",
        "moved" if moved else "still",
        numbers,
        "shape: turns beyond the noise of draws, or beyond what a smooth curve leaves",
    )


def trendless(study: StudyTables) -> bool:
    """Return whether the target is a loss without a level that should fall, as that of a policy."""
    if study.log is None or study.target not in ("loss", "heldout_loss"):
        return False
    runs = [rows for _, rows in study.log.judged.groupby("run") if study.target in rows]
    return bool(runs) and not any(objective_of(rows, study.target).has_trend for rows in runs)


def _moved(study: StudyTables) -> list[str]:
    return (
        study.leads(Use.CHANGE)
        or [column for column in study.labels.primary() if column in study.series.values][:4]
    )


def _who(study: StudyTables) -> dict[str, object]:
    groups = study.sizes
    sizes = [group.parameters for group in groups if group.parameters > 0]
    counts = study.series.values.groupby("run")["step"].agg(["count", "min", "max"])
    seeds = [len(group.runs) for group in groups] or [1]
    return {
        "runs": len(study.runs), "sizes": [short(n) for n in dict.fromkeys(sizes)],
        "seeds": [min(seeds), max(seeds)],
        "draws": _draws(study),
        "checkpoints": extent(counts["count"]), "steps": [int(counts["min"].min()), int(counts["max"].max())],
    }  # fmt: skip


def _draws(study: StudyTables) -> int:
    """Return how many random subsamples the leading columns are means over; 1 where nothing was drawn."""
    draws_by_column = study.series.catalogue.set_index("column")["draws"]
    return max(
        (int(draws_by_column[column]) for column in _moved(study) if column in draws_by_column), default=1
    )


def _known(study: StudyTables) -> bool:
    """Return whether the target has a value at any measured checkpoint."""
    values = study.series.values
    return study.target in values and bool(values[study.target].notna().any())


def _quality(study: StudyTables) -> dict[str, object] | None:
    column = study.target
    if not column or column not in study.series.values or trendless(study):
        return None
    ends = first_last(study.series, column)
    if ends.empty:
        return None
    first, last, label, unit = ends["first"], ends["last"], study.labels.label(column), ""
    if column in study.series.losses:
        first, last, (label, unit) = np.exp(first), np.exp(last), study.series.losses[column]
    rose = int((ends["last"] >= ends["first"]).sum())
    return {
        "label": label, "unit": unit, "ranges": _ranges(study, ends.assign(first=first, last=last)),
        "rose": rose, "of": len(ends),
    }  # fmt: skip


def move_of(study: StudyTables, column: str) -> dict[str, object] | None:
    """Return the shapes that a column had in its runs; None where no run has two values."""
    ends = first_last(study.series, column)
    if ends.empty:
        return None
    shapes = [
        _shape(study, column, *line) for line in zip(ends["run"], *_net(study, column, ends), strict=True)
    ]
    kinds = Counter(str(shape.kind) for shape in shapes)
    return {
        "column": column, "label": study.labels.label(column), "of": len(ends),
        "rose": kinds[Course.ROSE], "fell": kinds[Course.FELL],
        "still": kinds[Course.STILL] + kinds[Course.CONSTANT],
        "kinds": [list(pair) for pair in kinds.most_common()], "words": shapes[0].words(),
        "ranges": _ranges(study, ends) if set(kinds) <= {Course.ROSE, Course.FELL} else [],
    }  # fmt: skip


def _net(study: StudyTables, column: str, ends: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return each run's standard error of a value over draws, and whether its ends differ beyond noise."""
    noise, change = draw_noise(study.series, column, ends), ends["last"] - ends["first"]
    beyond = ends["run"].map(lambda run: beyond_scatter(study.series, column, run))
    return pd.Series(noise / np.sqrt(2.0)), (change.abs() > 2 * noise) & beyond


def _shape(study: StudyTables, column: str, run: str, drawn: float, clear: bool) -> CurveShape:
    """Return the shape of a column in a run; what has no turn may still have moved from end to end."""
    measured_rows = study.series.of_run(run)[["step", column]].dropna()
    shape = shape_of(measured_rows["step"], measured_rows[column], drawn=drawn)
    return (
        monotone(measured_rows["step"], measured_rows[column])
        if shape.kind is Course.STILL and clear
        else shape
    )


def _ranges(study: StudyTables, ends: pd.DataFrame) -> list[dict[str, object]]:
    """Return the first and last values of the runs for each family: a range over several says nothing."""
    families = families_of(study.series.runs)
    family = ends["run"].map(lambda run: families.get(run) or "unnamed")
    return [
        {
            "family": name,
            "first": extent(its["first"]),
            "last": extent(its["last"]),
            "ends": extent(its["last_step"]),
        }
        for name, its in ends.groupby(family, sort=True)
    ]


@dataclass(frozen=True, slots=True)
class BesideNull:
    """In how many sizes a feature's last value lies above and below the band of its null."""

    feature: str
    label: str
    above: int
    below: int
    sizes: int
    ratio: float
    """Median over sizes of the measured value over the null's mean."""


def nulls_of(study: StudyTables) -> list[BesideNull]:
    """Return the comparison of every leading feature with its null, at the last checkpoint."""
    comparisons = [_beside(study, label, column, null) for label, column, null in _beside_their_nulls(study)]
    return [comparison for comparison in comparisons if comparison is not None]


def _null_draws(study: StudyTables) -> int:
    """Return how many draws the leading nulls have at most; a band takes `LEAST` of them."""
    return max(
        (
            int(null_band(null, group.runs)["draws"].max())
            for _, _, null in _beside_their_nulls(study)
            for group in study.sizes
            if null["run"].isin(group.runs).any()
        ),
        default=0,
    )


def _beside_their_nulls(study: StudyTables) -> list[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Return the column, the measured rows and the rows of the null of every leading feature that has one."""
    if "probe" not in study.features:
        return []
    lines = {str(line["column"]): line for line in study.series.catalogue.to_dict("records")}
    of = {str(line["null_of"]): column for column, line in lines.items()}
    leading = [(column, of[column]) for column in study.leads(Use.NULL) if column in of]
    return [
        (column, of_column(study.whole, lines[column]), of_column(study.whole, lines[null]))
        for column, null in leading
    ]


def _beside(
    study: StudyTables, column: str, measured: pd.DataFrame, nulls: pd.DataFrame
) -> BesideNull | None:
    above = below = n = 0
    ratios = []
    values = over_draws(measured)
    for group in study.sizes:
        line, null = curve(values, group.runs), null_band(nulls, group.runs)
        both = line.merge(null, on="step", suffixes=("", "_null")).dropna(subset=["low_null", "high_null"])
        if both.empty:
            continue
        last = both.iloc[-1]
        n += 1
        above += bool(last["mean"] > last["high_null"])
        below += bool(last["mean"] < last["low_null"])
        ratios.append(float(last["mean"] / last["mean_null"]) if last["mean_null"] else np.nan)
    if not n:
        return None
    feature = column.rpartition("/")[2]
    finite = [ratio for ratio in ratios if np.isfinite(ratio)]
    ratio = float(np.median(finite)) if finite else float("nan")
    return BesideNull(feature, study.labels.label(column), above, below, n, ratio)
