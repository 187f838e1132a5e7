"""Paths between two sets of parameters: the straight line, a bent one, and the barrier on either."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.distributions import student_quantile
from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.core.wording import command

if TYPE_CHECKING:
    import torch

    from toposcope.models.objective import Objective

_LEAST = 4
"""The fewest sequences for the interval of a barrier."""


@dataclass(frozen=True)
class PathLosses:
    """Losses along a path: `at` (k,) from 0 to 1, `losses` float64 (k, sequences); `note` describes it."""

    at: np.ndarray
    losses: np.ndarray
    note: str = ""


@dataclass(frozen=True, slots=True)
class Barrier:
    """The highest rise above the line between the ends' losses, at `at`, with its paired interval."""

    at: float
    height: float
    low: float
    high: float
    level: float
    note: str = ""


def barrier(path: PathLosses, *, level: float = 0.95) -> Barrier:
    r"""Return the barrier of a path with its interval over sequences.

    .. math:: b = \max_t \; L(t) - (1 - t) L(0) - t L(1)

    The place is chosen on the sequences 0, 2, 4, ...; the height and Student's interval come from the others.
    So the choice does not bias them: without a barrier, the height is around 0 or below.

    Raises
    ------
    InputError
        With fewer than four sequences, or losses that are not finite.

    Examples
    --------
    >>> at = np.linspace(0, 1, 5)
    >>> hill = np.array([0, 1, 2, 1, 0])[:, None] + np.arange(4.0)
    >>> found = barrier(PathLosses(at, hill))
    >>> found.at, found.height, found.low
    (0.5, 2.0, 2.0)
    """
    count = path.losses.shape[1]
    if count < _LEAST:
        raise InputError(f"the path has {count:,} sequences; a barrier with an interval needs {_LEAST}")
    if not np.isfinite(path.losses).all():
        raise InputError(
            f"a loss on the path is not finite; look for errors with {command('audit', 'SERIES')}"
        )
    ends = np.outer(1 - path.at, path.losses[0]) + np.outer(path.at, path.losses[-1])
    rise = path.losses - ends
    chosen = int(np.argmax(rise[:, ::2].mean(axis=1)))
    others = rise[chosen, 1::2]
    half = float(
        student_quantile((1 + level) / 2, len(others) - 1) * others.std(ddof=1) / np.sqrt(len(others))
    )
    mean = float(others.mean())
    return Barrier(float(path.at[chosen]), mean, mean - half, mean + half, level, path.note)


def linear_path(
    objective: Objective, start: torch.Tensor, end: torch.Tensor, *, points: int = 21, note: str = ""
) -> PathLosses:
    """Return the losses on the straight line between two flat parameter vectors."""
    return _along(objective, lambda t: (1 - t) * start + t * end, points, note or "straight line")


def bezier_path(
    objective: Objective, start: torch.Tensor, control: torch.Tensor, end: torch.Tensor, *, points: int = 21,
    note: str = "",
) -> PathLosses:  # fmt: skip
    """Return the losses on a quadratic Bezier curve; see `bent_control` for its middle point."""
    return _along(objective, lambda t: _bezier(start, control, end, t), points, note or "Bezier curve")


def bent_control(
    objective: Objective, start: torch.Tensor, end: torch.Tensor, *, steps: int = 50, rate: float = 1e-2,
    **axes: int | str,
) -> torch.Tensor:  # fmt: skip
    r"""Return the control point that lowers the mean loss on the curve, from the middle of the line on.

    .. math:: \theta(t) = (1 - t)^2 \theta_0 + 2 t (1 - t) c + t^2 \theta_1

    by Adam on a random t in each step (Garipov et al. 2018). Give it another batch than that on which the
    barrier is measured.
    """
    import torch

    control = (0.5 * (start + end)).clone().requires_grad_()
    optimiser = torch.optim.Adam([control], lr=rate)
    generator = rng(name="bezier", **axes)
    for t in generator.uniform(0.0, 1.0, steps):
        gradient = objective.at(_bezier(start, control.detach(), end, float(t))).gradient()
        control.grad = 2 * float(t) * (1 - float(t)) * gradient
        optimiser.step()
    return control.detach()


def _bezier(start: torch.Tensor, control: torch.Tensor, end: torch.Tensor, t: float) -> torch.Tensor:
    return (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end


def _along(
    objective: Objective, point: Callable[[float], torch.Tensor], points: int, note: str
) -> PathLosses:
    if points < 3:
        raise InputError(f"points is {points}; a path needs its two ends and at least one point between them")
    at = np.linspace(0.0, 1.0, points)
    movable = objective.movable()
    return PathLosses(at, np.stack([movable.per_sequence_losses(point(float(t))) for t in at]), note)


def aligned(
    reference: dict[str, torch.Tensor], moved: dict[str, torch.Tensor], *, heads: int
) -> dict[str, torch.Tensor]:
    """Return `moved` with its heads and MLP neurons permuted to match `reference` best.

    Each layer's heads and neurons are matched by the inner products of all their weights
    (linear_sum_assignment); the function that the model computes stays the same. Directions of the residual
    stream are not matched, so a barrier may remain that a better alignment would remove.

    Parameters
    ----------
    reference, moved : dict
        Parameters by name of a model of our GPT family (`layers.I.attn.qkv.weight`, ...).
    heads : int
        Heads of a layer.

    Raises
    ------
    InputError
        When the names or shapes are not those of the family.
    """
    matched = dict(moved)
    layers = sorted({name.split(".")[1] for name in reference if name.startswith("layers.")}, key=int)
    shapes = {name: tuple(value.shape) for name, value in reference.items()}
    if not layers or shapes != {name: tuple(value.shape) for name, value in moved.items()}:
        raise InputError(
            "the parameters are not those of a GPT of toposcope, the only models that can be aligned; give "
            f"two runs of {command('train')}"
        )
    for layer in layers:
        _order_neurons(reference, matched, f"layers.{layer}.mlp")
        _order_heads(reference, matched, f"layers.{layer}.attn", heads)
    return matched


def _order_neurons(reference: dict, matched: dict, block: str) -> None:
    names = [f"{block}.fc1.weight", f"{block}.fc1.bias", f"{block}.fc2.weight"]
    rows = [_stacked([p[names[0]], p[names[1]][:, None], p[names[2]].T]) for p in (reference, matched)]
    order = _matching(*rows)
    matched[names[0]], matched[names[1]] = matched[names[0]][order], matched[names[1]][order]
    matched[names[2]] = matched[names[2]][:, order]


def _order_heads(reference: dict, matched: dict, block: str, heads: int) -> None:
    names = [f"{block}.qkv.weight", f"{block}.qkv.bias", f"{block}.proj.weight"]
    width = matched[names[2]].shape[0]
    size = width // heads

    def of_heads(p: dict) -> np.ndarray:
        projected = p[names[0]].reshape(3, heads, size, width).transpose(0, 1).reshape(heads, -1)
        biases = p[names[1]].reshape(3, heads, size).transpose(0, 1).reshape(heads, -1)
        out = p[names[2]].T.reshape(heads, -1)
        return _stacked([projected, biases, out])

    order = _matching(of_heads(reference), of_heads(matched))
    matched[names[0]] = matched[names[0]].reshape(3, heads, size, width)[:, order].reshape(3 * width, width)
    matched[names[1]] = matched[names[1]].reshape(3, heads, size)[:, order].reshape(3 * width)
    matched[names[2]] = matched[names[2]].reshape(width, heads, size)[:, order].reshape(width, width)


def _stacked(parts: list) -> np.ndarray:
    return np.concatenate([part.detach().double().cpu().numpy() for part in parts], axis=1)


def _matching(reference: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the order of `rows` that is nearest to the reference."""
    from scipy.optimize import linear_sum_assignment

    return linear_sum_assignment(reference @ rows.T, maximize=True)[1]
