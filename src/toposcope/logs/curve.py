"""Loss curves as forecasts use them: finished runs, and the observed part of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError, did_you_mean
from toposcope.core.forms import listed, step_text
from toposcope.core.wording import option
from toposcope.logs.glitches import glitches
from toposcope.logs.remarks import BROKEN, STOP, Remark
from toposcope.logs.run import all_different, by_step, wanted_rows
from toposcope.logs.schedule import Schedule, schedule_from_log

FINAL_SHARE = 0.02
"""The final loss is the mean over this last share of the planned steps (100 of 5,000)."""

LEAST_LOSSES = 3
"""The fewest losses of a run; each method also has its own minimum, `Forecaster.least_seen`."""

MOST_BELOW = 0.05
"""If more than this share of a column is below 0, it is not a loss with a logarithm."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The loss of one run, finished or not.

    `step` (n,) ascends without repeats; `loss` (n,) is in nats and finite; `rate` (n,) is the logged learning
    rate or NaN. `horizon` is the step at which the run will end, `schedule` the planned learning rate (None
    if unknown). `features` holds one row per measured step: a `step` column and one per feature. `covariates`
    are constants of the run (such as log parameters). `notes` say what was repaired. `endless` says why the
    last step of the run is unknown; it is empty if the step is known. `remarks` are what the rules say
    of the original log. `topology` names the features that their probes declare
    as a forecast's topology. `facts` has the values of `belonging.FACTS` and `SETTINGS` in the run's files,
    and `group` is the label of the run's group ("" if all runs belong together). `stated` is true if the log,
    a plan or the user states the horizon; `logged` is the last step of the log, whatever is logged there.
    """

    run: str
    step: np.ndarray
    loss: np.ndarray
    rate: np.ndarray
    horizon: int
    schedule: Schedule | None = None
    parameters: int = 0
    features: pd.DataFrame = field(default_factory=pd.DataFrame)
    covariates: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    endless: str = ""
    remarks: tuple[Remark, ...] = ()
    topology: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    stated: bool = False
    logged: float = 0.0
    _known: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def known(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the result of `make` for this curve, computed once per `key`."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def akin(self, other: Curve) -> bool:
        """Return whether both runs belong to the same group.

        >>> step = np.arange(1.0, 4.0)
        >>> one = Curve("a", step, 1 / step, step, 3, group="bpe")
        >>> one.akin(replace(one, run="b")), one.akin(replace(one, group="characters"))
        (True, False)
        """
        return self.group == other.group

    @property
    def last(self) -> int:
        """The last step with a loss."""
        return int(self.step[-1])

    @property
    def finished(self) -> bool:
        """Whether the log reaches the horizon (within the final-loss window)."""
        return not self.endless and self.last >= self.horizon * (1 - FINAL_SHARE)

    @property
    def ended(self) -> bool:
        """Whether the log reaches a stated end."""
        return self.stated and self.finished

    @property
    def over(self) -> bool:
        """Whether the log reaches a stated end with losses that cannot be used, so nothing is to forecast."""
        return self.stated and not self.finished and self.logged >= self.horizon * (1 - FINAL_SHARE)

    @property
    def broke(self) -> bool:
        """Whether the log diverges, is not finite or dead; a plateau and an ended rate do not count."""
        return any(remark.kind in BROKEN and remark.level == STOP for remark in self.remarks)

    def seen(self, cut: float) -> Curve:
        """Return the curve up to step `cut`: losses, rates and features so far, and the whole plan.

        `remarks` refer to the whole log, so they are kept only if nothing is cut off.
        """
        return self.known(("seen", float(cut)), lambda: self._seen(cut))

    def _seen(self, cut: float) -> Curve:
        keep = self.step <= cut
        features = self.features
        if len(features):
            is_seen = features["step"].to_numpy() <= cut
            count = int(is_seen.sum())  # a slice if steps ascend: this is called thousands of times
            features = features.iloc[:count] if is_seen[:count].all() else features[is_seen]
        return replace(
            self, step=self.step[keep], loss=self.loss[keep], rate=self.rate[keep], features=features,
            remarks=self.remarks if keep.all() else (),
        )  # fmt: skip

    def final_loss(self) -> float:
        """Return the mean loss over the last `FINAL_SHARE` of the horizon; NaN if nothing is logged there."""
        if not self.finished:
            return float("nan")
        last = self.loss[self.step > self.horizon * (1 - FINAL_SHARE)]
        return float(last.mean()) if len(last) else float("nan")

    def rose(self) -> bool:
        """Return whether a finished run ended over 5% above its first loss, so that others do not use it."""
        return self.finished and self.final_loss() > 1.05 * float(self.loss[0])

    def planned(self) -> Curve:
        """Return the curve with its plan fixed: the logged rate of a finished run counts as its plan."""
        return self.known("planned", lambda: replace(self, schedule=self.plan()))

    def plan(self) -> Schedule | None:
        """Return the planned schedule, or the logged one."""
        return self.schedule or schedule_from_log(self.step, self.rate)


def curve_from_metrics(
    run: str,
    metrics: pd.DataFrame,
    *,
    horizon: int | None = None,
    schedule: Schedule | None = None,
    parameters: int = 0,
    column: str = "loss",
    features: pd.DataFrame | None = None,
) -> Curve:
    """Build a curve from a metrics table (columns step, loss, learning_rate).

    Repeated steps are averaged, and rows without a finite, positive loss are left out; both are noted.

    Parameters
    ----------
    horizon : int, optional
        The step at which the run will end; by default the schedule's end, or else the last logged step.

    Raises
    ------
    InputError
        When fewer than three usable losses remain, more than 5% are below 0, or a schedule contradicts the
        logged learning rate.
    """
    if column not in metrics or "step" not in metrics:
        has = [
            str(name) for name in metrics.columns.drop("run", errors="ignore") if metrics[name].notna().any()
        ]
        raise InputError(
            f"run {run}: the metrics have no {column!r} by step (they have {', '.join(has[:12])}); "
            f"choose one with {option('column')} NAME{did_you_mean(column, has)}"
        )
    columns = {"step": metrics["step"].astype(float), "loss": metrics[column].astype(float)}
    table = pd.DataFrame(columns, copy=False)
    table["rate"] = metrics["learning_rate"].astype(float) if "learning_rate" in metrics else np.nan
    wanted = np.isfinite(table["loss"]) & (table["loss"] > 0) & (table["step"] >= 0)
    usable = wanted_rows(table, (wanted & np.isfinite(table["step"])).to_numpy())
    notes = _left_out(run, table["loss"].to_numpy())
    if not all_different(usable["step"]):
        notes.append(f"{int(usable['step'].duplicated().sum())} repeated steps averaged")
        usable = usable.groupby("step", as_index=False).mean()
    usable = by_step(usable)
    if len(usable) < LEAST_LOSSES:
        why = f" ({'; '.join(notes)})" if notes else ""
        few = f"run {run}: {len(usable):,} usable losses{why}; a forecast needs at least {LEAST_LOSSES}"
        if len(table) and not np.isfinite(table["loss"]).any():
            raise InputError(
                f"{few}: start it again with a lower rate, or choose another loss with {option('column')}"
            )
        raise InputError(few)
    wrong = glitches(usable["loss"].to_numpy(float))
    if wrong.any():
        notes.append(_listed(usable[wrong]))
        usable = usable[~wrong]
    step, loss, rate = (usable[name].to_numpy(float) for name in ("step", "loss", "rate"))
    end = horizon or (schedule.end if schedule is not None else math.ceil(step[-1]))
    if schedule is not None and schedule.end < 0.999 * max(end, step[-1]):
        raise InputError(
            f"run {run}: its schedule ends at step {schedule.end:,}, the run at {int(max(end, step[-1])):,}; "
            "give the whole plan"
        )
    if schedule is not None and (why := schedule.mismatch(step, rate)):
        raise InputError(f"run {run}: {why}; give the schedule that the run follows")
    if end < step[-1]:
        raise InputError(
            f"run {run}: horizon {end:,} is before its last logged step {int(step[-1]):,}; give a later step"
        )
    return Curve(
        run, step, loss, rate, int(end), schedule, parameters,
        features if features is not None else pd.DataFrame(), {}, tuple(notes),
        logged=float(table["step"][np.isfinite(table["step"])].max()),
    )  # fmt: skip


def _left_out(run: str, loss: np.ndarray) -> list[str]:
    """Return notes on unusable losses; refuse a run with more than a few losses below 0."""
    finite = np.isfinite(loss)
    below, zero = int((loss[finite] < 0).sum()), int((loss[finite] == 0).sum())
    if below > MOST_BELOW * finite.sum():
        raise InputError(
            f"run {run}: {below:,} of {int(finite.sum()):,} losses are below 0; a forecast takes their "
            f"logarithm: choose a loss above 0 with {option('column')}"
        )
    return [
        f"{count:,} row{'s' * (count != 1)} {what} left out"
        for count, what in (
            (int((~finite).sum()), "without a finite loss"),
            (below + zero, "with a loss not above 0"),
        )
        if count
    ]


def _listed(rows: pd.DataFrame, most: int = 5) -> str:
    """Return a note on the losses left out as glitches."""
    where = [
        f"{loss:.3g} at step {step_text(step)}" for step, loss in zip(rows["step"], rows["loss"], strict=True)
    ]
    count = "1 glitch left out" if len(where) == 1 else f"{len(where):,} losses left out as glitches"
    return f"{count}: {listed(where, most=most, last=', ')}"


@dataclass(frozen=True, slots=True)
class Binned:
    """A curve averaged over groups of steps: mean step, mean loss and number of losses per group."""

    step: np.ndarray
    loss: np.ndarray
    count: np.ndarray


def binned(curve: Curve, points: int = 200, *, after: float = 0.0) -> Binned:
    """Average the losses after step `after` into at most `points` groups of consecutive steps.

    Half of the groups are equal in steps, half in log steps, so that the steep beginning is not blurred.
    """
    keep = curve.step > after
    step, loss = curve.step[keep], curve.loss[keep]
    if len(step) <= points:
        return Binned(step, loss, np.ones(len(step)))
    even, steep = np.linspace(0, len(step), points // 2), np.geomspace(1, len(step), points // 2)
    edges = np.unique(np.concatenate([even, steep]).astype(int))
    count = np.diff(edges)
    return Binned(
        np.add.reduceat(step, edges[:-1]) / count,
        np.add.reduceat(loss, edges[:-1]) / count,
        count.astype(float),
    )


def level_and_slope(step: np.ndarray, loss: np.ndarray) -> tuple[float, float]:
    """Return the smoothed log loss at the last step and its slope d log L / d log step.

    This is the mean of linear and quadratic least-squares fits of log L on log step over the last 20, 30, 40
    and 50% of the steps seen. A single bandwidth would need tuning on scored runs, so several are averaged.

    Raises
    ------
    InputError
        When there is no loss.
    """
    if not len(step):
        raise InputError("there is no loss to smooth", remedy="cut the run at a later step")
    return _level_and_slope(np.asarray(step, float).tobytes(), np.asarray(loss, float).tobytes())


@lru_cache(maxsize=4096)
def _level_and_slope(steps: bytes, losses: bytes) -> tuple[float, float]:
    """Cache the result per curve and cut: each method reads all siblings, leaving out each in turn."""
    step, loss = np.frombuffer(steps), np.frombuffer(losses)
    end = step[-1]
    levels, slopes = [], []
    for share in (0.2, 0.3, 0.4, 0.5):
        near = step > end * (1 - share)
        if near.sum() < 4:
            continue
        u, v = np.log(step[near] / end), np.log(loss[near])
        for degree in (1, 2):
            coefficients = np.polynomial.polynomial.polyfit(u, v, degree)
            levels.append(coefficients[0])
            slopes.append(coefficients[1])
    if not levels:
        return float(np.log(loss[-min(3, len(loss)) :].mean())), float("nan")
    return float(np.mean(levels)), float(np.mean(slopes))


def level_error(step: np.ndarray, loss: np.ndarray) -> float:
    """Return the standard error of `level_and_slope`'s log level.

    sqrt(mean of the fits' squared standard errors at the last step + variance of their levels): the noise of
    the losses (assumed independent) and the effect of bandwidth and degree.
    """
    levels, errors = [], []
    for share in (0.2, 0.3, 0.4, 0.5):
        near = step > step[-1] * (1 - share)
        u, v = np.log(step[near] / step[-1]), np.log(loss[near])
        for degree in (1, 2):
            if len(u) < max(4, degree + 2):
                continue
            design = np.vander(u, degree + 1, increasing=True)
            coefficients = np.linalg.lstsq(design, v, rcond=None)[0]
            noise = float(np.sum((v - design @ coefficients) ** 2)) / (len(u) - degree - 1)
            levels.append(coefficients[0])
            errors.append(noise * np.linalg.pinv(design.T @ design)[0, 0])
    if not levels:
        last = np.log(loss[-min(3, len(loss)) :])
        return float(last.std(ddof=1) / np.sqrt(len(last))) if len(last) > 1 else float("nan")
    return float(np.sqrt(np.mean(errors) + np.var(levels)))
