"""The weight-space paper's own rules, as in its code: for reproduction, not for use.

Forecasts of the final loss (its Table 5) from a first share of the checkpoints, and the control that the
paper lacks: the same mixture with the last loss seen instead of the topological term.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd
import scipy  # optimize loads on first use: it costs a quarter of a second

from toposcope.core.forms import too_few_checkpoints
from toposcope.study.catalogue import column_key
from toposcope.study.table import SeriesTable

METHODS = ("loss-only", "TDA-only", "combined", "last-loss control")
OTHERS = "other runs' topology"
CONTROLS = {METHODS[3]: "the last loss", OTHERS: "the topology of the other runs"}
"""What the controls put into the mixture instead of the run's own topology."""
FRACTIONS = (0.2, 0.3, 0.5)
LOSS_SHARE = 0.6
TDA_WEIGHT = 0.1
FLOOR = 0.5
"""The paper's: shares of training seen, weight of the loss, slope of topology, and lowest forecast."""
COLUMNS = ("run", "fraction", "seen", "method", "predicted", "actual", "error", "status", "reason")
NEURAL_PERSISTENCE = column_key(
    probe="neural_persistence", filtration="seed004", feature="neural_persistence"
)
RIECK = column_key(probe="neural_persistence", filtration="rieck", feature="neural_persistence")
"""Neural persistence in units of each matrix's largest weight, as in the paper, and of the network's."""


def checkpoints_seen(n: int, fraction: float) -> int:
    """Return how many of `n` checkpoints the rules see: max(3, int(n fraction)).

    >>> [checkpoints_seen(51, f) for f in (0.2, 0.3, 0.5)]
    [10, 15, 25]
    """
    return max(3, int(n * fraction))


def loss_only(steps: np.ndarray, losses: np.ndarray, final_step: float) -> float:
    """Return the value at the final step of a x^-b + c, x = step + 1, fitted to the losses seen.

    Bounded least squares from (10, 0.1, last loss) within [0, 100] x [0, 2] x [0, 20]; NaN if it fails.
    """
    x = np.asarray(steps, float) + 1.0
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", scipy.optimize.OptimizeWarning
            )  # about the covariance, which is not used
            fitted, _ = scipy.optimize.curve_fit(
                _power, x, losses, p0=(10.0, 0.1, losses[-1]), bounds=([0, 0, 0], [100, 2, 20]), maxfev=10_000
            )
    except (RuntimeError, ValueError):
        return float("nan")
    return float(_power(final_step + 1.0, *fitted))


def _power(x: np.ndarray | float, a: float, b: float, c: float) -> np.ndarray | float:
    return a * x**-b + c


def tda_only(losses: np.ndarray, persistence: np.ndarray, total: int) -> float:
    """Return last loss - 0.1 |mean change of neural persistence per checkpoint| x checkpoints to come.

    `losses` and `persistence` (n,) are those seen; `total` counts the run's checkpoints. The result is at
    least 0.5.
    """
    n = len(losses)
    rate = abs((persistence[-1] - persistence[0]) / (n - 1))
    return float(max(losses[-1] - TDA_WEIGHT * rate * (total - n), FLOOR))


def combine(loss_based: float, other: float) -> float:
    """Return 0.6 times the loss-only forecast plus 0.4 times the other one."""
    return LOSS_SHARE * loss_based + (1.0 - LOSS_SHARE) * other


def rule_forecasts(
    steps: np.ndarray, losses: np.ndarray, persistence: np.ndarray, seen: int
) -> dict[str, float]:
    """Return the four forecasts of the last loss from the first `seen` checkpoints."""
    fit = loss_only(steps[:seen], losses[:seen], float(steps[-1]))
    topology = tda_only(losses[:seen], persistence[:seen], len(losses))
    return {
        "loss-only": fit,
        "TDA-only": topology,
        "combined": combine(fit, topology),
        "last-loss control": combine(fit, float(losses[seen - 1])),
    }


def rule_table(
    table: SeriesTable,
    *,
    fractions: Sequence[float] = FRACTIONS,
    target: str = "loss",
    column: str = NEURAL_PERSISTENCE,
) -> pd.DataFrame:
    """Forecast every run's last loss by the paper's rules at each fraction of its checkpoints.

    One row per run, fraction and method; a row says so if the run's table has gaps. Without the topological
    column, only the two rules that do not need it give forecasts.
    """
    rows: list[tuple[object, ...]] = []
    for run in table.run_names:
        frame = table.of_run(run)
        has = column in frame
        need = ["step", target, *([column] if has else [])]
        missing = [name for name in need if name not in frame]
        values = frame[need].to_numpy(float) if not missing else np.empty((0, len(need)))
        reason = f"no column {missing[0]!r}" if missing else _unusable(values)
        for fraction in fractions:
            seen = checkpoints_seen(len(values), fraction)
            for method in METHODS:
                why = reason or (
                    "" if has or method in ("loss-only", "last-loss control") else f"no column {column!r}"
                )
                if why:
                    rows.append((run, fraction, seen, method, np.nan, np.nan, np.nan, "failed", why))
            if reason:
                continue
            persistence = values[:, 2] if has else np.full(len(values), np.nan)
            rule_values = rule_forecasts(values[:, 0], values[:, 1], persistence, seen)
            rows += [
                (
                    run,
                    fraction,
                    seen,
                    method,
                    rule_values[method],
                    values[-1, 1],
                    abs(rule_values[method] - values[-1, 1]),
                    "ok",
                    "",
                )
                for method in METHODS
                if has or method in ("loss-only", "last-loss control")
            ]
    out = pd.DataFrame(rows, columns=list(COLUMNS))
    bad = (out["status"] == "ok") & ~np.isfinite(out["predicted"].astype(float))
    out.loc[bad, ["status", "reason"]] = ["failed", "the power-law fit did not converge"]
    return out


def others_table(
    table: SeriesTable, *, target: str = "loss", column: str = NEURAL_PERSISTENCE
) -> pd.DataFrame:
    """Forecast every run by the mixture with the topology of the other runs; rows as in `rule_table`.

    The forecast is the mean over the other runs. A gain that survives this does not need the run's own
    topology. Runs that the rules cannot forecast have no row.
    """
    rule_rows = rule_table(table, target=target, column=column)
    fits = rule_rows[(rule_rows["method"] == METHODS[0]) & (rule_rows["status"] == "ok")]
    series = {run: table.of_run(run)[[target, column]].to_numpy(float) for run in set(fits["run"])}
    rows = []
    for line in fits.to_dict("records"):
        seen, losses = int(line["seen"]), series[line["run"]][:, 0]
        others = [values[:seen, 1] for run, values in series.items() if run != line["run"]]
        drawn = [tda_only(losses[:seen], series, len(losses)) for series in others if len(series) == seen]
        if drawn:
            predicted = combine(float(line["predicted"]), float(np.mean(drawn)))
            error = abs(predicted - float(line["actual"]))
            rows.append({**line, "method": OTHERS, "predicted": predicted, "error": error})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def error_table(
    table: SeriesTable, *, target: str = "loss", column: str = NEURAL_PERSISTENCE
) -> pd.DataFrame:
    """Return the absolute errors of rules and controls: a row per share and run, a column per method."""
    tables = [maker(table, target=target, column=column) for maker in (rule_table, others_table)]
    errors = pd.concat(tables).pivot_table(index=["fraction", "run"], columns="method", values="error")
    return errors.reindex(columns=[*METHODS, OTHERS])  # a single run has no others


def _unusable(values: np.ndarray) -> str:
    if len(values) < 4:
        return too_few_checkpoints(len(values), 4)
    if not np.isfinite(values).all():
        return f"{int((~np.isfinite(values)).any(axis=1).sum()):,} checkpoints lack the loss or the feature"
    return ""
