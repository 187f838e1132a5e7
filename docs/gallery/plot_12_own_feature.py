"""
A feature of your own
=====================

One dataclass declares and measures a feature. The store, the tests, the figures and the page read the
declaration.
"""

from dataclasses import dataclass
from tempfile import mkdtemp

import numpy as np

import toposcope as ts
from toposcope.subjects.base import Measured
from toposcope.subjects.labels import Label

SPREAD = ts.Feature("row_spread", label="longest row / shortest row", primary=True)


@dataclass(frozen=True)
class Spread(ts.Probe):
    """The ratio of the longest row of every matrix to its shortest."""

    name: str = "spread"
    features: tuple[ts.Feature, ...] = (SPREAD,)

    def measure(self, snapshot):
        """Return the rows of one checkpoint."""
        found = Measured()
        for matrix in snapshot.matrices():
            lengths = np.linalg.norm(matrix.values.astype(np.float64), axis=1)
            value = {SPREAD.name: lengths.max() / lengths.min()}
            found.rows += Label.of(matrix).rows(snapshot.checkpoint, self.name, value)
        return found


# %%
# Ten checkpoints of a random walk.
path = np.random.default_rng(0).normal(size=(10, 24, 16)).cumsum(0).astype("float32")
series = {100 * n: {"layers.0.mlp.fc1.weight": path[n]} for n in range(10)}
store = ts.measure(series, mkdtemp(), features=[Spread()])
rows = store.features(feature="row_spread")
ax = rows.query("scope == 'matrix'").plot("step", "value", style="o-", legend=False)
ax.set_ylabel(SPREAD.label)
