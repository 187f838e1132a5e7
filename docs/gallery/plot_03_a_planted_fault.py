"""
A planted fault
===============

In a run of checkpoints one matrix is scaled at step 300. One pass of the watch finds it.
"""

from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from safetensors.numpy import save_file

import toposcope as ts
from toposcope.watch.watching import Watching, WatchOptions

# %%
# Sixteen checkpoints of three layers that drift a little at each step. From step 300 on the matrix of layer
# 1 is three times as large.
generator = np.random.default_rng(0)
names = [f"layers.{n}.mlp.fc1.weight" for n in range(3)]
weights = {name: generator.normal(size=(32, 24)) for name in names}
folder = Path(mkdtemp()) / "run"
folder.mkdir()
for step in range(0, 480, 30):
    weights = {name: w + 0.02 * generator.normal(size=w.shape) for name, w in weights.items()}
    if step == 300:
        weights[names[1]] *= 3.0
    save_file(
        {name: w.astype("float32") for name, w in weights.items()}, folder / f"step_{step:06d}.safetensors"
    )

# %%
# The answer says which alarms were raised, at which step, and what moved most.
with Watching(folder, WatchOptions(rest=0.0, features=("baselines", "updates"))) as watching:
    answer = watching.once()
for line, indent in answer.lines:
    if not line.startswith("measured"):
        print(indent + line)

# %%
# The norm of every matrix shows it, too.
norms = ts.open_store(answer.store).features(feature="frobenius_norm").query("scope == 'matrix'")
ax = norms.pivot(index="step", columns="name", values="value").plot(marker=".")
ax.axvline(300, color="0.6", linestyle=":")
ax.set_ylabel("Frobenius norm")
