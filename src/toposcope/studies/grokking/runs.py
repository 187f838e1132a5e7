"""The positive control: a transition that is known to happen, and when H1 and the held-out loss show it.

A transformer that learns addition modulo p ends with its residues on circles, one in the plane of each key
Fourier frequency, long after the training loss has fallen. In such a plane a circle is one long H1 bar.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from toposcope.core.errors import InputError
from toposcope.core.wording import command, free_place
from toposcope.sources import Series
from toposcope.statistics.phases.bends import LEAST_POINTS
from toposcope.statistics.phases.online import OnlineDetector
from toposcope.statistics.phases.reference import FALSE_ALARMS
from toposcope.studies.grokking.fourier import (
    COLUMNS,
    CONTROL,
    MEASURES,
    PLANES,
    FourierControl,
    FourierPlanes,
    bars_table,
    chosen,
    circle_bar,
    share_of,
)
from toposcope.studies.grokking.rises import LEAST_DRAWS, LevelMove, height, place, rank
from toposcope.studies.measuring import measured
from toposcope.study.segments import COLUMNS as SEGMENT_COLUMNS
from toposcope.study.segments import segments

DRAWS = 100
"""Controls without circles (`FourierControl`): the smallest p is then 1 in 101."""
CHOICES = {"own": "each checkpoint", "last": "the last checkpoint"}
"""The checkpoint at which the key frequencies are chosen by their power: without or with hindsight."""
LOSS = ("", "heldout_loss")
HEADLINE = ("own", "scaled")
"""The series that decides: it needs no hindsight, and does not move when the embedding only grows."""
CONTROLS = {"shuffled": "residues shuffled", "random": "random directions"}


@dataclass(frozen=True, slots=True)
class GrokkingRun:
    """One run at its n steps, as measured: `power` (n, p // 2) and `planes` (n, p // 2, 3) by frequency.

    A plane has its longest bar, its second longest, and its radius. `control` has the control's rows.
    """

    name: str
    steps: np.ndarray
    residues: int
    power: np.ndarray
    planes: np.ndarray
    control: pd.DataFrame
    loss: np.ndarray
    heldout_loss: np.ndarray


@dataclass(frozen=True, slots=True)
class GrokkingTurn:
    """A boundary after which a series moves as expected, by the search for changes: its step and 95% set."""

    step: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Detection:
    """The result for one series: the turns that the search finds, and the first of the online detector.

    `p` is that of the search for changes. `p_control` is the rank of the series' `height` among those of
    shuffled residues, of which the largest is `shuffled`; None if it has none. `rise` says where the series
    moves, if it rises beyond its shuffles; also for a loss, which has no shuffles.
    """

    turns: tuple[GrokkingTurn, ...]
    dated: float | None
    raised: float | None
    reason: str = ""
    p: float = float("nan")
    p_control: float | None = None
    height: float | None = None
    shuffled: float | None = None
    rise: LevelMove | None = None

    @property
    def found(self) -> bool:
        """Whether the series rises beyond its shuffles."""
        return self.p_control is not None and self.p_control <= FALSE_ALARMS

    @property
    def first(self) -> GrokkingTurn | None:
        """The earliest turn."""
        return self.turns[0] if self.turns else None


@dataclass(frozen=True, slots=True)
class StudiedRun:
    """A run, its bars by choice of frequencies, and findings by (choice, measure); the loss has no choice."""

    run: GrokkingRun
    bars: dict[str, pd.DataFrame]
    findings: dict[tuple[str, str], Detection]


def measure(
    series: Series, store: Path | None = None, *, draws: int = DRAWS, jobs: int = 1, quiet: bool = False
) -> list[GrokkingRun]:
    """Measure the Fourier planes of every run's token embedding, and `draws` controls; see `fourier`.

    With `store` the measurements stay there, and a stopped study continues.

    Raises
    ------
    InputError
        When a run is too short for the segment search, has no embedding, fewer residues than `KEYS`
        frequencies need, or no held-out loss.
    """
    losses = {run.run: _losses(series, run.run) for run in series.runs}
    recipe = {"probe": PLANES, "draws": draws}
    with measured(
        series, (FourierPlanes(), FourierControl(draws)), store, recipe=recipe, jobs=jobs, quiet=quiet
    ) as measurements:
        return [
            _run(run, table, measurements.features(PLANES, run=run), measurements.features(CONTROL, run=run))
            for run, table in losses.items()
        ]


def _losses(series: Series, run: str) -> pd.DataFrame:
    """Return the losses at a run's checkpoints, by step."""
    steps = [checkpoint.step for checkpoint in series.of_run(run)]
    if len(steps) < LEAST_POINTS + 2:
        raise InputError(
            f"run {run!r} has {len(steps):,} checkpoints; dating a transition needs {LEAST_POINTS + 2}"
        )
    table = series.metrics(run).drop_duplicates("step", keep="last").set_index("step").reindex(steps)
    heldout = table["heldout_loss"].to_numpy(float)
    if np.isfinite(heldout).sum() < LEAST_POINTS + 2:
        raise InputError(
            f"run {run!r} has a held-out loss at {int(np.isfinite(heldout).sum())} of its checkpoints; "
            "train one that has: " + command("train", recipe="grokking", out=free_place("grokking-runs"))
        )
    return table


def _run(name: str, losses: pd.DataFrame, measured: pd.DataFrame, control: pd.DataFrame) -> GrokkingRun:
    residues = int(measured.loc[measured["feature"] == "residues", "value"].iloc[0])
    planes = measured[measured["name"] != "model"]
    frequency = planes["name"].str.removeprefix("frequency ").astype(int)
    wide = {
        feature: of.pivot_table(index="step", columns="frequency", values="value").reindex(losses.index)
        for feature, of in planes.assign(frequency=frequency).groupby("feature")
    }
    bars = np.stack([wide[column].to_numpy(float) for column in COLUMNS], axis=2)
    return GrokkingRun(
        name, losses.index.to_numpy(float), residues, wide["power"].to_numpy(float), bars, control,
        losses["loss"].to_numpy(float), losses["heldout_loss"].to_numpy(float),
    )  # fmt: skip


def bars_of(run: GrokkingRun, choice: str) -> pd.DataFrame:
    """Return the measures of a run's key planes, one row per checkpoint: see `fourier.bars_table`."""
    keys = chosen(run.power, choice)
    return bars_table(np.take_along_axis(run.planes, keys[:, :, None] - 1, axis=1))


def power_of(run: GrokkingRun, choice: str) -> np.ndarray:
    """Return the share of variance (n,) on a run's key frequencies, which needs no topology."""
    return share_of(run.power, chosen(run.power, choice))


def detect(steps: np.ndarray, values: np.ndarray, sign: int) -> Detection:
    """Date the turns of a series by the calibrated segment search and by the online detector.

    A turn is a boundary after which the slope on log(step) has the expected `sign` and is steeper in that
    direction than before; in the segment search its 95% interval must also exclude 0.
    """
    table = pd.DataFrame(segments(steps, values), columns=list(SEGMENT_COLUMNS[2:]))
    reason = str(table["reason"].iloc[0])
    turns: list[GrokkingTurn] = []
    if table["status"].iloc[0] == "ok":
        slope = sign * table["slope"].to_numpy(float)
        wanted = table["direction"] == ("rising" if sign > 0 else "falling")
        rows: list[Any] = list(table.itertuples())
        turns = [
            GrokkingTurn(float(row.start_step), float(row.start_low), float(row.start_high))
            for i, row in enumerate(rows)
            if i > 0 and wanted.iloc[i] and slope[i] > slope[i - 1]
        ]
    dated, raised = _online_turn(steps, values, sign)
    return Detection(tuple(turns), dated, raised, reason, float(table["boundary_p"].iloc[0]))


def beyond_shuffled(run: GrokkingRun, measure: str, values: np.ndarray, sign: int) -> Detection:
    """Test whether a series rises (`sign` 1) or falls more than those of shuffled residues, and say where.

    Without circles the order of the residues has no meaning: a run and its shuffles are then exchangeable,
    and the rank of any statistic is exact. This statistic, the height of the highest step up, is as large for
    a rise over many checkpoints as for a jump. With fewer than `LEAST_DRAWS` shuffles there is no test.
    """
    rise = detect(run.steps, values, sign)
    rows = run.control[(run.control["name"] == "shuffled") & (run.control["feature"] == measure)]
    if rows["draw"].nunique() < LEAST_DRAWS:
        return rise
    wide = rows.pivot_table(index="step", columns="draw", values="value").reindex(run.steps)
    own_height, draws = height(sign * values), [height(sign * wide[draw].to_numpy(float)) for draw in wide]
    passed = replace(rise, p_control=rank(own_height, draws), height=own_height, shuffled=max(draws))
    return replace(passed, rise=place(run.steps, values, sign)) if passed.found else passed


def fall_of(steps: np.ndarray, loss: np.ndarray) -> LevelMove | None:
    """Return where a loss falls from its top to its end; untested, because a loss has no shuffles."""
    top = int(np.nanargmax(loss))
    return place(steps[top:], loss[top:], -1)


def alarms(steps: np.ndarray, values: np.ndarray) -> list[tuple[float, float]]:
    """Return (step to which the change is dated, step at which the alarm was raised) of all online alarms."""
    detector = OnlineDetector(steps)
    updates = [(detector.update(step, value), float(step)) for step, value in zip(steps, values, strict=True)]
    return [(dated, raised) for dated, raised in updates if dated is not None]


def _online_turn(steps: np.ndarray, values: np.ndarray, sign: int) -> tuple[float | None, float | None]:
    finite = (steps > 0) & np.isfinite(values)
    logs, levels = np.log(steps[finite]), values[finite]
    start = float(steps[finite][0])
    for dated, raised in alarms(steps, values):
        at = np.interp(np.log([start, dated, raised]), logs, levels)
        before, after = sign * np.diff(at) / np.diff(np.log([start, dated, raised]))
        if after > 0 and after > before:
            return dated, raised
        start = dated
    return None, None


def control(run: GrokkingRun, kind: str) -> dict[str, tuple[int, int]]:
    """Count in how many draws of a negative control the detectors fire: segments, online.

    `kind` is "shuffled" or "random", as in `FourierControl`; random directions have no power of a frequency.
    """
    counts: dict[str, tuple[int, int]] = {}
    of_kind = run.control[run.control["name"] == kind]
    for measure in [*MEASURES, "power"] if kind == "shuffled" else MEASURES:
        rows = of_kind[of_kind["feature"] == measure]
        wide = rows.pivot_table(index="step", columns="draw", values="value").reindex(run.steps)
        columns = [wide[draw].to_numpy(float) for draw in wide]
        offline = sum(len(segments(run.steps, values)) > 1 for values in columns)
        counts[measure] = offline, sum(bool(alarms(run.steps, values)) for values in columns)
    return counts


def study_run(run: GrokkingRun) -> StudiedRun:
    """Measure H1 in a run's key planes, by both choices of frequencies, and date its turns and the loss's."""
    bars = {choice: bars_of(run, choice) for choice in CHOICES}
    loss = detect(run.steps, run.heldout_loss, -1)
    findings = {LOSS: replace(loss, rise=fall_of(run.steps, run.heldout_loss))}
    for choice, table in bars.items():
        series = {measure: table[measure].to_numpy(float) for measure in MEASURES}
        series["power"] = power_of(run, choice)
        for measure, values in series.items():
            sign = MEASURES.get(measure, 1)
            findings[choice, measure] = (
                beyond_shuffled(run, measure, values, sign)
                if choice == "own"  # the shuffles choose at each checkpoint, too
                else detect(run.steps, values, sign)
            )
    return StudiedRun(run, bars, findings)


def figure(studied: StudiedRun) -> Figure:
    """Draw a run's losses and longest bars against the step, and mark where each is half way."""
    from toposcope.studies.grokking.figure import draw

    run = studied.run
    bars = {f"chosen at {CHOICES[choice]}": table["scaled"] for choice, table in studied.bars.items()}
    table = pd.DataFrame({"step": run.steps, "loss": run.loss, "heldout_loss": run.heldout_loss, **bars})
    marks = {"heldout_loss": LOSS, f"chosen at {CHOICES[HEADLINE[0]]}": HEADLINE}
    moves = [(series, studied.findings[key].rise) for series, key in marks.items()]
    turns = [
        {"series": series, "step": rise.middle, "low": rise.middle_low, "high": rise.middle_high}
        for series, rise in moves
        if rise is not None
    ]
    columns = ["series", "step", "low", "high"]
    return draw(table, pd.DataFrame(turns, columns=columns), circle=circle_bar(run.residues))
