"""Trend tables: what each feature's correlation with each target is, and what it is worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from toposcope.analysis import statistics as stat
from toposcope.analysis.table import SeriesTable
from toposcope.analysis.trends import resampling as res
from toposcope.analysis.trends.innovations import (
    LEAST_LENGTH,
    innovation_filter,
    innovation_test,
    innovations,
)
from toposcope.errors import InputError

DEFAULT_TARGETS = ("loss", "heldout_loss", "gap", "efficiency", "efficiency_flop", "log_perplexity")
"""Targets that are tested unless others are named; Holm's method runs over each one's rows alone."""
LEAST_POINTS = 4
STATISTICS = (
    "spearman", "pearson", "seed_p", "seed_low", "seed_high", "effective_n", "effective_p",
    "block_length", "block_low", "block_high", "partial_step", "partial_step_p", "partial_norm",
    "partial_norm_p", "walk_p", "ar_p", "innovation_r", "innovation_low", "innovation_high", "innovation_p",
)  # fmt: skip
_IDENTITY = ("run", "target", "column", "probe", "scope", "feature", "n")
COLUMNS = (
    *_IDENTITY, *STATISTICS, "seed_bonferroni", "innovation_holm", "innovation_bh", "verdict",
    "status", "reason",
)  # fmt: skip
_COLLINEAR_STEP = "the series ranks the checkpoints exactly as the step does: nothing is left given the step"
_SAME_NORM = "the weight norm ranks the checkpoints as the step does: as a control it adds nothing"


@dataclass(frozen=True, slots=True)
class Draws:
    """How many resamples and simulations a trend table uses."""

    iid: int = 1000
    block: int = 10_000
    null: int = 10_000


DEFAULT_DRAWS = Draws()


def trend_table(
    table: SeriesTable,
    *,
    targets: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    scopes: Sequence[str] = ("model", "role"),
    alpha: float = 0.05,
    draws: Draws = DEFAULT_DRAWS,
) -> pd.DataFrame:
    """Correlate every feature with every target in every run, each number beside what drift alone does.

    Parameters
    ----------
    table
        Features and targets (`series_table`, or `from_frame` for tables made elsewhere).
    targets
        Columns of the table to correlate with; by default those of `DEFAULT_TARGETS` that it has.
    columns, scopes
        Features to test; by default those of the model and of the roles, without their shuffle nulls.
    alpha
        Level of the verdict on the p-value that Holm's method adjusts over all rows of one target.

    Returns
    -------
    pandas.DataFrame
        The columns that the package's documentation lists under `trend_table`.

    Raises
    ------
    InputError
        If a target or a column is not in the table.

    Examples
    --------
    >>> from toposcope.analysis.table import from_frame
    >>> step = np.arange(51) * 100
    >>> frame = pd.DataFrame({"step": step, "loss": 5 * (step + 100.0) ** -0.3, "other": np.log(step + 50.0)})
    >>> row = trend_table(from_frame(frame), draws=Draws(100, 100, 1000)).iloc[0]
    >>> float(round(row["spearman"], 6)), row["verdict"]
    (-1.0, 'nothing beyond the trend')
    """
    targets = (
        [name for name in DEFAULT_TARGETS if name in table.targets] if targets is None else list(targets)
    )
    columns = default_columns(table, scopes) if columns is None else list(columns)
    for name in (*targets, *columns):
        if name not in table.values:
            raise InputError(
                f"{name!r} is not a column of the table; it has {', '.join(table.targets)} and features"
            )
    blocks = [block for run in table.run_names for block in _of_run(table, run, targets, columns, draws)]
    if not blocks:
        return pd.DataFrame(columns=list(COLUMNS))
    out = pd.concat(blocks, ignore_index=True)
    out = out.merge(table.catalogue[["column", "probe", "scope", "feature"]], on="column", how="left")
    order = {name: i for i, name in enumerate(columns)}
    out = out.sort_values("column", key=lambda names: names.map(order), kind="stable")
    rank = {
        (run, target): i for i, (run, target) in enumerate((r, t) for t in targets for r in table.run_names)
    }
    place = [rank[pair] for pair in zip(out["run"], out["target"], strict=True)]
    out = out.iloc[np.argsort(place, kind="stable")].reset_index(drop=True)
    return _judged(out, alpha)[list(COLUMNS)]


def default_columns(table: SeriesTable, scopes: Sequence[str] = ("model", "role")) -> list[str]:
    """Return the features of the given scopes; nulls, spreads and targets have scopes of their own."""
    return list(table.catalogue.loc[table.catalogue["scope"].isin(list(scopes)), "column"])


def _judged(out: pd.DataFrame, alpha: float) -> pd.DataFrame:
    for target, rows in out.groupby("target").groups.items():
        mine = out["target"] == target
        p = out.loc[rows, "innovation_p"].to_numpy()
        out.loc[mine, "innovation_holm"] = stat.holm(p)
        out.loc[mine, "innovation_bh"] = stat.benjamini_hochberg(p)
        seed_p = out.loc[rows, "seed_p"].to_numpy()
        out.loc[mine, "seed_bonferroni"] = np.minimum(seed_p * np.isfinite(seed_p).sum(), 1.0)
    adds = out["innovation_holm"] <= alpha
    out["verdict"] = np.where(adds, "adds", "nothing beyond the trend")
    out.loc[out["innovation_holm"].isna(), "verdict"] = "untested"
    return out


def _of_run(
    table: SeriesTable, run: str, targets: Sequence[str], columns: Sequence[str], draws: Draws
) -> Iterator[pd.DataFrame]:
    """Yield a block of rows for every target and every set of features known at the same checkpoints."""
    frame = table.of_run(run)
    steps = frame["step"].to_numpy(float)
    features = frame[list(columns)].to_numpy(float)
    norm = frame["weight_norm"].to_numpy(float) if "weight_norm" in frame else np.full(len(frame), np.nan)
    for target in targets:
        y = frame[target].to_numpy(float)
        known = np.isfinite(features) & np.isfinite(y)[:, None]
        groups: dict[bytes, list[int]] = {}
        for j in range(features.shape[1]):
            groups.setdefault(known[:, j].tobytes(), []).append(j)
        for chosen in groups.values():
            rows = known[:, chosen[0]]
            lost = len(frame) - int(rows.sum())
            block = pair_statistics(features[rows][:, chosen], y[rows], steps[rows], norm[rows], draws)
            block.insert(0, "column", [columns[j] for j in chosen])
            block.insert(0, "target", target)
            block.insert(0, "run", run)
            if table.repeated.get(run):
                text = f"{table.repeated[run]} repeated rows of a step averaged"
                block["reason"] = [f"{reason}; {text}" if reason else text for reason in block["reason"]]
            if lost:
                text = f"{lost} checkpoints without a finite value left out"
                block["reason"] = [f"{reason}; {text}" if reason else text for reason in block["reason"]]
            yield block


def pair_statistics(
    x: np.ndarray,
    y: np.ndarray,
    steps: np.ndarray,
    norm: np.ndarray | None = None,
    draws: Draws = DEFAULT_DRAWS,
) -> pd.DataFrame:
    """Return every statistic of the columns of `x` (n, p) against `y` (n,) or (n, p), one row each.

    `steps` (n,) are distinct and rising; `norm` (n,) is the weight norm, or None.
    """
    n, p = x.shape
    y = np.broadcast_to(y[:, None] if y.ndim == 1 else y, x.shape)
    out = pd.DataFrame({name: np.full(p, np.nan) for name in STATISTICS})
    out.insert(0, "n", n)
    out["status"], out["reason"] = "ok", ""
    if n < LEAST_POINTS:
        out["status"], out["reason"] = "failed", f"{n} checkpoints: at least {LEAST_POINTS} are needed"
        return out
    flat = (np.ptp(x, axis=0) == 0) | (np.ptp(y, axis=0) == 0)
    out.loc[flat, ["status", "reason"]] = ["degenerate", "constant series: no correlation is defined"]
    good = np.flatnonzero(~flat)
    if len(good):
        _fill(out, good, x[:, good], np.ascontiguousarray(y[:, good]), steps, norm, draws)
    return out


def _fill(
    out: pd.DataFrame, rows: np.ndarray, x: np.ndarray, y: np.ndarray, steps: np.ndarray,
    norm: np.ndarray | None, draws: Draws,
) -> None:  # fmt: skip
    n = len(x)
    rank_x, rank_y = stat.ranks(x), stat.ranks(y)
    rho = stat.correlation(rank_x, rank_y)
    found: dict[str, np.ndarray | float] = {"spearman": rho, "pearson": stat.correlation(x, y)}
    found["seed_p"] = stat.t_p_value(rho, n - 2.0)
    found["seed_low"], found["seed_high"] = res.bootstrap_interval(x, y, res.iid_indices(n, draws.iid))
    size = stat.effective_size(rank_x, rank_y)
    found["effective_n"], found["effective_p"] = size, stat.t_p_value(rho, np.maximum(size - 2.0, 1e-3))
    length = res.block_length(n)
    blocks = res.block_indices(n, draws.block, length)
    found["block_length"] = float(length)
    found["block_low"], found["block_high"] = res.bootstrap_interval(x, y, blocks)
    found["walk_p"] = res.walk_p_value(rho, n, draws.null)
    found["ar_p"] = res.surrogate_p_value(x, y, rho, draws.null)
    notes = [_partials(found, rank_x, rank_y, steps, norm)]
    if n >= LEAST_LENGTH:
        left = innovation_filter(steps).left
        test = innovation_test(innovations(x, steps), innovations(y, steps), left)
        found["innovation_r"], found["innovation_p"] = test.r, test.p
        found["innovation_low"], found["innovation_high"] = test.low, test.high
        bare = np.where(
            np.isfinite(test.p), "", "a smooth trend explains a series completely: no innovations"
        )
    else:
        bare = np.full(len(rows), f"{n} checkpoints: the verdict's test needs {LEAST_LENGTH}")
    notes.append(bare)
    for name, values in found.items():
        out.loc[rows, name] = values
    reasons = ["; ".join(part for part in parts if part) for parts in zip(*notes, strict=True)]
    out.loc[rows, "reason"] = reasons
    out.loc[rows, "status"] = [
        "partial" if b or _COLLINEAR_STEP in r else "ok" for b, r in zip(bare, reasons, strict=True)
    ]


def _partials(
    found: dict, rank_x: np.ndarray, rank_y: np.ndarray, steps: np.ndarray, norm: np.ndarray | None
) -> np.ndarray:
    """Add the partial correlations given log-step (in ranks: given the step), and given the norm too."""
    clock = stat.ranks(steps[:, None])
    r, degrees = stat.partial_correlation(rank_x, rank_y, clock)
    found["partial_step"], found["partial_step_p"] = r, stat.t_p_value(r, degrees)
    notes = np.where(np.isfinite(r), "", _COLLINEAR_STEP).astype(object)
    if norm is None or not np.isfinite(norm).all():
        return notes
    both = np.column_stack([clock, stat.ranks(norm[:, None])])
    r, degrees = stat.partial_correlation(rank_x, rank_y, both)
    found["partial_norm"], found["partial_norm_p"] = r, stat.t_p_value(r, degrees)
    if np.array_equal(both[:, 0], both[:, 1]):
        notes = np.where(notes == "", _SAME_NORM, notes)
    return notes
