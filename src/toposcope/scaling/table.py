"""Scaling laws for a table of models: the columns that a law needs, and its fit as rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from toposcope.core.errors import InputError, did_you_mean
from toposcope.scaling.compute import screen_points
from toposcope.scaling.laws import ScalingFit, fit_chinchilla, fit_kaplan, fit_size_steps
from toposcope.scaling.loss_law import fit_loss_law
from toposcope.scaling.power_law import fit_power_law
from toposcope.scaling.transfer import fit_loss_to_loss, fit_two_stage

COLUMNS = {
    "size": "parameters",
    "data": "tokens",
    "steps": "step",
    "loss": "loss",
    "other": "heldout_loss",
    "compute": "flop",
    "score": "score",
}
"""Quantity of a law -> its column, unless another one is named."""

NEEDS = {
    "power": ("size", "loss"),
    "offset": ("size", "loss"),
    "chinchilla": ("size", "data", "loss"),
    "kaplan": ("size", "data", "loss"),
    "size-steps": ("size", "steps", "loss"),
    "loss-to-loss": ("loss", "other"),
    "two-stage": ("compute", "loss", "score"),
}
"""Law -> the quantities it relates."""

FORMULAS = {
    "power": "a N^b",
    "offset": "a N^b + c (for a loss c = E >= 0)",
    "chinchilla": "E + A / N^alpha + B / D^beta",
    "kaplan": "[(N_c / N)^(alpha_N / alpha_D) + D_c / D]^alpha_D",
    "size-steps": "(N_c / N)^alpha_N + (S_c / S)^alpha_S",
    "loss-to-loss": "K (L - floor_x)^kappa + floor_y",
    "two-stage": "loss = a C^b + c, score = sigmoid of the loss",
}
"""Law -> its formula."""

APART = {
    "group": "groups",
    "family": "families",
    "tokenizer": "tokenisers",
    "tokeniser": "tokenisers",
    "architecture": "architectures",
    "corpus": "corpora",
    "dataset": "data sets",
    "task": "tasks",
    "vocabulary": "vocabularies",
    "recipe": "recipes",
}
"""Column of a table of models -> what its values are; each of them has its own floor and scale."""

LOGARITHMIC = ("power",)
"""Laws that are fitted to the logarithm of their value."""

NO_FLOOR = "a loss has a floor, and a law without one gives too shallow an exponent (law offset fits it)"

EXACT = "the sizes lie exactly on the law, so its interval contains no noise"

ROWS = ("law", "parameter", "value", "error", "low", "high", "n", "left_out", "status", "reason")
_SURFACES: dict[str, Callable[..., ScalingFit]] = {
    "chinchilla": fit_chinchilla, "kaplan": fit_kaplan, "size-steps": fit_size_steps,
}  # fmt: skip


def last_rows(frame: pd.DataFrame, loss: str = "loss") -> pd.DataFrame:
    """Return one row per run, with the last value of every column up to the last finite loss.

    A table without `run` and `step` already has one row per model and is returned unchanged.

    >>> rows = {"run": ["a", "a", "b"], "step": [2, 1, 1], "loss": [3.0, 4.0, 5.0]}
    >>> last_rows(pd.DataFrame(rows))["loss"].tolist()
    [3.0, 5.0]
    """
    if not {"run", "step", loss} <= set(frame):
        return frame
    finite = np.isfinite(pd.to_numeric(frame[loss], errors="coerce").to_numpy(float))
    return frame[finite].sort_values("step", kind="stable").groupby("run", as_index=False).last()


def law_table(
    frame: pd.DataFrame,
    law: str,
    *,
    columns: Mapping[str, str] | None = None,
    leave_out: int = 0,
    chance: float = 0.0,
    draws: int = 200,
    by_size: bool = False,
) -> pd.DataFrame:
    """Fit one law to a table with one row per model; return one row per fitted number.

    A loss has a floor E >= 0. For a column with "loss" in its name, "offset" uses `fit_loss_law`, which gives
    no exponent if E is not identified, and "power" adds a note about the floor. Models of several families,
    tokenisers, corpora or tasks (columns in `APART`) do not share a law.

    Parameters
    ----------
    frame
        Columns as in `COLUMNS` or as named in `columns`. Missing tokens come from FLOP / 6N, missing FLOP
        from 6ND. Rows that `screen_points` marks (read before the learning rate had decayed, or mostly
        warm-up) are left out, if the columns for this check exist.
    law
        One of `NEEDS`.
    leave_out
        The number of points with the fewest tokens per parameter to leave out.
    chance
        Score from guessing, for "two-stage".
    draws
        Bootstrap replicates.
    by_size
        Whether to average models of the same size first, so that n counts sizes.

    Raises
    ------
    InputError
        If the law is unknown or a column it needs is absent.

    Examples
    --------
    >>> frame = pd.DataFrame({"parameters": [1e3, 1e4, 1e5, 1e6], "loss": [8.0, 4.1, 2.0, 0.99]})
    >>> law_table(frame, "power").set_index("parameter")["value"].round(2).to_dict()
    {'scale': 65.84, 'exponent': -0.3}
    """
    if law not in NEEDS:
        raise InputError(f"no law called {law!r}; there are: {', '.join(NEEDS)}")
    names = {**COLUMNS, **(columns or {})}
    points, good, why = _screened(frame, law, names, leave_out)
    used = {str(name): values.to_numpy(float) for name, values in _used(points[good], by_size).items()}
    left = int((~good).sum())
    floor = "loss" in names["loss"].lower()
    with threadpool_limits(1):  # for matrices of a few columns, threads cost more than they save
        mixed = _mixture(frame[good])
        fitted = [_nothing(len(points[good]), mixed)] if mixed else _fitted(law, used, chance, draws, floor)
        rows = [(law, *row) for row in fitted]
    out = pd.DataFrame(rows, columns=[name for name in ROWS if name != "left_out"])
    out.insert(ROWS.index("left_out"), "left_out", left)
    if why:
        note = "left out: " + ", ".join(why)
        out["reason"] = [f"{reason}; {note}" if reason else note for reason in out["reason"]]
    return out


def law_points(
    frame: pd.DataFrame,
    law: str,
    *,
    columns: Mapping[str, str] | None = None,
    leave_out: int = 0,
    by_size: bool = False,
) -> pd.DataFrame:
    """Return the points that `law_table` fits: a column per known quantity, a row per point.

    >>> frame = pd.DataFrame({"parameters": [1e3, 1e3, 1e4], "loss": [8.0, 9.0, 4.0]})
    >>> law_points(frame, "power", by_size=True)["loss"].tolist()
    [8.5, 4.0]
    """
    points, good, _ = _screened(frame, law, {**COLUMNS, **(columns or {})}, leave_out)
    return _used(points[good], by_size).reset_index(drop=True)


def predicted(law: str, fitted: pd.DataFrame, points: pd.DataFrame) -> np.ndarray:
    """Return the values of a law from `law_table` at some points; NaN if the law failed.

    >>> points = pd.DataFrame({"size": [1e3, 1e4]})
    >>> fitted = pd.DataFrame({"parameter": ["scale", "exponent"], "value": [8.0, -0.5]})
    >>> predicted("power", fitted, points).round(3).tolist()
    [0.253, 0.08]
    """
    values = dict(zip(fitted["parameter"], fitted["value"], strict=True))
    quantities = {str(name): points[name].to_numpy(float) for name in points}
    try:
        with np.errstate(all="ignore"):
            return np.asarray(_VALUES[law](values, quantities), float)
    except KeyError:  # the fit gave no numbers
        return np.full(len(points), np.nan)


_VALUES: dict[str, Callable[[Mapping[str, float], Mapping[str, np.ndarray]], np.ndarray]] = {
    "power": lambda v, x: v["scale"] * x["size"] ** v["exponent"],
    "offset": lambda v, x: v["scale"] * x["size"] ** v["exponent"] + v["offset"],
    "chinchilla": lambda v, x: v["E"] + v["A"] / x["size"] ** v["alpha"] + v["B"] / x["data"] ** v["beta"],
    "kaplan": lambda v, x: (
        ((v["N_c"] / x["size"]) ** (v["alpha_N"] / v["alpha_D"]) + v["D_c"] / x["data"]) ** v["alpha_D"]
    ),
    "size-steps": lambda v, x: (
        (v["N_c"] / x["size"]) ** v["alpha_N"] + (v["S_c"] / x["steps"]) ** v["alpha_S"]
    ),
    "loss-to-loss": lambda v, x: v["scale"] * (x["loss"] - v["floor_x"]) ** v["power"] + v["floor_y"],
    "two-stage": lambda v, x: (
        1.0 / (1.0 + np.exp(
            v["slope"] * (v["scale"] * x["compute"] ** v["exponent"] + v["offset"] - v["midpoint"])
        ))
    ),
}  # fmt: skip
"""Law -> a function of its fitted numbers and the quantities: the `FORMULAS` in numeric form."""


def _screened(
    frame: pd.DataFrame, law: str, names: Mapping[str, str], leave_out: int
) -> tuple[pd.DataFrame, np.ndarray, list[str]]:
    """Return the quantities of every row, which rows are fitted, and why others are not."""
    points = pd.DataFrame(_points(frame, law, names))
    screened = screen_points(frame.assign(**{"loss": points["loss"]}))
    good = (screened["status"] == "ok").to_numpy(copy=True)
    if leave_out:
        if not {"size", "data"} <= set(points):
            raise InputError(
                "rows with the fewest tokens for each parameter need both numbers",
                argument="leave_out", value=leave_out, remedy="name the columns of size and data",
            )  # fmt: skip
        density = points["data"] / points["size"]
        good &= (density.rank(method="first") > leave_out).to_numpy()
    return points, good, sorted(set(screened.loc[screened["status"] != "ok", "reason"]))


def _used(points: pd.DataFrame, by_size: bool) -> pd.DataFrame:
    return points.groupby("size", as_index=False).mean() if by_size else points


def _points(frame: pd.DataFrame, law: str, names: Mapping[str, str]) -> dict[str, pd.Series]:
    numbers = {name: pd.to_numeric(frame[column], errors="coerce")
             for name, column in names.items() if column in frame}  # fmt: skip
    if {"size", "compute"} <= set(numbers) and "data" not in numbers:
        numbers["data"] = numbers["compute"] / (6.0 * numbers["size"])
    if {"size", "data"} <= set(numbers) and "compute" not in numbers:
        numbers["compute"] = 6.0 * numbers["size"] * numbers["data"]
    missing = [name for name in NEEDS[law] if name not in numbers]
    if missing:
        raise InputError(
            f"no column {names[missing[0]]!r} for its {missing[0]}; the table has "
            f"{', '.join(map(str, frame.columns[:8]))}",
            argument="law",
            value=law,
            remedy=f"name one with {missing[0]}=COLUMN{did_you_mean(names[missing[0]], frame.columns)}",
        )
    return numbers


Row = tuple[str, float, float, float, float, int, str, str]


def _fitted(law: str, used: Mapping[str, np.ndarray], chance: float, draws: int, floor: bool) -> list[Row]:
    """Return (parameter, value, standard error, low, high, n, status, reason) of every fitted number."""
    first, *rest = (used[name] for name in NEEDS[law])
    if law in ("power", "offset"):
        return _power(first, rest[0], offset=law == "offset", floor=floor)
    if law == "loss-to-loss":
        return _loss_to_loss(first, rest[0], draws)
    if law == "two-stage":
        return _two_stage(first, rest[0], rest[1], chance, draws)
    fit = _SURFACES[law](first, *rest, draws=draws)
    if fit.status == "failed":
        return [_nothing(fit.n, fit.reason)]
    nan = (np.nan, np.nan)
    return [
        (
            name,
            value,
            fit.errors.get(name, np.nan),
            *fit.intervals.get(name, nan),
            fit.n,
            fit.status,
            fit.reason,
        )
        for name, value in fit.parameters.items()
    ]


def _power(size: np.ndarray, loss: np.ndarray, *, offset: bool, floor: bool) -> list[Row]:
    """Return the rows of a law of size: scale, exponent, offset; the exponent alone if it is unknown."""
    fit = fit_loss_law(size, loss) if offset and floor else fit_power_law(size, loss, offset=offset)
    if fit.status == "failed":
        return [_nothing(fit.n, fit.reason)]
    exact = EXACT if np.isclose(fit.low, fit.high, rtol=1e-6, atol=0.0) else ""
    reason = "; ".join(part for part in (fit.reason, "" if offset or not floor else NO_FLOOR, exact) if part)
    low, high = (end if np.isfinite(end) else np.nan for end in (fit.low, fit.high))

    def row(name: str, value: float, low: float = np.nan, high: float = np.nan) -> Row:
        return (name, value, np.nan, low, high, fit.n, fit.status, reason)

    exponent = row("exponent", fit.exponent, low, high)
    if not np.isfinite(fit.exponent):
        return [exponent]
    return [row("scale", fit.scale), exponent, *([row("offset", fit.offset)] if offset else [])]


def _mixture(models: pd.DataFrame) -> str:
    """Return why these models do not share a law; empty if nothing distinguishes them."""
    for column, plural in APART.items():
        groups = sorted(set(models[column].dropna().astype(str)) - {""}) if column in models else []
        if len(groups) > 1:
            listed = ("; " if column == "group" else ", ").join(groups[:4])
            return f"{len(groups)} {plural} ({listed}) do not share a law; fit each separately"
    return ""


def _loss_to_loss(loss: np.ndarray, other: np.ndarray, draws: int) -> list[Row]:
    fit = fit_loss_to_loss(loss, other, draws=draws)
    if fit.status == "failed":
        return [_nothing(fit.n, fit.reason)]
    bounds = fit.interval()
    errors = fit.draws.std(axis=0, ddof=1) if len(fit.draws) > 1 else np.full(4, np.nan)
    rows: list[Row] = []
    for name, error in zip(("scale", "power", "floor_x", "floor_y"), errors, strict=True):
        low, high = bounds.get(name, (np.nan, np.nan))
        value = float(getattr(fit, name))
        rows.append((name, value, float(error), low, high, fit.n, fit.status, fit.reason))
    return rows


def _two_stage(
    compute: np.ndarray, loss: np.ndarray, score: np.ndarray, chance: float, draws: int
) -> list[Row]:
    fit = fit_two_stage(compute, loss, score, chance=chance, draws=draws)
    if fit.status == "failed":
        return [_nothing(fit.n, fit.reason)]
    law = fit.loss_law
    values = {"scale": law.scale, "exponent": law.exponent, "offset": law.offset,
              "slope": fit.bend[0], "midpoint": fit.bend[1]}  # fmt: skip
    drawn = np.array([[d.scale, d.exponent, d.offset, *bend] for d, bend in fit.draws]).reshape(-1, 5)
    rows: list[Row] = []
    for (name, value), draw in zip(values.items(), drawn.T, strict=True):
        low, high = np.quantile(draw, [0.025, 0.975]) if len(draw) > 1 else (np.nan, np.nan)
        error = float(draw.std(ddof=1)) if len(draw) > 1 else np.nan
        rows.append((name, float(value), error, float(low), float(high), fit.n, fit.status, fit.reason))
    return rows


def _nothing(n: int, reason: str) -> Row:
    return ("", np.nan, np.nan, np.nan, np.nan, n, "failed", reason)
