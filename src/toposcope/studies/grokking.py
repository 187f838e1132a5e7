"""The positive control: a transition that is known to happen, and when H1 sees it beside the held-out loss.

A transformer that learns addition modulo p ends with its residues on circles, one in the plane of each key
Fourier frequency, long after the training loss has fallen. In such a plane a circle is one long H1 bar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from toposcope.analysis.phases.bends import LEAST_POINTS
from toposcope.analysis.phases.online import OnlineDetector
from toposcope.analysis.phases.segments import COLUMNS, segments
from toposcope.errors import InputError
from toposcope.progress import track
from toposcope.seeding import rng
from toposcope.sources import open_series
from toposcope.sources.series import Series
from toposcope.topology import rips
from toposcope.train.grokking import fourier_plane, frequency_power
from toposcope.types import Checkpoint, Role

KEYS = 5
"""Key frequencies whose planes are measured; Nanda et al. 2023 found five in their network."""
DRAWS = 100
MEASURES = {"longest": 1, "scaled": 1, "second_share": -1}
"""Each measure and the direction in which it moves when noise turns into circles."""
CHOICES = {"own": "each checkpoint", "last": "the last checkpoint"}
"""When the key frequencies are chosen by their power: without hindsight, or looking back."""
CONTROLS = {"shuffled": "residues shuffled", "random": "random directions"}


@dataclass(frozen=True, slots=True)
class GrokkingRun:
    """One run: steps (n,), token embeddings (n, p, width) float64, and the losses at those steps."""

    name: str
    steps: np.ndarray
    embeddings: np.ndarray
    loss: np.ndarray
    heldout_loss: np.ndarray


@dataclass(frozen=True, slots=True)
class Turn:
    """A boundary after which a series moves as awaited: its step, 95% set, and slope on log(step)."""

    step: float
    low: float
    high: float
    slope: float


@dataclass(frozen=True, slots=True)
class Finding:
    """What both detectors say of one series: its turns, and the online alarm for the first one (or None)."""

    turns: tuple[Turn, ...]
    sign: int
    dated: float | None
    raised: float | None
    reason: str = ""

    @property
    def first(self) -> Turn | None:
        """The earliest turn."""
        return self.turns[0] if self.turns else None

    @property
    def steepest(self) -> Turn | None:
        """The turn into the steepest slope in the awaited direction."""
        return max(self.turns, key=lambda turn: self.sign * turn.slope, default=None)


@dataclass(frozen=True, slots=True)
class StudiedRun:
    """A run, its bars by choice of frequencies, and findings by (choice, measure); the loss has no choice."""

    run: GrokkingRun
    bars: dict[str, pd.DataFrame]
    findings: dict[tuple[str, str], Finding]


def read_runs(uri: str, *, quiet: bool = False) -> list[GrokkingRun]:
    """Return the token embeddings and losses of every run at `uri`.

    Raises
    ------
    InputError
        When a run is too short for the segment search, has no embedding, fewer residues than `KEYS`
        frequencies need, or no held-out loss.
    """
    series = open_series(uri)
    return [_read_run(series, run.run, quiet) for run in series.runs]


def _read_run(series: Series, run: str, quiet: bool) -> GrokkingRun:
    checkpoints = series.of_run(run)
    if len(checkpoints) < LEAST_POINTS + 2:
        raise InputError(
            f"run {run!r} has {len(checkpoints)} checkpoints; dating a transition needs {LEAST_POINTS + 2}"
        )
    steps = np.array([checkpoint.step for checkpoint in checkpoints], float)
    metrics = series.metrics(run).drop_duplicates("step", keep="last").set_index("step").reindex(steps)
    heldout = metrics["heldout_loss"].to_numpy(float)
    if np.isfinite(heldout).sum() < LEAST_POINTS + 2:
        raise InputError(
            f"run {run!r} has a held-out loss at {int(np.isfinite(heldout).sum())} of its checkpoints; "
            "train it with `toposcope train --recipe grokking`"
        )
    tables = [_embedding(series, checkpoint) for checkpoint in track(checkpoints, "reading", quiet=quiet)]
    return GrokkingRun(run, steps, np.stack(tables), metrics["loss"].to_numpy(float), heldout)


def _embedding(series: Series, checkpoint: Checkpoint) -> np.ndarray:
    """Return the embedding with most rows: positions have fewer than residues."""
    found = [m.values for m in series.matrices(checkpoint) if m.role == Role.EMBEDDING]
    if not found:
        raise InputError(f"run {checkpoint.run!r} step {checkpoint.step} has no embedding matrix")
    table = max(found, key=len)
    if len(table) // 2 < KEYS:
        raise InputError(
            f"the embedding of run {checkpoint.run!r} has {len(table)} rows; {KEYS} frequencies need "
            f"at least {2 * KEYS}"
        )
    return table.astype(np.float64)


def key_frequencies(embedding: np.ndarray, count: int = KEYS) -> np.ndarray:
    """Return the `count` frequencies of largest power of an embedding (p, width), strongest first.

    >>> angles = np.arange(11) * 3 * (2 * np.pi / 11)
    >>> key_frequencies(np.stack([np.cos(angles), np.sin(angles)], axis=1), 1).tolist()
    [3]
    """
    return np.argsort(frequency_power(embedding), kind="stable")[::-1][:count] + 1


def plane_bars(points: np.ndarray) -> tuple[float, float, float]:
    """Return the longest H1 bar of points (p, 2), the second longest, and the points' rms radius.

    Bars that do not exist have length 0. Lengths are in the units of the points.
    """
    diagram = rips(points)[1]
    lengths = np.sort(diagram.death - diagram.birth)[::-1]
    longest, second = np.concatenate([lengths, [0.0, 0.0]])[:2]
    radius = np.sqrt(((points - points.mean(axis=0)) ** 2).sum(axis=1).mean())
    return float(longest), float(second), float(radius)


def fourier_bars(embeddings: np.ndarray, choice: str) -> pd.DataFrame:
    """Measure H1 in the planes of the key frequencies; one row per checkpoint.

    Parameters
    ----------
    embeddings
        Shape (n, p, width).
    choice
        "own": the frequencies of largest power at each checkpoint. "last": those of the last checkpoint,
        a retrospective choice.

    Returns
    -------
    DataFrame
        longest (mean over planes, in the embedding's units), scaled (mean over planes of the longest bar
        divided by the plane's rms radius: free of the embedding's norm), ratio (sum of the longest over
        sum of the second longest bars; infinite when no plane has a second), second_share (1 / ratio).
    """
    last = key_frequencies(embeddings[-1])
    planes = []
    for table in embeddings:
        chosen = last if choice == "last" else key_frequencies(table)
        planes.append([plane_bars(fourier_plane(table, int(k))) for k in chosen])
    return _bars_table(planes)


def power_share(embeddings: np.ndarray, choice: str) -> np.ndarray:
    """Return the share of variance (n,) on the key frequencies: what is known of them without topology."""
    last = key_frequencies(embeddings[-1])
    chosen = [last if choice == "last" else key_frequencies(table) for table in embeddings]
    return np.array([
        frequency_power(table)[keys - 1].sum() for table, keys in zip(embeddings, chosen, strict=True)
    ])  # fmt: skip


def random_bars(embeddings: np.ndarray, generator: np.random.Generator) -> pd.DataFrame:
    """Measure H1 in as many planes of random directions, the same at every checkpoint."""
    width = embeddings.shape[2]
    frames = [np.linalg.qr(generator.standard_normal((width, 2)))[0] for _ in range(KEYS)]
    return _bars_table([[plane_bars(table @ frame) for frame in frames] for table in embeddings])


def _bars_table(planes: list[list[tuple[float, float, float]]]) -> pd.DataFrame:
    longest, second, radius = np.moveaxis(np.array(planes), 2, 0)
    total, rest = longest.sum(axis=1), second.sum(axis=1)
    size = np.where(radius > 0, radius, 1.0)
    one = np.where(total > 0, total, 1.0)
    return pd.DataFrame({
        "longest": longest.mean(axis=1),
        "scaled": (longest / size).mean(axis=1),
        "ratio": np.where(rest > 0, total / np.where(rest > 0, rest, 1.0), np.inf),
        "second_share": np.where(total > 0, rest / one, 1.0),
    })  # fmt: skip


def circle_bar(points: int) -> float:
    """Return `scaled` of equally spaced points on a circle: what a perfect solution would reach.

    >>> round(circle_bar(59), 3)
    1.643
    """
    angles = 2.0 * np.pi * np.arange(points) / points
    longest, _, radius = plane_bars(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    return longest / radius


def detect(steps: np.ndarray, values: np.ndarray, sign: int) -> Finding:
    """Date the turns of a series by the calibrated segment search and by the online detector.

    A turn is a boundary after which the slope on log(step) has the awaited `sign` and is steeper that way
    than before it; in the segment search its 95% interval must also exclude 0.
    """
    table = pd.DataFrame(segments(steps, values), columns=list(COLUMNS[2:]))
    reason = str(table["reason"].iloc[0])
    turns: list[Turn] = []
    if table["status"].iloc[0] == "ok":
        slope = sign * table["slope"].to_numpy(float)
        wanted = table["direction"] == ("rising" if sign > 0 else "falling")
        rows: list[Any] = list(table.itertuples())
        turns = [
            Turn(float(row.start_step), float(row.start_low), float(row.start_high), float(row.slope))
            for i, row in enumerate(rows)
            if i > 0 and wanted.iloc[i] and slope[i] > slope[i - 1]
        ]
    dated, raised = _online_turn(steps, values, sign)
    return Finding(tuple(turns), sign, dated, raised, reason)


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


def control(
    run: GrokkingRun, kind: str, *, draws: int = DRAWS, quiet: bool = False
) -> dict[str, tuple[int, int]]:
    """Count in how many draws of a negative control the detectors fire at all: segments, online.

    "shuffled": the residues are permuted, the same way at every checkpoint, and the frequencies of largest
    power chosen anew at each: it holds what choosing does. "random": fixed random directions, which have
    no power of a frequency.
    """
    counts = dict.fromkeys([*MEASURES, "power"] if kind == "shuffled" else MEASURES, (0, 0))
    for draw in track(range(draws), CONTROLS[kind], quiet=quiet):
        generator = rng(name=f"grokking-{kind}", run=run.name, draw=draw)
        if kind == "shuffled":
            shuffled = run.embeddings[:, generator.permutation(run.embeddings.shape[1])]
            table = fourier_bars(shuffled, "own").assign(power=power_share(shuffled, "own"))
        else:
            table = random_bars(run.embeddings, generator)
        for measure, (offline, online) in counts.items():
            values = table[measure].to_numpy(float)
            fired = len(segments(run.steps, values)) > 1, bool(alarms(run.steps, values))
            counts[measure] = (offline + fired[0], online + fired[1])
    return counts


def study_run(run: GrokkingRun) -> StudiedRun:
    """Measure H1 in a run's key planes, by both choices of frequencies, and date its turns and the loss's."""
    bars = {choice: fourier_bars(run.embeddings, choice) for choice in CHOICES}
    findings = {("", "heldout_loss"): detect(run.steps, run.heldout_loss, -1)}
    for choice, table in bars.items():
        for measure, sign in MEASURES.items():
            findings[choice, measure] = detect(run.steps, table[measure].to_numpy(float), sign)
        findings[choice, "power"] = detect(run.steps, power_share(run.embeddings, choice), 1)
    return StudiedRun(run, bars, findings)


def figure(studied: StudiedRun) -> Figure:
    """Draw a run's losses and longest bars against the step, with the boundaries that were dated."""
    from toposcope.figures.grokking import draw

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
    return draw(table, pd.DataFrame(turns, columns=columns), circle=circle_bar(run.embeddings.shape[1]))
