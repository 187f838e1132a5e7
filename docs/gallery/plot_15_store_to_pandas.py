"""
A store in pandas
=================

A store is a folder of parquet files. The measurements are a table with a row for each number, and each row
says how its number was made.
"""

from tempfile import mkdtemp

import numpy as np
import pandas as pd

import toposcope as ts

path = np.random.default_rng(0).normal(size=(8, 32, 24)).cumsum(0).astype("float32")
series = {
    100 * n: {"layers.0.mlp.fc1.weight": path[n], "layers.1.mlp.fc1.weight": path[n] ** 3} for n in range(8)
}
place = mkdtemp()
store = ts.measure(series, place, features="neural_persistence,baselines")
print(store)

# %%
# Any parquet reader opens it.
features = pd.read_parquet(f"{place}/features")
features[["run", "step", "feature", "scope", "name", "draw", "value", "status"]].head()

# %%
# A wide table: a row for each checkpoint. A *draw* is one shuffle of the weights.
rows = features.query("feature == 'neural_persistence' and scope == 'matrix'")
wide = rows.pivot_table(index="step", columns="name", values="value")
wide.plot(marker="o", ylabel="neural persistence")
