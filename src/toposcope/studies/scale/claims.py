"""The paper's ten claims on these sizes, and two about the repair that its critics propose."""

from __future__ import annotations

import math

import numpy as np

from toposcope.studies.claims import Claim, Standing, beyond_drift, of_verdict
from toposcope.studies.scale.series import DEEP, DEEP_EXCESS, ScaleRuns
from toposcope.studies.seed004.claims import claims as of_paper
from toposcope.studies.seed004.seeds import mean_interval, shown

_CRITICS = "Girrbach et al. 2023"


def claims(runs: ScaleRuns) -> list[Claim]:
    """Return the paper's claims, judged as those of its own sizes are, then those about the repair."""
    paper = of_paper(runs.across, runs.of_equal_length.across)
    return paper if DEEP not in runs.further else [*paper, _deep_follows(runs), _deep_is_more(runs)]


def _deep_follows(runs: ScaleRuns) -> Claim:
    rho = runs.rho(DEEP)
    line = runs.verdicts.loc[[DEEP]].to_dict("records")[0]
    return Claim(
        text="Deep graph persistence of the MLPs moves with the loss, with one sign in every run",
        source=f"{_CRITICS}: the repair",
        here=f"rho {rho.min():+.2f} to {rho.max():+.2f} in {len(rho):,} run{'s' * (len(rho) != 1)}",
        statistic=beyond_drift(line),
        judgement=of_verdict(bool((rho < 0).all() or (rho > 0).all()), str(line["verdict"])),
    )


def _deep_is_more(runs: ScaleRuns) -> Claim:
    """Judge whether shuffling changes it in every run, then whether what it changes follows the loss."""
    matrices = runs.of_matrices
    shares = matrices.loc[matrices["role"] == "mlp"].groupby("run", sort=False)["share"]
    intervals = [mean_interval(share) for _, share in shares]
    line = runs.verdicts.loc[[DEEP_EXCESS]].to_dict("records")[0]
    few = any(math.isnan(low) for _, low, _ in intervals)
    more = all(low > 0 for _, low, _ in intervals) or all(high < 0 for *_, high in intervals)
    means = 100 * np.array([mean for mean, *_ in intervals])
    return Claim(
        text="Deep graph persistence is more than that of the same factors shuffled",
        source=_CRITICS,
        here=f"shuffling changes the last value by {means.min():+.1f} to {means.max():+.1f}%",
        statistic=f"what shuffling takes away, {beyond_drift(line)}",
        judgement=Standing.UNTESTED if few else of_verdict(more, str(line["verdict"])),
    )


def size_text(runs: ScaleRuns, role: str | None, key: str, *, percent: bool = False) -> str:
    """Return the mean over the matrices, or over the MLPs, of all seeds, with its interval."""
    matrices = runs.of_matrices
    mine = matrices["role"] == "mlp" if role == "mlp" else matrices["role"] != "mlp"
    values = matrices.loc[mine, key].dropna()
    if values.empty:
        return ""
    return shown(100 * values, "+.1f") if percent else shown(values, ".2f")
