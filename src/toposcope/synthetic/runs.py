"""Training runs of the random-feature model: losses, learning rates and weights, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from toposcope.core.compiling import kernel
from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.logs.schedule import Schedule, constant, cosine, stable_decay
from toposcope.synthetic.model import KernelProblem, Spectrum, draw_problem

_INITIAL = 1e-3
"""Scale of the weights at step 0: far below that of the target, but not zero."""

_CHUNK = 2_000_000
"""The largest number of random numbers in memory at once."""

SCHEDULES = ("constant", "cosine", "wsd")


@dataclass(frozen=True, slots=True)
class SyntheticRecipe:
    """What to simulate; one run per width and seed.

    `learning_rate` is in units of the inverse of the largest curvature (1); above 1 descent can diverge.
    `batch` is the number of examples per step, which determines the gradient noise and the noise of the
    logged loss; 0 is full batch. `noise` is the variance of the label noise. `data` is the number of training
    examples; 0 draws new ones at every step.
    """

    spectrum: Spectrum = field(default_factory=Spectrum)
    widths: tuple[int, ...] = (16, 32, 64, 128, 0)
    seeds: tuple[int, ...] = (0,)
    data: int = 0
    noise: float = 0.0
    batch: int = 256
    steps: int = 2000
    schedule: str = "cosine"
    learning_rate: float = 0.5
    final_share: float = 0.05
    warmup_share: float = 0.02
    outputs: int = 8
    checkpoints: int = 21

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise InputError(
                f"not one of {', '.join(SCHEDULES)}", argument="schedule", value=self.schedule,
                remedy="name one of these",
            )  # fmt: skip
        if not 0 < self.learning_rate < 1:
            raise InputError(
                "out of range", argument="learning_rate", value=self.learning_rate,
                remedy="give one between 0 and 1 (1 / curvature)",
            )  # fmt: skip
        if self.steps < 50:
            raise InputError(f"{self.steps:,} updates are too few; give at least 50")
        for name, lowest in (("checkpoints", 2), ("noise", 0), ("batch", 0)):
            if getattr(self, name) < lowest:
                raise InputError(f"it must be at least {lowest}", argument=name, value=getattr(self, name))
        if not self.widths or not self.seeds:
            raise InputError("it is empty", argument="seeds" if self.widths else "widths", remedy="give some")
        for name, values in (("widths", self.widths), ("seeds", self.seeds)):
            if len(set(values)) < len(values):
                raise InputError(
                    "one is repeated", argument=name, value=",".join(map(str, values)),
                    remedy="name each once",
                )  # fmt: skip

    def plan(self) -> Schedule:
        """Return the learning rate over steps."""
        warmup = int(self.warmup_share * self.steps)
        peak, last = self.learning_rate, self.learning_rate * self.final_share
        if self.schedule == "constant":
            return constant(peak=peak, steps=self.steps, warmup=warmup)
        if self.schedule == "cosine":
            return cosine(peak=peak, last=last, steps=self.steps, warmup=warmup)
        return stable_decay(
            peak=peak, last=last, decay_from=int(0.8 * self.steps), steps=self.steps, warmup=warmup
        )


@dataclass(frozen=True, slots=True)
class SyntheticRun:
    """One simulated run: a metrics table, and weights by checkpoint step.

    `weights` maps a step to the readout (outputs, N) and the function it computes (outputs, M), float32.
    """

    run: str
    width: int
    seed: int
    parameters: int
    metrics: pd.DataFrame
    weights: dict[int, dict[str, np.ndarray]] = field(repr=False)
    problem: KernelProblem = field(repr=False)


def simulate(recipe: SyntheticRecipe, *, width: int, seed: int = 0) -> SyntheticRun:
    """Simulate one run.

    In the eigenbasis of the Hessian a step is w <- w - eta (h (w - goal) + noise), the noise with covariance
    h (loss + label noise) / batch: that of minibatch gradients of half a squared error. Logged `loss` is that
    of a minibatch; `heldout_loss`, at checkpoints, is exact and without label noise.
    """
    problem = draw_problem(recipe.spectrum, width=width, data=recipe.data, outputs=recipe.outputs, seed=seed)
    source = rng(name="synthetic-noise", seed=seed, width=width)
    rate = recipe.plan().at(np.arange(recipe.steps + 1))
    steps = np.unique(np.linspace(0, recipe.steps, recipe.checkpoints).astype(int)).tolist()
    weights = _INITIAL * source.standard_normal(problem.goal.shape)
    exact, norms = np.zeros(recipe.steps + 1), np.zeros((recipe.steps + 1, 2))
    base = float(problem.floor.mean()) + recipe.spectrum.tail + recipe.noise
    heldout, checkpoints, start = {}, {}, 0
    for stop in [*steps, recipe.steps + 1]:
        while start < stop:
            count = min(stop - start, max(1, _CHUNK // weights.size))
            drawn = count if recipe.batch else 0
            noise = source.standard_normal((drawn, *weights.shape), dtype=np.float32)
            now = slice(start, start + count)
            _descend(
                weights,
                problem.rates,
                problem.goal,
                rate[now],
                noise,
                base,
                recipe.batch,
                exact[now],
                norms[now],
            )
            start += count
        if stop <= recipe.steps:
            heldout[stop], checkpoints[stop] = problem.test_loss(weights), _tensors(problem, weights)
    return _assembled(recipe, problem, (width, seed), rate, exact, norms, heldout, checkpoints, source)


@kernel
def _descend(weights, rates, goal, rate, noise, base, batch, exact, norms):  # type: ignore[no-untyped-def]
    """Do len(rate) steps in place; before each, record the loss and the norms of gradient and weights."""
    modes, outputs = weights.shape
    for step in range(len(rate)):
        loss = 0.0
        squared = 0.0
        for i in range(modes):
            for o in range(outputs):
                gap = weights[i, o] - goal[i, o]
                loss += rates[i] * gap * gap
                squared += weights[i, o] * weights[i, o]
        exact[step] = base + loss / outputs
        gradient_squared = 0.0
        for i in range(modes):
            scale = np.sqrt(rates[i] * exact[step] / batch) if batch > 0 else 0.0
            for o in range(outputs):
                gradient = rates[i] * (weights[i, o] - goal[i, o])
                if batch > 0:
                    gradient += scale * noise[step, i, o]
                gradient_squared += gradient * gradient
                weights[i, o] -= rate[step] * gradient
        norms[step, 0] = np.sqrt(gradient_squared)
        norms[step, 1] = np.sqrt(squared)


def _assembled(recipe, problem, who, rate, exact, norms, heldout, checkpoints, source):  # type: ignore[no-untyped-def]
    width, seed = who
    name = f"width{width:04d}-seed{seed}" if width else f"limit-seed{seed}"
    steps = np.arange(recipe.steps + 1)
    spread = np.sqrt(2.0 / (recipe.batch * recipe.outputs)) if recipe.batch else 0.0
    metrics = pd.DataFrame(
        {
            "run": name,
            "step": steps,
            "tokens": steps * max(recipe.batch, 1),
            "loss": exact * (1.0 + spread * source.standard_normal(len(steps))),
            "heldout_loss": pd.Series(heldout).reindex(steps).to_numpy(),
            "learning_rate": rate,
            "grad_norm": norms[:, 0],
            "weight_norm": norms[:, 1],
            "seconds": np.nan,
        }
    )
    parameters = width * recipe.outputs  # infinite width has no number of parameters
    return SyntheticRun(name, width, seed, parameters, metrics, checkpoints, problem)


def _tensors(problem: KernelProblem, weights: np.ndarray) -> dict[str, np.ndarray]:
    readout = problem.readout(weights)
    tensors = {"readout.weight": readout}
    if problem.features is not None:
        tensors["function.weight"] = readout @ problem.features / np.sqrt(len(problem.features))
    return {name: np.ascontiguousarray(tensor, dtype=np.float32) for name, tensor in tensors.items()}
