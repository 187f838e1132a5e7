"""Table 8 and Figure 7 of the weight-space paper, for a series of models of the shape of Pythia-14m."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.core.types import Feature, Kind, Matrix, Role
from toposcope.sources import open_series
from toposcope.store import over_draws
from toposcope.studies.measuring import measured
from toposcope.studies.sections import Section
from toposcope.studies.seed004.runs import printed
from toposcope.subjects import Cost, Label, Measured, Probe, Snapshot
from toposcope.topology import neural_persistence, pooled_rows, rips, summaries

ROWS, COLUMNS, POINTS, THRESH = 50, 64, 200, 2.0
"""The paper's: rows and columns taken of each matrix, points of the cloud, and the longest edge."""
DRAWS = 20
"""Random subsamples that are averaged; the paper drew one."""
PROBE = "pythia14m"
MODEL = Label("model")
FEATURES = (
    Feature("neural_persistence", "neural persistence"),
    Feature("neural_persistence_std", "neural persistence, sd over matrices", kind=Kind.NOISE),
    Feature("h0_total", "H0 total (corners)", "weight"),
)


@dataclass(frozen=True)
class Table8(Probe):
    """The paper's two quantities for one checkpoint.

    `neural_persistence` and `neural_persistence_std`: mean and population standard deviation over the
    matrices of the blocks, each divided by its own largest weight. `h0_total`: the first 50 rows and 64
    columns of each of those matrices are pooled, 200 points are drawn `draws` times, and bars above 2.0 are
    dropped; one row per draw.
    """

    draws: int = DRAWS
    name: str = PROBE
    cost = Cost.COSTLY
    features: tuple[Feature, ...] = field(default=FEATURES, repr=False)

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the rows of one checkpoint."""
        values, corners, at = [], [], snapshot.checkpoint
        for matrix in snapshot.matrices():
            if _in_a_block(matrix):
                values.append(neural_persistence(matrix.values, convention="seed004"))
                corners.append(np.asarray(matrix.values[:ROWS, :COLUMNS], dtype=np.float32))
        if not values:
            raise InputError(f"{at.uri} has no matrix in an attention or MLP block")
        moments = {
            "neural_persistence": float(np.mean(values)),
            "neural_persistence_std": float(np.std(values)),
        }
        rows = MODEL.rows(at, self.name, moments)
        cloud = pooled_rows(corners)
        for draw in range(self.draws):
            generator = rng(purpose="table 8", step=at.step, draw=draw)
            chosen = np.sort(generator.choice(len(cloud), min(POINTS, len(cloud)), replace=False))
            h0 = rips(cloud[chosen], maxdim=0, thresh=THRESH)[0]
            rows += MODEL.rows(at, self.name, {"h0_total": summaries(h0)["total"]}, draw=draw)
        return Measured(rows)


def measure(
    uri: str,
    *,
    revisions: str | None = None,
    draws: int = DRAWS,
    store: Path | None = None,
    quiet: bool = False,
) -> pd.DataFrame:
    """Return the features table of `Table8` for a series; with `store` it is kept there.

    Raises
    ------
    InputError
        When the series has more than one run, or a checkpoint could not be measured.
    """
    series = open_series(uri, revisions=revisions, split="whole")
    if len(series.runs) != 1:
        raise InputError(
            f"{uri} has {len(series.runs):,} runs, but Table 8 needs the series of one model; give one run"
        )
    recipe = {"probe": PROBE, "draws": draws}
    with measured(series, [Table8(draws)], store, recipe=recipe, quiet=quiet) as measurements:
        return measurements.features(PROBE)


def _in_a_block(matrix: Matrix) -> bool:
    return matrix.layer is not None and matrix.role in (Role.ATTENTION, Role.MLP)


def table(features: pd.DataFrame) -> Section:
    """Return Table 8: the paper's rows beside this series' rows at the same steps, and its other steps."""
    means = over_draws(features, ["step", "feature"])
    wide = means.pivot(index="step", columns="feature", values=["value", "sd"])
    stated = {int(row[0]): row[1:] for row in printed()["pythia"]["rows"]}
    rows = []
    for step, row in wide.iterrows():
        paper = stated.get(int(step), (None, None, None))  # type: ignore[call-overload]
        rows.append(
            (
                int(step),  # type: ignore[call-overload]
                paper[0], float(row["value", "neural_persistence"]),
                paper[1], float(row["value", "neural_persistence_std"]),
                paper[2], float(row["value", "h0_total"]), float(row["sd", "h0_total"]),
            )
        )  # fmt: skip
    columns = ("step", "NP: paper", "NP", "sd: paper", "sd", "H0: paper", "H0", "sd over draws")
    first, last = wide["value"].iloc[0], wide["value"].iloc[-1]
    change = 100.0 * (last["neural_persistence"] / first["neural_persistence"] - 1.0)
    shrink = 100.0 * (last["h0_total"] / first["h0_total"] - 1.0)
    note = (
        f"From the first to the last step neural persistence changed by {change:+.0f}% (paper: +88%) "
        f"and H0 by {shrink:+.0f}% (paper: -35%). This is one run of one size; another may differ."
    )
    return Section("Table 8: Pythia-14m", columns, tuple(rows), note)


def figure(features: pd.DataFrame) -> Figure:
    """Draw Figure 7: neural persistence and H0 total persistence against the step."""
    from toposcope.subjects.representations import TrajectoryPanel, draw

    panels = (
        TrajectoryPanel("neural_persistence", "Mean neural persistence"),
        TrajectoryPanel("h0_total", "H0 total persistence", "distance"),
    )
    runs = pd.DataFrame({"run": features["run"].unique(), "family": "", "parameters": 0})
    return draw(features, runs, panels, probe=PROBE)
