"""How often a loss that jumped and falls again slowly is called diverging: python -m benchmarks.slow_jumps.

Random power laws with noise jump and come back: after a learning rate that goes up again (logged, or not), a
switch of data, a reset of the optimizer's state, a smaller batch. Each is read 4, 8 and 20 losses after the
jump, by the rule and by the rule without `_falls_faster`. No constant was set on these draws.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from unittest import mock

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from toposcope.core.seeding import rng
from toposcope.logs.remarks import DIVERGING
from toposcope.rules import rises
from toposcope.rules.registry import assess

READ = (4, 8, 20)
"""Losses after the jump at which a log is read."""
BEFORE = (90, 300)
"""Losses before the jump."""
NOISES = (0.002, 0.01, 0.03)


def restart(random: np.random.Generator, after: np.ndarray) -> np.ndarray:
    """Return the factor on the loss after a learning rate that went up again."""
    up, rise, tau = random.uniform(0.06, 0.35), random.uniform(0.5, 5), random.uniform(30, 300)
    return 1 + up * (1 - np.exp(-(after + 1) / rise)) * np.exp(-after / tau)


def switch(random: np.random.Generator, after: np.ndarray) -> np.ndarray:
    """Return the factor on the loss after a switch of data: a power of the steps since."""
    up, tau = random.uniform(0.3, 1.2), random.uniform(30, 300)
    return 1 + up * (1 + 4 * after / tau) ** -random.uniform(0.4, 1)


def reset(random: np.random.Generator, after: np.ndarray) -> np.ndarray:
    """Return the factor on the loss after the optimizer's state was lost."""
    return 1 + random.uniform(0.3, 2) * np.exp(-after / random.uniform(5, 80))


def batch(random: np.random.Generator, after: np.ndarray) -> np.ndarray:
    """Return the factor on the loss after the batch became smaller."""
    return 1 + random.uniform(0.05, 0.3) * np.exp(-after / random.uniform(20, 400))


Factor = Callable[[np.random.Generator, np.ndarray], np.ndarray]
KINDS: Mapping[str, tuple[Factor, bool]] = {
    "warm restart, rate logged": (restart, True),
    "warm restart, rate not logged": (restart, False),
    "switch of data": (switch, False),
    "optimizer reset": (reset, False),
    "smaller batch": (batch, False),
}


def log(kind: str, noise: float, before: int, draw: int) -> pd.DataFrame:
    """Return a log of `before` losses, a jump, and as many losses as are read."""
    factor, logged = KINDS[kind]
    random = rng(of="slow jumps", kind=kind, noise=noise, before=before, draw=draw)
    count = before + max(READ)
    step = np.arange(1, count + 1) * random.choice([10.0, 50.0, 100.0])
    knee = random.uniform(0.002, 0.03) * step[-1]
    law = random.uniform(1.6, 3.2) + random.uniform(2, 9) * (1 + step / knee) ** -random.uniform(0.3, 0.7)
    shape = np.concatenate([np.ones(before), factor(random, np.arange(count - before))])
    table = pd.DataFrame({"step": step, "loss": law * shape * np.exp(noise * random.standard_normal(count))})
    if not logged:
        return table
    cosine = 0.05 + 0.95 * (1 + np.cos(np.pi * np.arange(before) / before)) / 2
    again = np.full(count - before, random.uniform(0.4, 1))
    return table.assign(learning_rate=1e-3 * np.concatenate([cosine, again]))


def called(kind: str, noise: float, after: int, draws: range) -> int:
    """Return how many of the logs are called diverging when `after` losses follow the jump."""
    logs = [log(kind, noise, before, draw).iloc[: before + after] for before in BEFORE for draw in draws]
    return sum(any(one.kind == DIVERGING for one in assess(table)) for table in logs)


def main() -> None:
    """Print the share called diverging, without the rule and with it, with 95% intervals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=25, help="logs for each kind, noise and length")
    draws = range(parser.parse_args().draws)
    of = len(BEFORE) * len(draws)
    print(f"{'':30} noise  losses after  without    with  [95%], of {of}")
    for kind in KINDS:
        for noise in NOISES:
            for after in READ:
                with mock.patch.object(rises, "_falls_faster", return_value=False):
                    without = called(kind, noise, after, draws)
                count = called(kind, noise, after, draws)
                low, high = binomtest(count, of).proportion_ci(method="exact")
                shares = f"{without / of:7.0%} {count / of:7.0%}  [{low:.0%}, {high:.0%}]"
                print(f"{kind:30} {noise:5.1%}  {after:12d}  {shares}", flush=True)


if __name__ == "__main__":
    main()
