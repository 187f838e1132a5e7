"""The loss of every sequence on a grid in parameter space: many parameters in one pass, tile by tile."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.processes import Ended, spread
from toposcope.core.progress import Progress
from toposcope.subjects.landscape.geometry.directions import Directions

if TYPE_CHECKING:
    from toposcope.models.objective import Objective

TILE = 64
"""The number of grid points that are evaluated, written and resumed together."""


@dataclass(frozen=True)
class Surface:
    r"""A sampled loss surface.

    `losses` is float64 of shape (r_1, ..., r_n, sequences): the grid axes in the order of the directions,
    then one axis for the sequences of the batch; `losses[i, j, s]` is the mean loss per token of sequence s
    at :math:`\theta + a_i d_1 + b_j d_2`, with a and b the coordinates in `axes`. A loss that is not finite
    is NaN. `counts` are the sequences' predicted tokens, int64: the weights of the mean.
    """

    axes: tuple[np.ndarray, ...]
    losses: np.ndarray
    counts: np.ndarray
    kind: str
    unit: str
    digest: str

    @property
    def mean(self) -> np.ndarray:
        """The loss, float64 of shape (r_1, ..., r_n): the mean over all predicted tokens."""
        return (self.losses * self.counts).sum(axis=-1) / self.counts.sum()

    @property
    def finite(self) -> np.ndarray:
        """Where every sequence's loss is finite, bool of shape (r_1, ..., r_n)."""
        return np.isfinite(self.losses).all(axis=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """How a surface is evaluated; no setting changes a loss by more than rounding.

    `together` is how many parameter vectors share a pass (None: as many as are efficient on the device).
    `folder` keeps the tiles, so that a stopped evaluation resumes. `jobs` is the number of processes, of one
    thread each.
    """

    together: int | None = None
    folder: Path | None = None
    jobs: int = 1
    quiet: bool = True


def sample_surface(
    objective: Objective,
    directions: Directions,
    axes: Sequence[np.ndarray],
    *,
    evaluation: Evaluation | None = None,
    digest: str = "",
) -> Surface:
    """Return the losses of every sequence on a grid around an objective's parameters.

    Parameters
    ----------
    objective : Objective
        The centre, the model and the batch.
    directions : Directions
        One for each axis.
    axes : sequence of arrays
        The coordinates along each direction, in its unit, increasing.
    evaluation : Evaluation, optional
        How it is done.
    digest : str, optional
        That of `surface_digest`, if it is known already.

    Raises
    ------
    InputError
        If the number of axes is not that of directions, or an axis is not increasing and finite.
    """
    evaluation = evaluation or Evaluation()
    grid = _axes(directions, axes)
    points = np.array(list(itertools.product(*grid)), dtype=np.float64).reshape(-1, len(grid))
    tiles = [points[start : start + TILE] for start in range(0, len(points), TILE)]
    digest = digest or surface_digest(objective, directions, grid)
    tile_losses: list[np.ndarray | None] = [
        _saved_tile(evaluation.folder, digest, i) for i in range(len(tiles))
    ]
    missing = [i for i, tile in enumerate(tile_losses) if tile is None]
    with Progress("sampling the loss", len(tiles), quiet=evaluation.quiet) as progress:
        progress.advance(len(tiles) - len(missing))
        for i, losses in _evaluated(objective, directions, [(i, tiles[i]) for i in missing], evaluation):
            _keep(evaluation.folder, digest, i, losses)
            tile_losses[i] = losses
            progress.advance(1)
    losses = np.concatenate([tile for tile in tile_losses if tile is not None])
    shape = (*map(len, grid), len(objective.batch))
    return Surface(
        grid, losses.reshape(shape), objective.batch.counts, directions.kind, directions.unit, digest
    )


def surface_digest(objective: Objective, directions: Directions, axes: Sequence[np.ndarray]) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of parameters, batch, directions and grid."""
    digest = hashlib.sha256(objective.digest.encode())
    digest.update(directions.vectors.contiguous().cpu().numpy().tobytes())
    for axis in axes:
        digest.update(np.ascontiguousarray(axis, dtype="<f8").tobytes() + b"|")
    return digest.hexdigest()[:16]


def _axes(directions: Directions, axes: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    if len(axes) != len(directions):
        raise InputError(f"{len(axes):,} axes for {len(directions):,} directions: give one for each")
    grid = tuple(np.asarray(axis, dtype=np.float64) for axis in axes)
    for number, axis in enumerate(grid):
        if axis.ndim != 1 or not len(axis) or not np.isfinite(axis).all() or (np.diff(axis) <= 0).any():
            raise InputError(
                f"axis {number} is not a row of increasing finite coordinates: {axis!r:.80}",
                remedy="correct it",
            )
    return grid


Work = tuple[int, np.ndarray]


def _evaluated(
    objective: Objective, directions: Directions, work: list[Work], evaluation: Evaluation
) -> Iterator[Work]:
    """Yield the losses (points, sequences) of every tile, in any order."""
    if evaluation.jobs <= 1 or len(work) < 2:
        evaluator = Evaluator(objective, directions, together=evaluation.together)
        yield from ((i, evaluator(points)) for i, points in work)
        return
    yield from _in_processes(objective, directions, work, evaluation)


class Evaluator:
    """Evaluates per-sequence losses at points of the grid."""

    def __init__(self, objective: Objective, directions: Directions, *, together: int | None = None) -> None:
        self._objective = objective
        here = objective.parameters
        self._centre, self._vectors = here, directions.vectors.to(here.device, here.dtype)
        self._together = together or _pays_off(objective)
        self._movable = objective.movable()

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return the losses, float64 (points, sequences); NaN where they are not finite."""
        import torch

        groups = [points[i : i + self._together] for i in range(0, len(points), self._together)]
        with torch.no_grad():
            losses = np.concatenate([self._group(group) for group in groups])
        return np.where(np.isfinite(losses), losses, np.nan)

    def _group(self, points: np.ndarray) -> np.ndarray:
        import torch

        steps = torch.from_numpy(points).to(self._centre.device, self._centre.dtype)
        moved = torch.addmm(self._centre[None], steps, self._vectors)
        if len(points) == 1 or self._together == 1:
            return np.stack([self._movable.per_sequence_losses(row) for row in moved])
        return self._objective.per_sequence_losses_at(moved)


def _pays_off(objective: Objective) -> int:
    """Return how many parameter vectors to evaluate at once; passes over few tokens are mostly overhead."""
    tokens = max(part.ids.numel() for part in objective.pieces)
    most = _TOKENS["cpu" if objective.model.device.type == "cpu" else "gpu"]
    return max(1, min(TILE, most // tokens))


_TOKENS = {"cpu": 2**11, "gpu": 2**17}
"""Tokens in one pass over all vectors: on a CPU, more gain nothing; on a GPU, this many fill it."""


def _in_processes(
    objective: Objective, directions: Directions, work: list[Work], evaluation: Evaluation
) -> Iterator[Work]:
    shared = objective, directions, evaluation.together
    with closing(spread(_worker, shared, work, workers=evaluation.jobs)) as events:
        for event in events:
            if isinstance(event, Ended):
                if isinstance(event.outcome, Exception):
                    raise event.outcome
                yield event.outcome


def _worker(
    shared: tuple[Objective, Directions, int | None],
) -> Callable[[Work, Callable[[object], None]], Work]:
    """Return a function that evaluates one tile in a process."""
    import torch

    torch.set_num_threads(1)
    objective, directions, together = shared
    evaluator = Evaluator(objective, directions, together=together)
    return lambda tile, say: (tile[0], evaluator(tile[1]))


def _tile_path(folder: Path, digest: str, index: int) -> Path:
    return folder / digest / f"tile_{index:06d}.npy"


def _saved_tile(folder: Path | None, digest: str, index: int) -> np.ndarray | None:
    """Return a tile that an earlier evaluation wrote; a damaged tile is evaluated again."""
    if folder is None:
        return None
    try:
        return np.load(_tile_path(folder, digest, index), allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None


def _keep(folder: Path | None, digest: str, index: int, losses: np.ndarray) -> None:
    from toposcope.sources.layout import write_aside

    if folder is None:
        return
    path = _tile_path(folder, digest, index)
    path.parent.mkdir(parents=True, exist_ok=True)

    def write(aside: Path) -> None:
        with open(aside, "wb") as file:
            np.save(file, losses)

    write_aside(path, write)


def symmetric_axis(reach: float, points: int) -> np.ndarray:
    """Return `points` coordinates from -`reach` to `reach` with 0 among them.

    >>> symmetric_axis(2.0, 5).tolist()
    [-2.0, -1.0, 0.0, 1.0, 2.0]

    Raises
    ------
    InputError
        When the number is even or below 3, or the reach is not positive and finite.
    """
    if points < 3 or points % 2 == 0:
        raise InputError(
            f"points is {points}; give an odd number of at least 3, so that the centre is on the grid"
        )
    if not (math.isfinite(reach) and reach > 0):
        raise InputError(f"reach is {reach}; give a positive finite number")
    axis = np.linspace(-reach, reach, points)
    axis[points // 2] = 0.0
    return axis
