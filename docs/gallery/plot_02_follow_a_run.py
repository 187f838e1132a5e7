"""
Follow a run from inside
========================

A monitor in the training loop copies the weights every few steps and measures them in a thread. Its errors
never reach the training.
"""

from pathlib import Path
from tempfile import mkdtemp

import numpy as np

import toposcope as ts

# %%
# A tiny model that learns a linear map by gradient descent.
generator = np.random.default_rng(0)
goal = generator.normal(size=(24, 16))
weights = 0.1 * generator.normal(size=(24, 16))
store = Path(mkdtemp()) / "store"
with ts.Monitor(store, every=5, features=["baselines", "neural_persistence"]) as monitor:
    for step in range(61):
        inputs = generator.normal(size=(32, 16))
        error = inputs @ (weights - goal).T
        monitor.observe(
            {"layers.0.mlp.fc1.weight": weights.astype("float32")}, step, loss=float((error**2).mean())
        )
        monitor.wait()  # a real training does not wait: weights that come too early are skipped
        weights -= 0.05 * error.T @ inputs / 32
print(monitor.counts)

# %%
# The measurements are in a store, like one that ``toposcope weights`` writes.
found = ts.open_store(store).features(feature="frobenius_norm").query("scope == 'matrix'")
ax = found.plot("step", "value", style="o-", legend=False)
ax.set_ylabel("Frobenius norm")
