"""The weight-space paper across seeds: how its numbers vary from seed to seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.stats import binomtest, spearmanr

from toposcope.core.distributions import student_quantile
from toposcope.published.forecast_rules import CONTROLS, METHODS, NEURAL_PERSISTENCE, OTHERS, error_table
from toposcope.published.phase_rules import phase_table
from toposcope.scaling import fit_power_law
from toposcope.statistics.correlations import holm
from toposcope.studies.sections import Section
from toposcope.studies.seed004.runs import H0, H1, MeasuredRuns, printed
from toposcope.study.trends.lags import lag_table
from toposcope.study.trends.replicates import POOLED, replicate_table
from toposcope.study.trends.verdicts import family_table

FEATURES = {NEURAL_PERSISTENCE: "neural persistence", H0: "H0 total", H1: "H1 total"}
PRINTED = {NEURAL_PERSISTENCE: "np", H0: "h0", H1: "h1"}
LEVEL = 0.05
"""The conventional level of a test."""


def mean_interval(values: Sequence[float] | np.ndarray | pd.Series) -> tuple[float, float, float]:
    """Return the mean over seeds with Student's 95% interval; its ends are NaN for one seed.

    >>> [round(end, 2) for end in mean_interval([1.0, 2.0, 3.0])]
    [2.0, -0.48, 4.48]
    """
    finite = np.asarray(values, float)
    half = math.nan
    if len(finite) > 1:
        half = float(student_quantile(0.975, len(finite) - 1) * finite.std(ddof=1) / math.sqrt(len(finite)))
    return float(finite.mean()), float(finite.mean() - half), float(finite.mean() + half)


def shown(values: Sequence[float] | np.ndarray | pd.Series, form: str = ".3f") -> str:
    """Return the mean over seeds and its interval as text."""
    mean, low, high = mean_interval(values)
    if math.isnan(low):
        return f"{mean:{form}}"
    return f"{mean:{form}} [{low:{form}}, {high:{form}}]"


def shown_rho(values: Sequence[float] | np.ndarray) -> str:
    """Return the mean correlation over seeds and its interval, clipped to [-1, 1], as text.

    >>> shown_rho([0.9, 1.0])
    '+0.95 [+0.31, +1.00]'
    """
    mean, *ends = mean_interval(values)
    if len(values) < 2:
        return f"{mean:+.2f}"
    low, high = np.clip(ends, -1.0, 1.0)
    return f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]"


@dataclass(frozen=True)
class AcrossSeeds:
    """The runs of all seeds, and the tests over them."""

    measured: MeasuredRuns

    @cached_property
    def groups(self) -> dict[int, list[str]]:
        """The runs of each size, smallest size first, in the order of their seeds."""
        runs = self.measured.replicates.runs
        seed = dict(zip(runs["run"], runs["seed"], strict=True)) if "seed" in runs else {}
        groups: dict[int, list[str]] = {}
        sizes = self.measured.sizes
        for run in sorted(sizes, key=lambda run: (sizes[run], seed.get(run, 0))):
            groups.setdefault(sizes[run], []).append(run)
        return groups

    @cached_property
    def target(self) -> str:
        """The loss that the tests use: the held-out loss if the runs keep it."""
        return "heldout_loss" if "heldout_loss" in self.measured.replicates.targets else "loss"

    @property
    def seeds(self) -> int:
        """How many seeds every size has."""
        return min(len(runs) for runs in self.groups.values())

    @cached_property
    def families(self) -> list[list[str]]:
        """The first run of every size, the second of every size, ..."""
        return [[runs[i] for runs in self.groups.values()] for i in range(self.seeds)]

    @cached_property
    def rho(self) -> pd.DataFrame:
        """Spearman's correlation of each feature with the minibatch loss: a row per run."""
        rows = {}
        for run in self.measured.sizes:
            frame = self.measured.replicates.of_run(run)
            rows[run] = {
                column: float(spearmanr(frame[column], frame["loss"]).statistic) for column in FEATURES
            }
        return pd.DataFrame(rows).T

    @cached_property
    def ends(self) -> pd.DataFrame:
        """The last checkpoint of each run."""
        table = self.measured.replicates
        return pd.DataFrame({run: table.of_run(run).iloc[-1] for run in self.measured.sizes}).T

    @cached_property
    def pairings(self) -> pd.DataFrame:
        """Whether a feature follows its own run's loss best, over all sizes at once: a row per feature."""
        table = replicate_table(self.measured.replicates, targets=[self.target], columns=list(FEATURES))
        family = POOLED if (table["family"] == POOLED).any() else table["family"].iloc[0]
        return table[table["family"] == family].set_index("column")

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """The test on innovations over all runs: a row per feature."""
        verdict_table = family_table(self.measured.replicates, targets=[self.target], columns=list(FEATURES))
        return verdict_table.set_index("column")

    @cached_property
    def leads(self) -> pd.DataFrame:
        """In how many runs a feature moves before the loss, against 5% by chance: a row per feature."""
        table = lag_table(self.measured.replicates, targets=[self.target], columns=list(FEATURES))
        rows = []
        for column, mine in table.groupby("column", sort=False):
            p = mine["lead_p"].dropna().to_numpy(float)
            first = int((p < LEVEL).sum())
            chance = float(binomtest(first, len(p), LEVEL, "greater").pvalue) if len(p) else math.nan
            rows.append({"column": column, "first": first, "runs": len(p), "p": chance})
        out = pd.DataFrame(rows).set_index("column")
        return out.assign(p_holm=holm(out["p"].to_numpy(float)))

    @cached_property
    def exponents(self) -> pd.DataFrame:
        """The exponents of the power laws with the size: a row per seed."""
        return self.laws.map(lambda law: law.exponent)

    def exponent(self, column: str) -> tuple[float, float, float]:
        """Return the mean exponent with its 95% interval: over seeds, or of one seed over the sizes."""
        if len(self.families) > 1:
            return mean_interval(self.exponents[column])
        law = self.laws[column].iloc[0]
        return law.exponent, law.low, law.high

    @cached_property
    def laws(self) -> pd.DataFrame:
        """The power laws with the size: a row per seed, a column per quantity."""
        sizes = np.array(list(self.groups), float)
        columns = list(dict.fromkeys(["loss", self.target, *FEATURES]))
        return pd.DataFrame(
            [
                {name: fit_power_law(sizes, self.ends.loc[runs, name].to_numpy(float)) for name in columns}
                for runs in self.families
            ]
        )

    @cached_property
    def errors(self) -> pd.DataFrame:
        """The mean errors of the paper's rules over the sizes: a row per share and seed."""
        seed = {run: i for i, runs in enumerate(self.families) for run in runs}
        errors = error_table(self.measured.replicates).reset_index()
        errors["seed"] = errors["run"].map(seed)
        return errors.dropna(subset="seed").drop(columns="run").groupby(["fraction", "seed"]).mean()

    @cached_property
    def diminishing(self) -> pd.Series:
        """The step of diminishing returns of each run, by the paper's code; NaN if there is none."""
        table = phase_table(self.measured.replicates, columns=[NEURAL_PERSISTENCE])
        return table[table["rule"] == "coded"].set_index("run")["diminishing_step"].astype(float)


def tables(across: AcrossSeeds) -> list[Section]:
    """Return the paper's tables as means over seeds."""
    return [_losses(across), _correlations(across), _beyond(across), _laws(across), _forecasts(across)]


def _model(across: AcrossSeeds, size: int) -> dict[str, str]:
    return dict(printed()["models"][str(size)])


def _losses(across: AcrossSeeds) -> Section:
    rows = []
    for size, runs in across.groups.items():
        last, paper = across.ends.loc[runs, "loss"].to_numpy(float), _model(across, size)
        held = across.ends.loc[runs, across.target].to_numpy(float)
        inside = last.min() <= float(paper["loss"]) <= last.max()
        rows.append((
            paper["name"], size, len(runs), paper["loss"], shown(last), f"{last.std(ddof=1):.3f}",
            shown(held), f"{held.std(ddof=1):.4f}", "inside the seeds" if inside else "outside the seeds",
        ))  # fmt: skip
    return Section(
        "Table 1 across seeds",
        ("model", "parameters", "seeds", "loss: paper", "minibatch loss", "sd", "held-out loss", "its sd",
         "the paper's value"),
        tuple(rows),
        "Means over seeds with Student's 95% intervals. The paper's loss is that of one minibatch and one "
        "seed, with another order of the same text.",
    )  # fmt: skip


def _correlations(across: AcrossSeeds) -> Section:
    rows = []
    for column, label in FEATURES.items():
        for size, runs in across.groups.items():
            stated = printed()[PRINTED[column]][str(size)]["rho"]
            rho = across.rho.loc[runs, column].to_numpy(float)
            rows.append((
                label, _model(across, size)["name"], stated, shown_rho(rho),
                f"{rho.min():+.2f} to {rho.max():+.2f}",
                "inside the seeds" if rho.min() <= float(stated) <= rho.max() else "outside the seeds",
            ))  # fmt: skip
    return Section(
        "Tables 2 to 4 across seeds",
        ("feature", "model", "rho: paper", "mean over seeds", "range", "the paper's value"),
        tuple(rows),
        "Spearman's correlation with the minibatch loss over the checkpoints of a run. It shows how well "
        "both follow the step; the next table shows what is left beyond that.",
    )


def _beyond(across: AcrossSeeds) -> Section:
    rows = []
    for column, label in FEATURES.items():
        verdict, pairing, lead = (
            table.loc[[column]].to_dict("records")[0]
            for table in (across.verdicts, across.pairings, across.leads)
        )
        rows.append((
            label, float(verdict["r"]), float(verdict["p_holm"]), str(verdict["verdict"]),
            float(pairing["own_minus_other"]), float(pairing["pairing_holm"]),
            f"{int(lead['first'])} of {int(lead['runs'])}", float(lead["p_holm"]),
        ))  # fmt: skip
    return Section(
        "Beyond the drift, over all seeds",
        ("feature", "r of innovations", "p, Holm", "verdict", "own loss minus another seed's", "p, Holm ",
         "moves first in", "p, Holm  "),
        tuple(rows),
        "The target is the held-out loss. Innovations are what a smooth trend and a series' own past do not "
        "explain; one test over all runs. Own minus other: whether a feature follows its own run's loss more "
        "than that of another seed of the same size, over all sizes, tested against all pairings. Moves "
        "first: runs in which the feature's innovations precede those of the loss (p < .05, corrected for "
        "choosing the best lead); by chance 5% would.",
    )  # fmt: skip


def _laws(across: AcrossSeeds) -> Section:
    stated = {"loss": "loss", **PRINTED}
    rows = []
    for column, label in {
        "loss": "final minibatch loss",
        "heldout_loss": "final held-out loss",
        **FEATURES,
    }.items():
        if column not in across.exponents:
            continue
        values = across.exponents[column].to_numpy(float)
        paper = (
            printed()["scaling"][stated[column]]["exponent"] if column in stated and column != H1 else None
        )
        rows.append((label, paper, shown(values), f"{values.std(ddof=1):.4f}" if len(values) > 1 else None))
    return Section(
        "Table 7 across seeds",
        ("quantity", "exponent: paper", "mean over seeds", "sd"),
        tuple(rows),
        "A straight line in log-log through the sizes, one for each seed. The spread over seeds does not "
        "include how far the sizes are from a line.",
    )


def _forecasts(across: AcrossSeeds) -> Section:
    rows = []
    loss_only, _, combined, _ = METHODS
    shown_methods = (*METHODS, OTHERS)
    for fraction, mine in across.errors.groupby("fraction"):
        gain = 100 * (1 - mine[combined] / mine[loss_only])
        rows.append((
            f"{float(str(fraction)):.0%}",
            *(shown(mine[name], ".4f") for name in shown_methods),
            shown(gain, "+.1f"),
            *(shown(100 * (1 - mine[combined] / mine[name]), "+.1f") for name in CONTROLS),
        ))  # fmt: skip
    return Section(
        "Table 5 across seeds",
        ("after", *shown_methods, "gain over loss-only, %",
         *(f"gain over {name}, %" for name in CONTROLS.values())),
        tuple(rows),
        "Mean absolute errors over the sizes, then means over seeds with Student's 95% intervals. The "
        "controls use the last loss seen, or the neural persistence of the other runs, instead of the run's "
        "own neural persistence.",
    )  # fmt: skip
