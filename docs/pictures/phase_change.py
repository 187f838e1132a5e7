"""A curve that jumps: where it does, and the interval that the search gives."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import toposcope as ts

generator = np.random.default_rng(0)
step = np.arange(0, 5100, 100)
sharp = np.where(step < 2500, 1.0, 2.0) + 0.02 * generator.standard_normal(51)
loss = 2 + 40 / (step + 20) + 0.01 * generator.standard_normal(51)
found = ts.analyze(pd.DataFrame({"step": step, "loss": loss, "mine": sharp})).segments
found = found[(found["column"] == "mine") & (found["direction"] == "rising")].iloc[0]
plt.plot(step, sharp, ".-")
plt.axvspan(found["start_step"], found["end_step"], color="0.85", label="where the search places the change")
plt.xlabel("step")
plt.ylabel("mine")
plt.legend()
plt.tight_layout()
