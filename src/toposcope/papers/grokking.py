"""The positive control: a transition that is known to happen, and when H1 sees it beside the held-out loss.

A transformer that learns addition modulo p ends with its residues on circles, one in the plane of each key
Fourier frequency, long after the training loss has fallen. In such a plane a circle is one long H1 bar.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from toposcope.core.commands import free_place
from toposcope.core.errors import InputError
from toposcope.core.wording import command
from toposcope.papers.fourier import (
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
from toposcope.papers.measuring import measured
from toposcope.sources.series import Series
from toposcope.statistics.phases.bends import LEAST_POINTS
from toposcope.statistics.phases.online import OnlineDetector
from toposcope.study.segments import COLUMNS as SEGMENT_COLUMNS
from toposcope.study.segments import gain_of, segments

DRAWS = 100
P_VALUE = SEGMENT_COLUMNS.index("boundary_p") - 2
LEAST_DRAWS = 19
"""Fewer draws of a control cannot give a p-value of .05."""
CHOICES = {"own": "each checkpoint", "last": "the last checkpoint"}
"""When the key frequencies are chosen by their power: without hindsight, or looking back."""
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
    """A boundary after which a series moves as awaited: its step, 95% set, and slope on log(step)."""

    step: float
    low: float
    high: float
    slope: float


@dataclass(frozen=True, slots=True)
class Detection:
    """What both detectors say of one series: its turns, and the online alarm for the first one (or None).

    `p` is that of the segment search; `p_control` that among the shuffled residues, or None without them.
    """

    turns: tuple[GrokkingTurn, ...]
    sign: int
    dated: float | None
    raised: float | None
    reason: str = ""
    p: float = float("nan")
    p_control: float | None = None

    @property
    def first(self) -> GrokkingTurn | None:
        """The earliest turn."""
        return self.turns[0] if self.turns else None

    @property
    def steepest(self) -> GrokkingTurn | None:
        """The turn into the steepest slope in the awaited direction."""
        return max(self.turns, key=lambda turn: self.sign * turn.slope, default=None)


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

    With `store` the measurements stay there, and a stopped study goes on.

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
    ) as kept:
        return [
            _run(run, table, kept.features(PLANES, run=run), kept.features(CONTROL, run=run))
            for run, table in losses.items()
        ]


def _losses(series: Series, run: str) -> pd.DataFrame:
    """Return the losses at a run's checkpoints, by step."""
    steps = [checkpoint.step for checkpoint in series.of_run(run)]
    if len(steps) < LEAST_POINTS + 2:
        raise InputError(
            f"run {run!r} has {len(steps)} checkpoints; dating a transition needs {LEAST_POINTS + 2}"
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
    """Return the share of variance (n,) on a run's key frequencies: what is known without topology."""
    return share_of(run.power, chosen(run.power, choice))


def detect(steps: np.ndarray, values: np.ndarray, sign: int, p_control: float | None = None) -> Detection:
    """Date the turns of a series by the calibrated segment search and by the online detector.

    A turn is a boundary after which the slope on log(step) has the awaited `sign` and is steeper that way
    than before it; in the segment search its 95% interval must also exclude 0. With `p_control` there are
    turns where that is at most 5%, whatever a search that knows nothing of the control would say.
    """
    table = pd.DataFrame(segments(steps, values, p=p_control), columns=list(SEGMENT_COLUMNS[2:]))
    alone = float(table["boundary_p"].iloc[0])
    if p_control is not None:
        alone = float(segments(steps, values, one=True)[0][P_VALUE])  # type: ignore[arg-type]
    reason = str(table["reason"].iloc[0])
    turns: list[GrokkingTurn] = []
    if table["status"].iloc[0] == "ok":
        slope = sign * table["slope"].to_numpy(float)
        wanted = table["direction"] == ("rising" if sign > 0 else "falling")
        rows: list[Any] = list(table.itertuples())
        turns = [
            GrokkingTurn(float(row.start_step), float(row.start_low), float(row.start_high), float(row.slope))
            for i, row in enumerate(rows)
            if i > 0 and wanted.iloc[i] and slope[i] > slope[i - 1]
        ]
    dated, raised = _online_turn(steps, values, sign)
    return Detection(tuple(turns), sign, dated, raised, reason, alone, p_control)


def among_shuffled(run: GrokkingRun, measure: str, values: np.ndarray) -> float | None:
    """Return the p-value of a series' gain among those of shuffled residues; None where they are too few.

    Without circles the order of the residues says nothing: a run and its shuffles are then exchangeable.
    """
    rows = run.control[(run.control["name"] == "shuffled") & (run.control["feature"] == measure)]
    if rows["draw"].nunique() < LEAST_DRAWS:
        return None
    wide = rows.pivot_table(index="step", columns="draw", values="value").reindex(run.steps)
    gains = np.array([gain_of(run.steps, wide[draw].to_numpy(float)) for draw in wide])
    return (1.0 + float(np.sum(gains >= gain_of(run.steps, values)))) / (1.0 + len(gains))


def alarms(steps: np.ndarray, values: np.ndarray) -> list[tuple[float, float]]:
    """Return (step to which the change is dated, step at which the alarm was raised) of all online alarms."""
    detector = OnlineDetector(steps)
    found = [(detector.update(step, value), float(step)) for step, value in zip(steps, values, strict=True)]
    return [(dated, raised) for dated, raised in found if dated is not None]


def _online_turn(steps: np.ndarray, values: np.ndarray, sign: int) -> tuple[float | None, float | None]:
    known = (steps > 0) & np.isfinite(values)
    logs, levels = np.log(steps[known]), values[known]
    start = float(steps[known][0])
    for dated, raised in alarms(steps, values):
        at = np.interp(np.log([start, dated, raised]), logs, levels)
        before, after = sign * np.diff(at) / np.diff(np.log([start, dated, raised]))
        if after > 0 and after > before:
            return dated, raised
        start = dated
    return None, None


def control(run: GrokkingRun, kind: str) -> dict[str, tuple[int, int]]:
    """Count in how many draws of a negative control the detectors fire at all: segments, online.

    "shuffled" and "random" are those of `FourierControl`; random directions have no power of a frequency.
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
    findings = {("", "heldout_loss"): detect(run.steps, run.heldout_loss, -1)}
    for choice, table in bars.items():
        for measure, sign in MEASURES.items():
            values = table[measure].to_numpy(float)
            p = among_shuffled(run, measure, values) if choice == "own" else None
            findings[choice, measure] = detect(run.steps, values, sign, p)
        findings[choice, "power"] = detect(run.steps, power_of(run, choice), 1)
    return StudiedRun(run, bars, findings)


def figure(studied: StudiedRun) -> Figure:
    """Draw a run's losses and longest bars against the step, with the boundaries that were dated."""
    from toposcope.papers.grokking_figure import draw

    run = studied.run
    bars = {f"chosen at {CHOICES[choice]}": table["scaled"] for choice, table in studied.bars.items()}
    table = pd.DataFrame({"step": run.steps, "loss": run.loss, "heldout_loss": run.heldout_loss, **bars})
    marks = {"heldout_loss": ("", "heldout_loss")} | {
        f"chosen at {name}": (choice, "scaled") for choice, name in CHOICES.items()
    }
    turns = [
        {"series": series, "step": turn.step, "low": turn.low, "high": turn.high}
        for series, key in marks.items()
        for turn in studied.findings[key].turns
    ]
    columns = ["series", "step", "low", "high"]
    return draw(table, pd.DataFrame(turns, columns=columns), circle=circle_bar(run.residues))
