"""Simulated runs at a constant rate whose law is nearly the plain one, with little, some and much noise.

The loss is a floor and two powers of the step of different exponents, the second of up to half the weight;
the noise is white or correlated. The weights of the interval of a run alone were set on draws 0 to 119
(`benchmarks.forecast_alone --calibrate`); other draws judge them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from toposcope.core.seeding import rng
from toposcope.forecasting import Curve, curve_from_metrics

NOISE = {"clean": (0.0003, 0.003), "middling": (0.003, 0.015), "noisy": (0.015, 0.05)}
"""The range of the standard deviation of a log loss, per kind."""

SET_ON = 120
"""The weights were set on draws below this one."""


def nearly_plain(kind: str, draw: int) -> Curve:
    """Return one run of 40 to 800 losses."""
    random = rng(name="nearly-plain", kind=kind, draw=draw)
    count = round(np.exp(random.uniform(np.log(40), np.log(800))))
    last = round(np.exp(random.uniform(np.log(1000), np.log(60_000))))
    step = np.unique(np.linspace(last / count, last, count).round())
    floor = random.uniform(1.2, 3.2)
    first, second = np.exp(random.normal([np.log(0.5), np.log(0.25)], [0.3, 0.4]))
    time = step / last + np.exp(random.uniform(np.log(0.0005), np.log(0.02)))
    height = 0.3 * floor * np.exp(random.uniform(np.log(0.02), np.log(0.3)))
    weight = random.uniform(0, 0.5)
    loss = floor + height * ((1 - weight) * time**-first + weight * time**-second)
    size, memory = np.exp(random.uniform(*np.log(NOISE[kind]))), float(random.choice([0.0, 0.0, 0.6]))
    noise = random.normal(0, size, len(step))
    for at in range(1, len(noise)):
        noise[at] += memory * noise[at - 1]
    return curve_from_metrics(f"{kind} {draw}", pd.DataFrame({"step": step, "loss": loss * np.exp(noise)}))
