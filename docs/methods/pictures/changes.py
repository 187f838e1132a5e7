"""A curve with and one without a change, and what the search says."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import toposcope as ts

generator = np.random.default_rng(1)
step = np.arange(0, 5100, 100)
smooth = np.exp(-step / 2000)
frame = pd.DataFrame({
    "step": step,
    "loss": 2 + 40 / (step + 200) + 0.002 * generator.normal(size=51),
    "no change": smooth + 0.02 * generator.normal(size=51),
    "jump": smooth + 0.3 * (step >= 2500) + 0.02 * generator.normal(size=51),
})  # fmt: skip
found = ts.analyze(frame).segments
for name in ("no change", "jump"):
    p = found.loc[found["column"] == name, "boundary_p"].iloc[0]
    plt.plot(step, frame[name], ".-", label=f"{name}: p = {p:.2g}")
plt.xlabel("step")
plt.legend()
plt.tight_layout()
