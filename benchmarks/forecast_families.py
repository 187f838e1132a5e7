"""Simulated families made to be unkind: python -m benchmarks.forecast_families [FIRST] [LAST] [--cut .3].

The laws here are none that a forecaster fits: sums of relaxations, sigmoid drops, bumps, logarithms, models
that cross, ends that the beginning says nothing of. The noise is correlated in part, runs have glitches,
unequal lengths, and constant, cosine or warmup-stable-decay rates.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pandas as pd

from toposcope.analysis.forecast import Curve, curve_from_metrics
from toposcope.analysis.forecast.auto import Auto, one_schedule
from toposcope.analysis.forecast.base import Forecaster, Point, forecast, own_errors, sibling_errors
from toposcope.analysis.forecast.families import LastValue, Pow3, Pow4, SmoothedPow3
from toposcope.analysis.forecast.laws import MultiPower, Tissue
from toposcope.analysis.forecast.schedule import Schedule, constant, cosine, stable_decay
from toposcope.analysis.forecast.siblings import PathTransfer, SiblingTransfer
from toposcope.analysis.synthetic import Spectrum, SyntheticRecipe, simulate
from toposcope.errors import InputError
from toposcope.seeding import rng

KINDS = ("relaxations", "sigmoids", "bump", "logarithm", "crossing", "unrelated", "knee", "random features")


@dataclass(frozen=True, slots=True)
class LeastError(Forecaster):
    """The rule before averaging: the one method of least left-out error. Kept to be compared with."""

    siblings: Sequence[Curve] = ()
    share: float = 0.0
    chosen: Forecaster | None = None
    laws: bool = True
    candidates: tuple[Forecaster, ...] = field(
        default_factory=lambda: (
            SiblingTransfer(), PathTransfer(), MultiPower(), Tissue(), Pow3(), SmoothedPow3(), Pow4(),
            LastValue(),
        )
    )  # fmt: skip

    @property
    def name(self) -> str:
        """The method's name in tables."""
        return "least left-out error"

    def fit(self, siblings: Sequence[Curve], share: float) -> Self:
        """Choose on the siblings."""
        kept = replace(self, siblings=tuple(siblings), share=share, chosen=None)
        if len(siblings) < 3:
            return kept
        scored = [
            (_rms(sibling_errors(c, siblings, share), len(siblings)), c) for c in self._eligible(siblings)
        ]
        best = min(error for error, _ in scored)
        if not np.isfinite(best):
            return kept
        return replace(kept, chosen=next(c for e, c in scored if e <= best).fit(siblings, share))

    def predict(self, seen: Curve) -> Point:
        """Forecast by the chosen one; without siblings choose on earlier cuts."""
        if self.chosen is not None:
            return self.chosen.predict(seen)
        scored = []
        for c in self._eligible(self.siblings):
            if "siblings" in c.needs or ("schedule" in c.needs and seen.plan() is None):
                continue
            try:
                point = c.fit(self.siblings, self.share).predict(seen)
            except (InputError, np.linalg.LinAlgError):
                continue
            scored.append((_rms(own_errors(c, seen, self.siblings), 3), point))
        if not scored:
            raise InputError(f"{self.name}: no method could forecast {seen.run}; give siblings")
        return min(scored, key=lambda pair: pair[0])[1]

    def _eligible(self, siblings: Sequence[Curve]) -> list[Forecaster]:
        laws = len(siblings) < 2 or not one_schedule(siblings)
        return [c for c in self.candidates if laws or "schedule" not in c.needs]


def _rms(errors: Sequence[float], expected: int) -> float:
    return float("inf") if len(errors) < expected else float(np.sqrt(np.mean(np.square(errors))))


def simulated(kind: str, draw: int, *, logged: int = 300, glitches: bool = True) -> list[Curve]:
    """Return one drawn family of 4 to 9 finished runs of `kind`; sizes span one to three decades."""
    random = rng(name="unkind-family", kind=kind, draw=draw)
    count, steps = int(random.integers(4, 10)), int(random.choice([2000, 6000, 20000]))
    sizes = np.geomspace(1e6, 1e6 * 10 ** random.uniform(1, 3), count)
    schedule = str(random.choice(["constant", "cosine", "wsd"]))
    if kind == "random features":
        return _random_features(random, draw, schedule, count)
    law = _LAWS[kind](random)
    noise, memory = 10 ** random.uniform(-2.7, -1.5), float(random.choice([0.0, 0.0, 0.7]))
    unequal = bool(random.random() < 0.25)
    gain = random.uniform(0.02, 0.12)
    curves = []
    for i, n in enumerate(sizes):
        end = int(steps * random.uniform(0.6, 1.0)) if unequal else steps
        plan = _plan(schedule, end)
        step = np.unique(np.linspace(0, end, logged + 1).astype(int))[1:].astype(float)
        scale = np.log(n / sizes[0]) / np.log(sizes[-1] / sizes[0])
        loss = law(step / steps, scale, rng(name="unkind-run", kind=kind, draw=draw, run=i))
        loss = loss * (1 - gain * (1 - plan.at(step) / plan.peak) * (step > 0.05 * end))
        errors = random.normal(0, noise, len(step))
        for j in range(1, len(errors)):
            errors[j] += memory * errors[j - 1]
        loss = loss * np.exp(errors)
        if glitches and random.random() < 0.3:
            at = random.integers(5, len(loss) - 5, random.integers(1, 3))
            loss[at] *= 10 ** random.uniform(0.5, 4)
        table = pd.DataFrame({"step": step, "loss": loss, "learning_rate": plan.at(step)})
        curves.append(curve_from_metrics(f"{kind} {draw} {i}", table, parameters=int(n)))
    return curves


def _plan(schedule: str, steps: int) -> Schedule:
    peak, warmup = 1e-3, int(0.02 * steps)
    if schedule == "constant":
        return constant(peak=peak, steps=steps, warmup=warmup)
    if schedule == "cosine":
        return cosine(peak=peak, last=1e-4, steps=steps, warmup=warmup)
    return stable_decay(
        peak=peak, last=1e-5, decay_from=int(0.8 * steps), steps=steps, warmup=warmup, exponential=False
    )


def _random_features(random: np.random.Generator, draw: int, schedule: str, count: int) -> list[Curve]:
    recipe = SyntheticRecipe(
        Spectrum(random.uniform(1.3, 2.0), random.uniform(1.0, 1.6), 128), steps=800, schedule=schedule,
        outputs=4, noise=float(random.choice([0.0, 0.05])), batch=int(random.choice([32, 256])),
    )  # fmt: skip
    runs = [
        simulate(recipe, width=int(w), seed=draw) for w in np.unique(np.geomspace(4, 64, count).astype(int))
    ]
    return [
        curve_from_metrics(
            f"random features {draw} {run.width}", run.metrics.iloc[4::4], parameters=run.parameters,
        )
        for run in runs
    ]  # fmt: skip


def _relaxations(random: np.random.Generator):  # type: ignore[no-untyped-def]
    times, heights = np.exp(random.uniform(-5, 0.5, 4)), random.uniform(0.3, 1.5, 4)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        tau = times * np.exp(own.normal(0, 0.1, 4)) * (1 - 0.4 * scale)
        return 2.6 - 0.6 * scale + own.normal(0, 0.02) + np.exp(-t[:, None] / tau) @ heights

    return law


def _sigmoids(random: np.random.Generator):  # type: ignore[no-untyped-def]
    at, width, spread = random.uniform(0.2, 0.9), random.uniform(0.02, 0.1), random.uniform(0, 0.1)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        moved = at * (1 - 0.3 * scale) + own.normal(0, spread)
        return 2.2 - 0.3 * scale + 1.5 * np.exp(-t / 0.05) + 0.5 / (1 + np.exp((t - moved) / width))

    return law


def _bump(random: np.random.Generator):  # type: ignore[no-untyped-def]
    at, height = random.uniform(0.2, 0.7), random.uniform(0.05, 0.4)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        top = height * (1 - 0.6 * scale) * np.exp(-(((t - at - 0.1 * scale) / 0.12) ** 2))
        return 2.0 - 0.4 * scale + own.normal(0, 0.02) + 0.8 / np.sqrt(1 + 40 * t) + top

    return law


def _logarithm(random: np.random.Generator):  # type: ignore[no-untyped-def]
    slope, onset = random.uniform(0.1, 0.4), random.uniform(0.001, 0.02)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        return 4.0 - 0.3 * scale - slope * (1 + 0.4 * scale + own.normal(0, 0.03)) * np.log1p(t / onset)

    return law


def _crossing(random: np.random.Generator):  # type: ignore[no-untyped-def]
    speed, floor = random.uniform(0.5, 2), random.uniform(0.3, 1.0)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        tau = 0.05 * np.exp(speed * scale + own.normal(0, 0.05))
        return 2.5 - floor * scale + 2.5 * tau / (tau + t)

    return law


def _unrelated(random: np.random.Generator):  # type: ignore[no-untyped-def]
    spread, bend = random.uniform(0.02, 0.2), random.uniform(0.3, 0.8)

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        end = spread * own.normal()
        return 3.0 - 0.3 * scale + np.exp(-t / 0.08) + np.where(t > bend, end * (t - bend) / (1 - bend), 0.0)

    return law


def _knee(random: np.random.Generator):  # type: ignore[no-untyped-def]
    early, late = random.uniform(0.05, 0.15), random.uniform(0.02, 0.3)
    at = np.exp(random.uniform(np.log(0.05), np.log(0.8)))

    def law(t, scale, own):  # type: ignore[no-untyped-def]
        knee, level = at * np.exp(own.normal(0, 0.1)), 3.5 - 0.8 * scale + own.normal(0, 0.02)
        return level * np.where(t < knee, (t / knee) ** -early, (t / knee) ** -late)

    return law


_LAWS = {
    "relaxations": _relaxations, "sigmoids": _sigmoids, "bump": _bump, "logarithm": _logarithm,
    "crossing": _crossing, "unrelated": _unrelated, "knee": _knee,
}  # fmt: skip


def compared(curves: Sequence[Curve], family: str, cut: float) -> pd.DataFrame:
    """Forecast every run from the others by `auto`, by the rule before it, and by the last value.

    `place`: whether its final loss is the lowest or the highest of the family, or between.
    """
    rows = []
    for run in curves:
        siblings = [other for other in curves if other is not run]
        ends, actual = [other.final_loss() for other in siblings], run.final_loss()
        place = "lowest" if actual < min(ends) else "highest" if actual > max(ends) else "between"
        seen = run.planned().seen(cut * run.horizon)
        made = forecast(Auto(), seen, siblings)
        held = bool(made.low <= actual <= made.high) if np.isfinite(made.low) else None
        before = LeastError().fit(siblings, cut).predict(seen).final
        last = LastValue().predict(seen).final
        errors = [abs(float(np.log(final / actual))) for final in (made.final, before, last)]
        rows.append((family, run.run, place, *errors, held))
    columns = ["family", "run", "place", "auto", "least_error", "last_value", "held"]
    return pd.DataFrame(rows, columns=columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int, nargs="?", default=100)
    parser.add_argument("last", type=int, nargs="?", default=104)
    parser.add_argument("--cut", type=float, default=0.3)
    options = parser.parse_args()
    tables = [
        compared(simulated(kind, draw, logged=150), f"{kind} {draw}", options.cut)
        for draw in range(options.first, options.last)
        for kind in KINDS
    ]
    table = pd.concat(tables)
    errors = table.groupby("family")[["auto", "least_error", "last_value"]].mean()
    errors["to_least_error"] = errors["auto"] / errors["least_error"]
    errors["to_last_value"] = errors["auto"] / errors["last_value"]
    print(errors.round(4).to_string())
    print(table.groupby("place")["held"].agg(["mean", "count"]).to_string())


if __name__ == "__main__":
    main()
