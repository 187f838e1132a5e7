"""
The annealed value
==================

A run at a constant learning rate looks worse than it is. What would a decay that starts now give?
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import toposcope as ts

# %%
# A log with its learning rate: warm-up, then constant.
generator = np.random.default_rng(0)
step = np.arange(10, 3010, 10)
rate = 1e-3 * np.minimum(1, step / 300)
log = pd.DataFrame({"step": step, "learning_rate": rate})
log["loss"] = 2.2 + 8 * step**-0.5 + 0.01 * generator.normal(size=len(step))

# %%
# As it goes on, and with a decay over the next 600 steps.
on = ts.forecast(log, horizon=3600)
annealed = ts.forecast(log, annealed=600)
print(on)
print(annealed)

# %%
# This log has no decay to learn from, so the gain is that of published runs. Trust the interval, not the dot.
figure, ax = plt.subplots()
ax.plot(log["step"], log["loss"], linewidth=1, label="seen")
for n, (label, made) in enumerate((("goes on", on), ("decays now", annealed))):
    row = made.table.iloc[0]
    half = [[row["final_loss"] - row["low"]], [row["high"] - row["final_loss"]]]
    ax.errorbar([3600 + 60 * n], [row["final_loss"]], half, fmt="o", capsize=4, label=label)
ax.set_ylim(2.1, 2.8)
ax.set_xlabel("step")
ax.set_ylabel("loss")
ax.legend()
