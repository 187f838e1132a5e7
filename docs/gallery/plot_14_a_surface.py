"""
A loss surface
==============

A tiny model is trained for twelve updates; the loss is sampled on a plane around its last checkpoint. Needs
the extra ``train``.
"""

from pathlib import Path
from tempfile import mkdtemp

import matplotlib.pyplot as plt

import toposcope as ts
from toposcope.subjects.landscape.options import LandscapeOptions
from toposcope.subjects.landscape.saved_surfaces import saved_surfaces

# %%
# Train, and sample: one batch, one pair of random directions, 13 x 13 places.
folder = Path(mkdtemp())
few = {"steps": 12, "checkpoint_every": 6, "warmup_steps": 2}
ts.train("demo", folder / "runs", models=["tiny-3k"], overrides=few)
options = LandscapeOptions(batches=1, draws=1, resolution=13, sequences=4, nulls=1)
store = ts.measure(folder / "runs", folder / "store", features="surface", options=options, steps="last")
print(store)

# %%
# The surface of the last checkpoint. One minimum in a plane does not mean one minimum of the loss.
last = list(saved_surfaces(store.path / "landscapes"))[-1]
loss = last.surface.mean
figure, ax = plt.subplots()
first, second = last.surface.axes
drawn = ax.contourf(first, second, loss.T, levels=20)
figure.colorbar(drawn, label="loss")
ax.set_xlabel("first direction, in lengths of the weights")
ax.set_ylabel("second direction")
ax.set_title(f"{last.run}, step {last.step}")
