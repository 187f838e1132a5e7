"""The verdict on deep graph persistence over a study's runs: what it says beyond the drift and its null."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from toposcope.core.types import Feature, Role, Scope
from toposcope.studies.measuring import measured
from toposcope.studies.sections import Section
from toposcope.study import SeriesTable, family_table, lag_table, series_table
from toposcope.study.catalogue import column_key
from toposcope.subjects import weight_probes
from toposcope.subjects.weights import (
    DEEP,
    DEEP_EXCESS,
    DEEP_PERSISTENCE,
    DEEP_SPREAD,
    PERSISTENCE,
    WeightOptions,
)
from toposcope.subjects.weights import NEURAL_PERSISTENCE as NEURAL

if TYPE_CHECKING:
    from toposcope.sources import Series

LEVEL = 0.05
"""The conventional level of a test."""
_BY_MATRIX = "seed004"
"""Neural persistence in units of each matrix's largest weight, as the weight-space paper has it."""


def _deep(feature: Feature, role: str = "") -> str:
    scope = Scope.ROLE if role else Scope.MODEL
    return column_key(probe=DEEP_PERSISTENCE, feature=feature.name, scope=scope, role=role)


COLUMNS = {
    _deep(DEEP): "deep graph persistence",
    _deep(DEEP_EXCESS): "deep graph persistence − shuffled",
    _deep(DEEP, Role.MLP): "of up and down",
    _deep(DEEP, Role.ATTENTION): "of value and output",
    column_key(probe=NEURAL, filtration=_BY_MATRIX, feature=PERSISTENCE.name): "neural persistence",
}
"""The columns that are judged: the mean over pairs, its excess, two kinds of pairs, and what it repairs."""


def measure(series: Series, store: Path | None, *, jobs: int = 1, quiet: bool = False) -> SeriesTable:
    """Measure deep graph persistence, its null and neural persistence at every checkpoint."""
    options = WeightOptions(confounds=False)
    probes = weight_probes([DEEP_PERSISTENCE, NEURAL], options)
    with measured(series, probes, store, recipe=options.recipe(), jobs=jobs, quiet=quiet) as kept:
        return series_table(kept.features(), kept.metrics(), kept.runs())


def section(table: SeriesTable) -> Section:
    """Return a row for each quantity: how it moves, beside its null, and what is left beyond the drift."""
    target = "heldout_loss" if "heldout_loss" in table.targets else "loss"
    columns = [column for column in COLUMNS if column in table.values]
    verdict_table = family_table(table, targets=[target], columns=columns)
    verdicts = {str(line["column"]): line for line in verdict_table.to_dict("records")}
    leads = lag_table(table, targets=[target], columns=columns)
    rows = [
        (
            COLUMNS[column],
            *_course(table, column, target),
            *(float(verdicts[column][name]) for name in ("r", "p_holm")),
            str(verdicts[column]["verdict"]),
            float(verdicts[column]["detectable_r"]),
            _first(leads[leads["column"] == column]),
        )
        for column in columns
    ]
    line = verdicts.get(_deep(DEEP))
    judged = "no two matrices compose" if line is None else str(line["verdict"])
    return Section(
        f"Deep graph persistence, the repair of neural persistence: {judged}",
        ("quantity", "first", "last", "rho with the loss", "r of innovations", "p, Holm", "verdict",
         "r found in 80%", "moves first in"),
        tuple(rows),
        "First and last are means over the runs. Deep graph persistence (Girrbach et al. 2023) is that of "
        "matrices that compose, each standardised. Shuffled: each matrix permuted alone. "
        f"{_beside_null(table)}The target is the {target.replace('heldout_loss', 'held-out loss')}. Rho is "
        "Spearman's over a run's checkpoints. The verdict is on innovations, what a smooth trend and a "
        "series' own past do not explain, over all runs together. This design would find the r beside it in "
        "80% of cases. Moves first: runs in which its innovations precede those of the loss "
        f"(p < {LEVEL:g}); by chance one in twenty.",
    )  # fmt: skip


def _beside_null(table: SeriesTable) -> str:
    """Say what the shuffles and the spread explain, and where the last checkpoints stand beside them."""
    deep, excess, spread = _deep(DEEP), _deep(DEEP_EXCESS), _deep(DEEP_SPREAD)
    if excess not in table.values:
        return ""
    frames = [table.of_run(run)[[deep, excess, spread]].dropna() for run in table.run_names]
    null = [explained(frame[deep] - frame[excess], frame[deep]) for frame in frames]
    simple = [explained(frame[spread], frame[deep]) for frame in frames]
    ends = [frame.iloc[-1] for frame in frames if len(frame)]
    below = sum(end[excess] < 0 for end in ends)
    share = float(np.median([abs(end[excess]) / end[deep] for end in ends]))
    return (
        f"Over a run, the shuffles explain R2 {_range(null)} of it, and "
        f"the standard deviation over the largest weight {_range(simple)}. "
        f"At the end the order of the weights is {100 * share:.1f}% of it (median), and it is below its "
        f"shuffles in {below} of {len(ends):,} runs. "
    )


def _range(values: Sequence[float], form: str = ".2f") -> str:
    """Return the smallest and the largest number, or the one if they print alike; "" for none.

    >>> _range([0.5, 0.75]), _range([0.5])
    ('0.50 to 0.75', '0.50')
    """
    ends = [f"{end(values):{form}}" for end in (np.nanmin, np.nanmax)] if len(values) else []
    return " to ".join(dict.fromkeys(ends))


def explained(x: pd.Series, y: pd.Series) -> float:
    """Return the squared correlation; NaN for fewer than three values or a constant.

    >>> explained(pd.Series([1.0, 2.0, 4.0]), pd.Series([2.0, 4.0, 8.0]))
    1.0
    """
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan
    return float(np.corrcoef(x, y)[0, 1] ** 2)


def _course(table: SeriesTable, column: str, target: str) -> tuple[float, float, str]:
    """Return the mean first and last value, and the range of the correlation with the loss."""
    frames = [table.of_run(run)[["step", column, target]].dropna() for run in table.run_names]
    rho = [float(spearmanr(frame[column], frame[target]).statistic) for frame in frames if len(frame) > 2]
    first, last = (float(np.mean([frame[column].iloc[at] for frame in frames])) for at in (0, -1))
    return first, last, _range(rho, "+.2f")


def _first(leads: pd.DataFrame) -> str:
    p = leads["lead_p"].dropna().to_numpy(float)
    return f"{int((p < LEVEL).sum())} of {len(p):,}"
