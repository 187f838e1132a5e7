"""How often a healthy run is called off its siblings: python -m benchmarks.collapse_rates DATA.

Two sources. parameter_golf: seeds of one pull request that end within 3% of one step, at least 5 of them,
each compared with the others (its end is where its log ends). Drawn families: five to nine sizes over a
factor of 30, trained at 20 tokens per parameter with a cosine rate, L = E + A / N^a + B / D^b + what the rate
costs, with noise that is correlated over steps and a scatter of 1% in each run's own constants. Every run is
judged once, at a random share of 30 to 90% of its steps, as it is and with a fault in the last quarter of
that. Runs of one group are not independent: intervals are Wilson's over runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.check_rates import share
from toposcope.core.seeding import rng
from toposcope.logs.curve import Curve, curve_from_metrics
from toposcope.logs.schedule import cosine
from toposcope.runs.collapse import FEWEST, collapse_residual

FAMILIES = 60
TOKENS = 20.0
LOGGED = 400

FAULTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as it is": np.ones_like,
    "1% higher": lambda part: np.full_like(part, 1.01),
    "2% higher": lambda part: np.full_like(part, 1.02),
    "5% higher": lambda part: np.full_like(part, 1.05),
    "climbs to 5% higher": lambda part: 1 + 0.05 * part,
    "2% lower": lambda part: np.full_like(part, 0.98),
}
"""What the loss is multiplied by after the fault began; `part` goes from 0 to 1."""


def golf(data: Path) -> Iterator[list[Curve]]:
    """Yield the runs of each pull request that has five seeds which end at one step."""
    folder = data / "curves" / "parameter_golf"
    runs = pd.read_csv(folder / "runs.csv.gz").set_index("run")
    logged = pd.read_csv(folder / "curves.csv.gz").rename(columns={"train_loss": "loss"})
    logged = logged.dropna(subset=["loss"])
    held: dict[tuple[int, float], list[Curve]] = {}
    for run, table in logged.groupby("run", sort=True):
        if len(table) >= 40 and table["step"].max() >= 1000:
            one = curve_from_metrics(str(run), table[["step", "loss"]])
            held.setdefault((int(runs["pr"][run]), float(runs["parameters"][run])), []).append(one)
    for group in held.values():
        ends = float(np.median([one.horizon for one in group]))
        alike = [one for one in group if abs(one.horizon - ends) <= 0.03 * ends]
        if len(alike) >= FEWEST + 2:
            yield alike


def drawn(number: int) -> list[Curve]:
    """Return a family whose runs share schedule and tokens per parameter."""
    g = rng(name="collapse-family", seed=number)
    sizes = np.geomspace(1e7, 3e8, int(g.integers(5, 10)))
    floor, a, b, cost = g.uniform(1.5, 2), g.uniform(0.25, 0.4), g.uniform(0.25, 0.4), g.uniform(0.05, 0.2)
    a = b if number % 2 else a  # equal powers collapse exactly, others nearly
    scale_n, scale_d = g.uniform(0.5, 1.5) * 1e7**a, g.uniform(0.5, 1.5) * (TOKENS * 1e7) ** b
    found = []
    for size in sizes:
        batch = 2.0**19
        steps = max(int(TOKENS * size / batch), LOGGED)
        tokens = TOKENS * size / steps
        step = np.unique(np.linspace(1, steps, LOGGED).astype(int)).astype(float)
        plan = cosine(peak=1e-3, last=1e-4, steps=steps, warmup=steps // 50)
        own = np.exp(0.01 * g.standard_normal(3))
        loss = floor + own[0] * scale_n / size**a + own[1] * scale_d / (tokens * step) ** b
        loss += own[2] * cost * plan.at(step) / 1e-3
        noise = g.standard_normal(len(step))
        for i in range(1, len(noise)):
            noise[i] = 0.7 * noise[i - 1] + 0.71 * noise[i]
        found.append(
            Curve(
                f"{number}-{size:.0f}", step, loss * np.exp(0.008 * noise), plan.at(step), steps, plan,
                int(size), covariates={"tokens_per_step": tokens}, stated=True,
            )
        )  # fmt: skip
    return found


def judged(groups: Sequence[Sequence[Curve]]) -> None:
    """Print how many runs are called off their siblings, for each fault."""
    for name, fault in FAULTS.items():
        called, of, largest, largest_of = 0, 0, 0, 0
        for number, group in enumerate(groups):
            g = rng(name="collapse-look", seed=number)
            top = max(group, key=lambda one: one.parameters)
            for curve in group:
                seen = curve.seen(g.uniform(0.3, 0.9) * curve.horizon)
                begin = 0.75 * seen.last
                part = (seen.step - begin) / (seen.last - begin)
                factor = np.where(part >= 0, fault(np.clip(part, 0, 1)), 1.0)
                found = collapse_residual(replace(seen, loss=seen.loss * factor), group)
                if found is None:
                    continue
                of, called = of + 1, called + found.off
                if curve is top:
                    largest_of, largest = largest_of + 1, largest + found.off
        print(f"| {name} | {share(called, of)} | {share(largest, largest_of)} |")


def main() -> None:
    """Print both tables."""
    for title, groups in (
        ("parameter_golf, seeds", list(golf(Path(sys.argv[1])))),
        ("drawn families", [drawn(number) for number in range(FAMILIES)]),
    ):
        print(f"{title}: {len(groups)} groups, {sum(map(len, groups))} runs")
        print("| fault | any run | the largest |\n| --- | ---: | ---: |")
        judged(groups)


if __name__ == "__main__":
    main()
