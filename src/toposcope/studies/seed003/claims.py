"""The embedding report's claims, judged on its own rows or on a measured series."""

from __future__ import annotations

import pandas as pd

from toposcope.studies.claims import Claim, Standing, holds, of_verdict
from toposcope.studies.seed003.report import SPECTRUM, printed
from toposcope.study import from_frame, segment_table

ENTROPY, COUNT, TOTAL = "h1_persistence_entropy", "h1_n_features", "h1_total_persistence"
_STRONG = 0.84
"""The size of the correlation that the report states for its two best features."""
_LEVEL = 0.05
"""The conventional level of a test."""


def claims(rows: pd.DataFrame, trends: pd.DataFrame) -> list[Claim]:
    """Return the report's claims, judged; `trends` is the test on innovations of the log perplexity."""
    return [
        _evolve(rows),
        _grows(rows),
        _strong(trends),
        _outperforms(trends),
        _spectrum_fails(trends),
        _constant(trends),
        _phases(rows),
        _sizes(rows),
        _starts(rows),
        _rates(),
    ]


def _ends(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the first and the last value of every run."""
    ordered = rows.sort_values("step").groupby("run", sort=False)[column]
    return pd.DataFrame({"first": ordered.first(), "last": ordered.last()})


def _evolve(rows: pd.DataFrame) -> Claim:
    count, total = _ends(rows, COUNT), _ends(rows, TOTAL)
    fewer = int((count["last"] < count["first"]).sum())
    longer = int((total["last"] > total["first"]).sum())
    return Claim(
        text="Training leads to fewer loops that last longer",
        source="128 to 73-90 loops, total 22-42 to 56-72",
        here=f"fewer in {fewer} of {len(count):,} runs, a larger total in {longer}",
        statistic="first against last checkpoint of every run",
        judgement=holds(fewer == longer == len(count)),
    )


def _grows(rows: pd.DataFrame) -> Claim:
    collapsed = printed()["phases"]["collapse"][1]
    late = rows[rows["step"] >= collapsed].sort_values("step")
    risen = [values.diff().dropna() > 0 for _, values in late.groupby("run", sort=False)[TOTAL]]
    risen = [rises for rises in risen if len(rises)]
    share = [float(rises.mean()) for rises in risen]
    always = sum(bool(rises.all()) for rises in risen)
    return Claim(
        text="After the collapse the total of H1 grows at every checkpoint",
        source="monotonically, in all models",
        here=f"at every checkpoint from step {collapsed:,} in {always} of {len(risen):,} runs"
        if risen
        else f"no run has two checkpoints from step {collapsed:,} on",
        statistic=f"grows at {min(share):.0%} to {max(share):.0%} of a run's checkpoints" if risen else "",
        judgement=holds(always == len(risen)) if risen else Standing.UNTESTED,
    )


def _strength(trends: pd.DataFrame, column: str) -> float:
    """Return the mean over runs of the absolute value of a feature's rank correlation."""
    return float(trends.loc[trends["column"] == column, "spearman"].abs().mean())


def _strong(trends: pd.DataFrame) -> Claim:
    mine = trends[trends["column"].isin((ENTROPY, COUNT))]
    verdicts = mine["verdict"]
    counted = verdicts.value_counts()
    verdict = "adds" if 2 * int((verdicts == "adds").sum()) > len(mine) else "trend only"
    if (verdicts == "cannot tell").all():
        verdict = "cannot tell"
    means = [_strength(trends, column) for column in (ENTROPY, COUNT)]
    partial = mine["partial_step"].dropna()
    given = f"given the step {partial.min():+.2f} to {partial.max():+.2f}; " if len(partial) else ""
    return Claim(
        text="H1 entropy and the number of loops predict the perplexity",
        source="mean |rho| 0.852 and 0.857, p < 1e-5",
        here=f"mean |rho| {means[0]:.3f} and {means[1]:.3f}",
        statistic=given + ", ".join(f"{number} {name}" for name, number in counted.items()),
        judgement=of_verdict(min(means) > _STRONG - 0.01, verdict),
    )


def _outperforms(trends: pd.DataFrame) -> Claim:
    """Compare the report's best feature with its spectral numbers and with one that it left out, by run."""
    wide = trends.pivot(index="run", columns="column", values="spearman").abs()
    reported = int((wide[COUNT] > wide[list(SPECTRUM)].max(axis=1)).sum())
    beside = int((wide[COUNT] > wide["top_eigenvalue"]).sum())
    return Claim(
        text="Topology outperforms the spectrum as a predictor of the perplexity",
        source="mean |rho| 0.857 against three spectral numbers",
        here=f"the number of loops (mean |rho| {_strength(trends, COUNT):.3f}) beats those three in "
        f"{reported} of {len(wide):,} runs",
        statistic="it beats the top eigenvalue, another spectral number (mean |rho| "
        f"{_strength(trends, 'top_eigenvalue'):.3f}), in {beside} of {len(wide)}",
        judgement=holds(reported == beside == len(wide)),
    )


def _spectrum_fails(trends: pd.DataFrame) -> Claim:
    """Test whether the whole spectrum fails in the runs in which the report's effective rank fails."""
    p = trends.pivot(index="run", columns="column", values="naive_p")
    failed = p.index[p["effective_rank"] >= _LEVEL]
    top = p.loc[failed, "top_eigenvalue"]
    also = int((top >= _LEVEL).sum())
    return Claim(
        text="The spectrum fails for the largest model, and topology does not",
        source="effective rank p = 0.10",
        here=f"the effective rank is not significant in {len(failed):,} of {len(p):,} runs"
        + (f" (p {p.loc[failed, 'effective_rank'].max():.2g} at most)" if len(failed) else ""),
        statistic=f"there the top eigenvalue is significant in {len(failed) - also} of {len(failed)}"
        + (f" (p {top.max():.2g} at most)" if len(failed) else ""),
        judgement=holds(bool(len(failed)) and also == len(failed)),
    )


def _constant(trends: pd.DataFrame) -> Claim:
    rho = trends.loc[trends["column"] == "h0_total_persistence", "spearman"]
    return Claim(
        text="H0 is constant: the loops carry the signal",
        source="199 components at every checkpoint",
        here=f"its count is constant; its total has rho {rho.min():+.2f} to {rho.max():+.2f} with the "
        "perplexity",
        statistic="the number of bars of n points is always n - 1",
        judgement=holds(bool((rho.abs() < 0.3).all())),
    )


def _phases(rows: pd.DataFrame) -> Claim:
    table = from_frame(rows, features=[TOTAL], targets=("log_perplexity",))
    segments = segment_table(table).groupby("run")["segment"].nunique()
    parted = int((segments >= 3).sum())
    return Claim(
        text="The total persistence of H1 passes through three phases",
        source=", ".join(f"{name} {low} to {high}" for name, (low, high) in printed()["phases"].items()),
        here=f"three segments or more in {parted} of {len(segments):,} runs",
        statistic="search for changes with a false-alarm rate of 5% on smooth noisy series",
        judgement=holds(parted == len(segments)),
    )


def _sizes(rows: pd.DataFrame) -> Claim:
    last = _ends(rows, ENTROPY)["last"]
    return Claim(
        text="Each model size has its own topological signature",
        source="final entropy 4.01, 4.14, 3.88",
        here="final entropy " + ", ".join(f"{value:.2f}" for value in last),
        statistic="one run of each size here: another seed may differ as much",
        judgement=Standing.UNTESTED,
    )


def _starts(rows: pd.DataFrame) -> Claim:
    first = _ends(rows, TOTAL)["first"]
    return Claim(
        text="Before training the total of H1 grows with the size",
        source="22.5, 31.1, 42.6",
        here=", ".join(f"{value:.1f}" for value in first),
        statistic="one run of each size here: another seed may differ as much",
        judgement=Standing.UNTESTED,
    )


def _rates() -> Claim:
    return Claim(
        text="Diagrams of larger models change faster late in training",
        source="Wasserstein distances highest for 410M after step 10,000",
        here="the rows contain no distances between diagrams",
        statistic="",
        judgement=Standing.UNTESTED,
    )
