"""Power laws of final losses and final features in model size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from toposcope.core.groups import families_of
from toposcope.core.lines import half_width
from toposcope.scaling import fit_loss_law, fit_power_law
from toposcope.scaling.power_law import PowerLaw
from toposcope.study.table import SeriesTable
from toposcope.study.trends.verdicts import default_columns

LOSSES = ("loss", "heldout_loss", "loss_smooth")
FINISHED = 0.98
"""A run counts as finished if it reached this share of its family's last step."""
FINALS = ("run", "parameters", "quantity", "step", "value", "low", "high", "finished", "family")
_FITTED = (
    "scale", "exponent", "low", "high", "r2", "sigma", "spearman", "spearman_p", "n", "n_sizes"
)  # fmt: skip
FITS = ("quantity", *_FITTED, "runs", "seed_sd", "status", "reason", "law", "offset")


def scaling_table(table: SeriesTable, *, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Fit a N^b + E to the last value of every loss, a N^b to every feature; one row each, as `fits_table`.

    Runs that do not state their size or did not get to the end are left out; the row of a quantity that
    cannot be fitted says why.

    Examples
    --------
    >>> from toposcope.study.table import from_frame
    >>> runs = pd.DataFrame({"run": list("abcdef"), "parameters": 10.0 ** np.arange(3, 9)})
    >>> frame = pd.DataFrame({"run": list("abcdef"), "step": 1, "loss": [4.99, 3.5, 2.75, 2.374, 2.19, 2.09]})
    >>> row = scaling_table(from_frame(frame, features=[], runs=runs)).iloc[0]
    >>> row["quantity"], float(round(row["exponent"], 1)), float(round(row["offset"]))
    ('loss', -0.3, 2.0)
    """
    columns = default_columns(table, ("model",)) if columns is None else list(columns)
    quantities = [*(name for name in LOSSES if name in table.targets), *columns]
    return fits_table(finals_table(table, quantities), quantities)


def finals_table(table: SeriesTable, quantities: Sequence[str]) -> pd.DataFrame:
    """Return each quantity at each run's last checkpoint that has it, with the interval over its draws.

    Columns run, parameters (0: unknown), quantity, step, value, low, high (NaN with fewer than three draws),
    `finished` (whether that step is at least 98% of the last one that any run of its family has), `family`
    ("": unknown).
    """
    ends = {quantity: _family_ends(table, quantity) for quantity in quantities}
    parameters = table.parameters()
    families = families_of(table.runs)
    rows = []
    for run in table.run_names:
        mine = table.of_run(run)
        spread, draws = (
            part[part["run"] == run].reset_index(drop=True) for part in (table.spread, table.draws)
        )
        for quantity in quantities:
            last = mine[quantity].last_valid_index()
            if last is None:
                continue
            value, half = float(mine[quantity][last]), np.nan
            if quantity in draws:
                half = float(half_width(spread[quantity][last], draws[quantity][last]))
            step = int(mine["step"][last])
            size, done = parameters.get(run, 0), step >= FINISHED * ends[quantity][run]
            family = families.get(run, "")
            rows.append((run, size, quantity, step, value, value - half, value + half, done, family))
    return pd.DataFrame(rows, columns=list(FINALS))


def _family_ends(table: SeriesTable, quantity: str) -> dict[str, float]:
    """Return the last step at which each run's family (all runs where none is stated) has the quantity."""
    with_value = table.values[table.values[quantity].notna()]
    last = {str(run): float(step) for run, step in with_value.groupby("run")["step"].max().items()}
    family = families_of(table.runs)
    ends: dict[str, float] = {}
    for run, step in last.items():
        name = family.get(run, "")
        ends[name] = max(step, ends.get(name, 0.0))
    return {run: ends[family.get(run, "")] for run in last}


def fits_table(finals: pd.DataFrame, quantities: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the power law of every quantity in the number of parameters, one row each.

    A loss has a floor: its law is a N^b + E (`fit_loss_law`). A feature can vanish: its law is a N^b. Where
    a law leaves no interval (two sizes, or a floor that the sizes cannot tell) the row has no exponent,
    only the reason.

    Runs of one size are averaged first: a law rests on its sizes, and more seeds add no size. `n` counts
    sizes, `runs` the runs behind them; `seed_sd` is the standard deviation within sizes, pooled over the
    sizes that have several runs (NaN: none has). Runs that are not `finished` are left out, and the reason
    names them: a loss half-way is not a final loss. Runs of several families share no law: each family's
    corpus and tokeniser set its own floor and scale, so such a row has no exponent either.
    """
    quantities = list(dict.fromkeys(finals["quantity"])) if quantities is None else list(quantities)
    rows = []
    for quantity in quantities:
        positive = finals[(finals["quantity"] == quantity) & (finals["parameters"] > 0)]
        ended = (
            positive["finished"].astype(bool) if "finished" in positive else pd.Series(True, positive.index)
        )
        positive, running = positive[ended], positive[~ended]
        groups = positive.groupby("parameters")["value"]
        means = groups.mean()
        floor = quantity in LOSSES
        fit = fit_loss_law if floor else fit_power_law
        mixed = sorted(set(positive["family"]) - {""}) if "family" in positive else []
        law = fit(means.index.to_numpy(float), means.to_numpy())
        if len(mixed) > 1:
            law = _without_law(
                law,
                f"{len(mixed):,} families ({', '.join(mixed[:4])}) do not share a law; fit each separately",
            )
        free = groups.size() - 1
        squares = float((groups.var(ddof=1).fillna(0.0) * free).sum())
        within = float(np.sqrt(squares / free.sum())) if free.sum() > 0 else np.nan
        shown = law if law.status == "ok" else replace(law, low=np.nan, high=np.nan)
        fitted = [getattr(shown, name) for name in _FITTED]
        left = [
            f"{run} (to step {step:,})" for run, step in zip(running["run"], running["step"], strict=True)
        ]
        reasons = [law.reason, f"left out, unfinished: {', '.join(left)}" if left else ""]
        reason = "; ".join(part for part in reasons if part)
        form = "a N^b + E" if floor else "a N^b"
        rows.append((quantity, *fitted, len(positive), within, law.status, reason, form, law.offset))
    return pd.DataFrame(rows, columns=list(FITS))


def _without_law(law: PowerLaw, reason: str) -> PowerLaw:
    """Return the counts of a fit without its numbers."""
    return replace(
        law, scale=np.nan, exponent=np.nan, low=np.nan, high=np.nan, r2=np.nan, sigma=np.nan, offset=np.nan,
        spearman=np.nan, spearman_p=np.nan, status="failed", reason=reason,
    )  # fmt: skip
