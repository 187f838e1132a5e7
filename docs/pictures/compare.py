"""Three seeds of each of two recipes, minus the mean of the first recipe."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import toposcope as ts

generator = np.random.default_rng(0)
step = np.arange(10, 1010, 10)


def seeds(recipe, level):
    """Return the logs of three seeds."""
    logs = []
    for n in range(3):
        loss = level + 5 * step**-0.5 + 0.003 * generator.normal() + 0.01 * generator.normal(size=100)
        logs.append(pd.DataFrame({"run": f"{recipe} {n}", "step": step, "loss": loss}))
    return logs


figure, ax = plt.subplots()
ts.compare(seeds("A", 2.0), seeds("B", 1.98)).plot(ax)
figure.tight_layout()
