"""Circles in an embedding's Fourier planes: the H1 bars of every plane, and of planes without a circle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.core.types import Feature, Kind, Role, Scope
from toposcope.subjects import Cost, Label, Measured, Probe, Snapshot
from toposcope.topology import rips
from toposcope.training import fourier_plane, frequency_power

KEYS = 5
"""Key frequencies whose planes are measured; Nanda et al. 2023 found five in their network."""
PLANES, CONTROL = "fourier_planes", "fourier_control"
COLUMNS = ("longest", "second", "radius")
MEASURES = {"longest": 1, "scaled": 1, "second_share": -1}
"""Each measure and the direction in which it moves when noise turns into circles."""

FEATURES = (
    Feature("longest", "longest H1 bar of a Fourier plane", "weight"),
    Feature("scaled", "longest H1 bar / rms radius"),
    Feature("second", "second H1 bar of a Fourier plane", "weight", Kind.NOISE),
    Feature("second_share", "second H1 bars / longest ones", kind=Kind.NOISE),
    Feature("radius", "rms radius of a Fourier plane", "weight", Kind.BASELINE),
    Feature("power", "share of variance on a frequency", kind=Kind.BASELINE),
    Feature("residues", "number of residues", kind=Kind.NOISE),
)


@dataclass(frozen=True)
class FourierPlanes(Probe):
    """H1 of the token embedding in the plane of every frequency 1 .. p // 2, p being the number of tokens.

    For each frequency (`name` "frequency k"): `longest` and `second`, the lengths of the two longest H1 bars
    (0 where there is none), `radius`, the points' rms radius, and `power`, the frequency's share of the
    embedding's variance. For the model: `residues`, the number p.
    """

    name: str = PLANES
    cost = Cost.COSTLY
    features: tuple[Feature, ...] = field(default=FEATURES, repr=False)

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the rows of one checkpoint."""
        table, at = embedding_of(snapshot), snapshot.checkpoint
        rows = Label("model").rows(at, self.name, {"residues": float(len(table))})
        for index, power in enumerate(frequency_power(table)):
            bars = plane_bars(fourier_plane(table, index + 1))
            values = dict(zip(COLUMNS, bars, strict=True)) | {"power": float(power)}
            label = Label(f"frequency {index + 1}", Role.EMBEDDING, scope=Scope.MATRIX)
            rows += label.rows(at, self.name, values, filtration="euclidean")
        return Measured(rows)


@dataclass(frozen=True)
class FourierControl(Probe):
    """The same measures in planes without circles, `draws` times each.

    `name` "shuffled": the residues are permuted, in the same way at every checkpoint; the frequencies of
    largest power are chosen anew at each, so that the control includes the effect of choosing. "random": the
    same number of planes with random directions, the same at every checkpoint.
    """

    draws: int
    name: str = CONTROL
    cost = Cost.COSTLY
    features: tuple[Feature, ...] = field(default=FEATURES, repr=False)

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the rows of one checkpoint."""
        table, at, measured = embedding_of(snapshot), snapshot.checkpoint, Measured()
        for draw in range(self.draws):
            for kind, values in _controls(table, at.run, draw):
                label = Label(kind, Role.EMBEDDING, scope=Scope.MATRIX)
                measured.rows += label.rows(at, self.name, values, filtration="euclidean", draw=draw)
        return measured


def _controls(table: np.ndarray, run: str, draw: int) -> Iterator[tuple[str, dict[str, float]]]:
    generator = rng(name="grokking-shuffled", run=run, draw=draw)
    shuffled = table[None, generator.permutation(len(table))]
    bars = fourier_bars(shuffled, "own").iloc[0]
    power = float(power_share(shuffled, "own")[0])
    yield "shuffled", {name: float(bars[name]) for name in MEASURES} | {"power": power}
    bars = random_bars(table[None], rng(name="grokking-random", run=run, draw=draw)).iloc[0]
    yield "random", {name: float(bars[name]) for name in MEASURES}


def embedding_of(snapshot: Snapshot) -> np.ndarray:
    """Return the embedding with the most rows, float64: there are more residues than positions.

    Raises
    ------
    InputError
        If there is none, or it has fewer rows than `KEYS` frequencies need.
    """
    at = snapshot.checkpoint
    embeddings = [matrix.values for matrix in snapshot.matrices() if matrix.role == Role.EMBEDDING]
    if not embeddings:
        raise InputError(f"run {at.run!r} step {at.step:,} has no embedding matrix")
    table = max(embeddings, key=len)
    if len(table) // 2 < KEYS:
        raise InputError(
            f"the embedding of run {at.run!r} has {len(table):,} rows; {KEYS} frequencies need at least "
            f"{2 * KEYS}"
        )
    return table.astype(np.float64)


def key_frequencies(power: np.ndarray, count: int = KEYS) -> np.ndarray:
    """Return the `count` frequencies of largest power, strongest first; `power` begins at frequency 1.

    >>> key_frequencies(np.array([0.1, 0.2, 0.6, 0.1]), 2).tolist()
    [3, 2]
    """
    return np.argsort(power, kind="stable")[::-1][:count] + 1


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
    """Measure H1 in the planes of the key frequencies of embeddings (n, p, width); one row per embedding.

    See `bars_table` for the columns, and `chosen` for the choice.
    """
    keys = chosen(np.stack([frequency_power(table) for table in embeddings]), choice)
    planes = [
        [plane_bars(fourier_plane(table, int(k))) for k in of_table]
        for table, of_table in zip(embeddings, keys, strict=True)
    ]
    return bars_table(np.array(planes))


def chosen(power: np.ndarray, choice: str) -> np.ndarray:
    """Return the key frequencies (n, KEYS) at n checkpoints whose powers are (n, frequencies).

    "own": the frequencies of largest power at each checkpoint, which needs no hindsight. "last": those of
    the last checkpoint, a retrospective choice.
    """
    return np.stack([key_frequencies(power[-1] if choice == "last" else row) for row in power])


def power_share(embeddings: np.ndarray, choice: str) -> np.ndarray:
    """Return the share of variance (n,) on the key frequencies, which needs no topology."""
    power = np.stack([frequency_power(table) for table in embeddings])
    return share_of(power, chosen(power, choice))


def share_of(power: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return the sum of the powers (n, frequencies) over the chosen frequencies (n, KEYS)."""
    return np.array([row[key - 1].sum() for row, key in zip(power, keys, strict=True)])


def random_bars(embeddings: np.ndarray, generator: np.random.Generator) -> pd.DataFrame:
    """Measure H1 in `KEYS` planes of random directions, the same for every embedding."""
    width = embeddings.shape[2]
    frames = [np.linalg.qr(generator.standard_normal((width, 2)))[0] for _ in range(KEYS)]
    return bars_table(np.array([[plane_bars(table @ frame) for frame in frames] for table in embeddings]))


def bars_table(planes: np.ndarray) -> pd.DataFrame:
    """Return the measures of planes (n, KEYS, 3), each with its longest bar, second longest, and radius.

    longest (mean over planes, in the embedding's units), scaled (mean over planes of the longest bar
    divided by the plane's rms radius: free of the embedding's norm), ratio (sum of the longest over
    sum of the second longest bars; infinite when no plane has a second), second_share (1 / ratio).
    """
    longest, second, radius = np.moveaxis(planes, 2, 0)
    total, rest = longest.sum(axis=1), second.sum(axis=1)
    size = np.where(radius > 0, radius, 1.0)
    divisor = np.where(total > 0, total, 1.0)
    return pd.DataFrame({
        "longest": longest.mean(axis=1),
        "scaled": (longest / size).mean(axis=1),
        "ratio": np.where(rest > 0, total / np.where(rest > 0, rest, 1.0), np.inf),
        "second_share": np.where(total > 0, rest / divisor, 1.0),
    })  # fmt: skip


def circle_bar(points: int) -> float:
    """Return `scaled` for equally spaced points on a circle: the value of a perfect solution.

    >>> round(circle_bar(59), 3)
    1.643
    """
    angles = 2.0 * np.pi * np.arange(points) / points
    longest, _, radius = plane_bars(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    return longest / radius
