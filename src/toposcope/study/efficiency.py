"""Targets at the checkpoints: losses, the held-out gap, and training efficiency with its interval."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toposcope.logs.facts import configuration
from toposcope.logs.records import IN_EPOCHS

TARGETS = ("loss", "heldout_loss", "loss_smooth", "gap", "efficiency", "efficiency_flop")
WINDOW_FACTOR = 1.25
"""The slope at token count T is fitted over [T / factor, T * factor]."""
LEAST_POINTS = 8
"""Logged points of a local line, at least."""
SMOOTH = 100
"""Logged steps averaged for the smoothed training loss."""
FLOP_PER_PARAMETER_TOKEN = 6.0
"""Two forward and four backward, for each parameter and token (Kaplan et al. 2020)."""
_METRIC_COLUMNS = ("tokens", "loss", "heldout_loss", "weight_norm", "learning_rate")


def local_slope(
    x: np.ndarray, loss: np.ndarray, at: np.ndarray, *, factor: float = WINDOW_FACTOR
) -> tuple[np.ndarray, np.ndarray]:
    """Return d loss / d log x at each point of `at`, and its standard error.

    A straight line in log x by ordinary least squares over [at / factor, at * factor], widened to the
    nearest `LEAST_POINTS` logged points where fewer lie inside. `x` (n,) is positive and rising; points
    with a non-finite loss are skipped. NaN where `at` is not positive or fewer than 3 points exist.

    Examples
    --------
    >>> x = np.arange(1.0, 1000.0)
    >>> slope, error = local_slope(x, 5.0 - 0.3 * np.log(x), np.array([100.0]))
    >>> round(float(slope[0]), 6), bool(error[0] < 1e-9)
    (-0.3, True)
    """
    keep = np.isfinite(loss) & (x > 0)
    log_x, loss = np.log(x[keep]), loss[keep]
    slope, error = np.full(len(at), np.nan), np.full(len(at), np.nan)
    for i, point in enumerate(at):
        if not point > 0 or len(log_x) < 3:
            continue
        u, y = _window(log_x, loss, float(np.log(point)), float(np.log(factor)))
        u = u - u.mean()
        spread = float(u @ u)
        if len(u) < 3 or spread == 0:
            continue
        slope[i] = u @ y / spread
        residual = y - y.mean() - slope[i] * u
        error[i] = np.sqrt(residual @ residual / (len(u) - 2) / spread)
    return slope, error


def _window(
    log_x: np.ndarray, loss: np.ndarray, centre: float, reach: float
) -> tuple[np.ndarray, np.ndarray]:
    inside = np.abs(log_x - centre) <= reach * (1 + 1e-12)
    if inside.sum() < LEAST_POINTS:
        inside = np.zeros(len(log_x), bool)
        inside[np.argsort(np.abs(log_x - centre), kind="stable")[:LEAST_POINTS]] = True
    return log_x[inside], loss[inside]


def add_targets(
    values: pd.DataFrame,
    spread: pd.DataFrame,
    metrics: pd.DataFrame | None,
    runs: pd.DataFrame,
    *,
    smooth: int = SMOOTH,
) -> tuple[pd.DataFrame, pd.DataFrame, tuple[str, ...], tuple[str, ...]]:
    """Join the targets to the wide table; return values, spread, the targets present, and problems.

    `loss_smooth` averages the finite losses of the last `smooth` steps up to the checkpoint. The
    efficiencies' standard errors go to `spread` under the target's name.
    """
    if metrics is None or metrics.empty:
        return values, spread, (), ("no metrics: the table has features only",)
    log, problems = _clean(metrics)
    parameters: dict[str, float] = {}
    if "parameters" in runs:
        parameters = dict(zip(runs["run"], runs["parameters"].astype(float), strict=True))
    apart = _in_epochs(runs)
    pieces, errors = [], []
    for run, part in values[["run", "step"]].groupby("run", sort=False):
        here = log[log["run"] == run]
        if here.empty:
            problems.append(f"run {run}: no metrics, so its targets are missing")
        elif str(run) in apart:
            problems.append(
                f"run {run}: its checkpoints are counted in epochs and its log in steps, so no loss is "
                "compared with them; name the checkpoints by step"
            )
            here = here.iloc[:0]
        piece, error = targets_of_run(here, part["step"].to_numpy(), parameters.get(str(run), np.nan), smooth)
        if since := _since(here, part["step"].to_numpy(), piece["loss"]):
            problems.append(
                f"run {run}: not every checkpoint has a loss of its own step; the last one before it "
                f"is taken, of at most {since:,} step{'s' * (since != 1)} earlier"
            )
        piece.index = error.index = part.index
        pieces.append(piece)
        errors.append(error)
    targets, errors_table = pd.concat(pieces), pd.concat(errors)
    present = tuple(name for name in TARGETS if targets[name].notna().any())
    known_columns = [name for name in ("learning_rate",) if targets[name].notna().any()]
    lead = ["tokens", "weight_norm", *known_columns, *present]
    values = pd.concat([values[["run", "step"]], targets[lead], values.drop(columns=["run", "step"])], axis=1)
    spread = pd.concat([spread, errors_table[[c for c in errors_table if c in present]]], axis=1)
    return values, spread, present, tuple(problems)


def _in_epochs(runs: pd.DataFrame) -> set[str]:
    """Return the runs whose checkpoints are counted in epochs, and their logs in steps."""
    if "config" not in runs:
        return set()
    return {
        str(run)
        for run, config in zip(runs["run"], runs["config"], strict=True)
        if configuration(config).get(IN_EPOCHS)
    }


def averaged(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return one row per (run, step), sorted, and how many rows of each run repeated a step.

    A repeated step gets the mean of its finite values.
    """
    extra = frame.loc[frame.duplicated(["run", "step"]), "run"].value_counts()
    if extra.empty:
        return frame.sort_values(["run", "step"]).reset_index(drop=True), {}
    means = frame.groupby(["run", "step"], as_index=False, sort=True).mean()
    return means, {str(run): int(n) for run, n in extra.items()}


def _clean(metrics: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    log = metrics.copy()
    for column in _METRIC_COLUMNS:
        log[column] = pd.to_numeric(log[column], errors="coerce").astype(float) if column in log else np.nan
    measured = list(_METRIC_COLUMNS)
    bad = np.isinf(log["loss"])
    infinite = log.loc[bad, ["run", "step"]]
    log[measured] = log[measured].mask(np.isinf(log[measured]))
    log, repeated = averaged(log[["run", "step", *measured]])
    problems = [
        f"run {run}: {n} repeated steps in the metrics, averaged over each" for run, n in repeated.items()
    ]
    bad = log.set_index(["run", "step"]).index.isin(infinite.set_index(["run", "step"]).index)
    diverged = log[bad | (log["loss"].isna() & log["heldout_loss"].isna())]
    problems += [
        f"run {run}: {n:,} logged steps without a finite loss"
        for run, n in diverged["run"].value_counts().items()
    ]
    return log, problems


def targets_of_run(
    log: pd.DataFrame, steps: np.ndarray, parameters: float, smooth: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the targets of one run at `steps`, from its log by step, and the efficiencies' errors."""
    out = logged_at(log, steps)
    logged, loss = log["step"].to_numpy(), log["loss"].to_numpy(float)
    out["loss_smooth"] = _trailing_mean(logged, loss, steps, smooth)
    out["gap"] = out["heldout_loss"] - out["loss_smooth"]
    tokens = log["tokens"].to_numpy(float)
    clock = tokens if np.isfinite(tokens).any() else logged.astype(float)
    clock_at = out["tokens"].to_numpy(float) if np.isfinite(tokens).any() else steps.astype(float)
    slope, error = local_slope(clock, loss, clock_at)
    out["efficiency"] = -slope
    per_flop = (
        FLOP_PER_PARAMETER_TOKEN * (parameters if parameters > 0 else np.nan) * out["tokens"].to_numpy(float)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        out["efficiency_flop"] = np.where(per_flop > 0, -slope / per_flop, np.nan)
        errors = pd.DataFrame(
            {"efficiency": error, "efficiency_flop": np.where(per_flop > 0, error / per_flop, np.nan)}
        )
    return out, errors


def logged_at(log: pd.DataFrame, steps: np.ndarray) -> pd.DataFrame:
    """Return what is logged at checkpoints: at the step of each, else the last value just before it.

    Lightning logs step 29 where its checkpoint is of step 30, and many loops log at other steps than they
    save. So a checkpoint without a value of its own step gets the last one since the checkpoint before, if
    it is no older than the usual distance of two values. No value is used twice.

    >>> log = pd.DataFrame({"step": [9, 19, 29], "loss": [3.0, 2.5, 2.25]})
    >>> logged_at(log, np.array([10, 30, 35, 90]))["loss"].tolist()
    [3.0, 2.25, nan, nan]
    """
    every, place = np.unique(steps, return_inverse=True)
    before = np.concatenate([[-np.inf], every[:-1]])[place]
    out = {}
    for name in _METRIC_COLUMNS:
        table = log[["step", name]].dropna() if name in log else pd.DataFrame({"step": [], name: []})
        logged, values = table["step"].to_numpy(float), table[name].to_numpy(float)
        out[name] = np.full(len(steps), np.nan)
        if not len(logged):
            continue
        last = np.searchsorted(logged, steps, side="right") - 1
        usual = np.median(np.diff(logged)) if len(logged) > 1 else 0.0
        own = (last >= 0) & (steps - logged[last] <= usual) & (logged[last] > before)
        out[name][own] = values[last[own]]
    return pd.DataFrame(out)


def _since(log: pd.DataFrame, steps: np.ndarray, losses: pd.Series) -> int:
    """Return by how many steps the losses of checkpoints were logged before them, at most."""
    logged = log.loc[log["loss"].notna(), "step"].to_numpy()
    at = steps[losses.notna().to_numpy()]
    return int((at - logged[np.searchsorted(logged, at, side="right") - 1]).max()) if len(at) else 0


def _trailing_mean(logged: np.ndarray, loss: np.ndarray, steps: np.ndarray, smooth: int) -> np.ndarray:
    finite = np.isfinite(loss)
    total = np.concatenate([[0.0], np.cumsum(np.where(finite, loss, 0.0))])
    count = np.concatenate([[0], np.cumsum(finite)])
    right = np.searchsorted(logged, steps, side="right")
    left = np.searchsorted(logged, steps - smooth, side="right")
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(
            count[right] > count[left], (total[right] - total[left]) / (count[right] - count[left]), np.nan
        )
