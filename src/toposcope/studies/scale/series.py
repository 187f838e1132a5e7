"""The rows as series: the paper's features under their names, and what they are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from toposcope.published.forecast_rules import NEURAL_PERSISTENCE
from toposcope.studies.scale.families import FinishedRun
from toposcope.studies.seed004.runs import H0, H1, MeasuredRuns
from toposcope.studies.seed004.seeds import AcrossSeeds
from toposcope.study import from_frame
from toposcope.study.trends.verdicts import family_table

_PAPER = {"neural_persistence": NEURAL_PERSISTENCE, "h0_total": H0, "h1_total": H1}
DEEP, DEEP_EXCESS, EXCESS = "deep", "deep_excess", "excess"
FURTHER = {
    DEEP: "deep graph persistence",
    DEEP_EXCESS: "deep graph persistence less that of shuffled factors",
    EXCESS: "neural persistence less that of shuffled weights",
    "spread": "std of |w| / max",
    "h0_total_free": "H0 total, bars of any length",
    "mean_distance": "mean distance of two rows",
}
"""What is tested beside the paper's three features."""
_LOSSES = ["loss", "loss_smooth", "heldout_loss"]
_OF_RUN = ["run", "parameters", "seed", "corpus"]


@dataclass(frozen=True)
class ScaleRuns:
    """The finished runs as series: `across` judges them as seed004's; `rows` and `matrices` are as read."""

    rows: pd.DataFrame
    matrices: pd.DataFrame

    @classmethod
    def of(cls, runs: Sequence[FinishedRun]) -> ScaleRuns:
        """Join the rows of runs, smallest size first."""
        rows = pd.DataFrame([row for run in runs for row in run.rows])
        rows = rows.sort_values(["parameters", "seed", "step"], kind="stable").reset_index(drop=True)
        return cls(
            rows.assign(
                deep_excess=rows["deep"] - rows["deep_shuffled"] if "deep" in rows else np.nan,
                excess=rows["neural_persistence"] - rows["neural_persistence_shuffled"],
            ),
            pd.DataFrame([row for run in runs for row in run.matrices]),
        )

    @cached_property
    def models(self) -> dict[int, str]:
        """The name of each size, smallest first."""
        return dict(zip(self.rows["parameters"].astype(int), self.rows["model"].astype(str), strict=True))

    @cached_property
    def further(self) -> list[str]:
        """The columns beside the paper's features that every run has."""
        return [name for name in FURTHER if name in self.rows and self.rows[name].notna().all()]

    @cached_property
    def across(self) -> AcrossSeeds:
        """The runs of all sizes and seeds."""
        runs = self.rows[_OF_RUN].drop_duplicates("run").reset_index(drop=True)
        frame = self.rows.rename(columns=_PAPER)
        table = from_frame(frame, features=[*_PAPER.values(), *self.further], targets=_LOSSES, runs=runs)
        sizes = {str(run): int(size) for run, size in zip(runs["run"], runs["parameters"], strict=True)}
        return AcrossSeeds(MeasuredRuns(table, table, pd.DataFrame(), {}, pd.DataFrame(), table, sizes))

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """The test on innovations of what is beside the paper's features: a row per column."""
        table = self.across.measured.replicates
        return family_table(table, targets=[self.across.target], columns=self.further).set_index("column")

    @cached_property
    def of_equal_length(self) -> ScaleRuns:
        """The runs of the most steps: a shortened run says nothing about its size beside them."""
        return self._of(self.rows["steps"] == self.rows["steps"].max())

    def of_size(self, size: int) -> ScaleRuns:
        """Return the runs of one size."""
        return self._of(self.rows["parameters"] == size)

    def _of(self, mine: pd.Series) -> ScaleRuns:
        rows = self.rows[mine].reset_index(drop=True)
        return ScaleRuns(rows, self.matrices[self.matrices["run"].isin(rows["run"])])

    def rho(self, column: str, target: str = "loss") -> np.ndarray:
        """Return Spearman's correlation over the checkpoints of each run."""
        return np.array(
            [
                float(spearmanr(run[column], run[target]).statistic)
                for _, run in self.rows.groupby("run", sort=False)
            ]
        )

    @cached_property
    def ends(self) -> pd.DataFrame:
        """The last checkpoint of each run."""
        return self.rows.groupby("run", sort=False).tail(1)

    @cached_property
    def of_matrices(self) -> pd.DataFrame:
        """What holds of each matrix over training, and at its end: a row per run and matrix.

        Columns: role, r2 (of neural persistence with the spread of its weights), r2_shuffled (of that of
        shuffled weights), share (of the last neural persistence that shuffling takes away, signed).
        """
        tables = []
        for (run, matrix), part in self.matrices.groupby(["run", "matrix"], sort=False):
            measured, shuffled, spread = (
                part[name].to_numpy(float) for name in ("neural_persistence", "shuffled", "spread")
            )
            tables.append(
                {
                    "run": run,
                    "matrix": matrix,
                    "role": part["role"].iloc[0],
                    "r2": _squared(measured, spread),
                    "r2_shuffled": _squared(measured, shuffled),
                    "share": 1.0 - shuffled[-1] / measured[-1] if measured[-1] else np.nan,
                }
            )
        return pd.DataFrame(tables)


def _squared(x: np.ndarray, y: np.ndarray) -> float:
    if not (np.isfinite(x).all() and np.isfinite(y).all() and np.ptp(x) > 0 and np.ptp(y) > 0):
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1] ** 2)
