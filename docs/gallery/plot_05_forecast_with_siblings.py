"""
Forecast with siblings
======================

The first 30% of a run and four finished runs of the same recipe give a forecast of its end.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import toposcope as ts

# %%
# Five sizes; the largest is still running.
generator = np.random.default_rng(0)
step = np.arange(10, 2010, 10)


def run(size):
    """Return the log of a model with `size` parameters."""
    loss = 1.6 + 120 * size**-0.35 + 6 * step**-0.5 + 0.01 * generator.normal(size=len(step))
    return pd.DataFrame({"run": f"{size:,}", "step": step, "loss": loss, "parameters": size})


finished = pd.concat([run(size) for size in (10_000, 30_000, 100_000, 300_000)])
whole = run(1_000_000)
made = ts.forecast(whole[: len(step) * 3 // 10], siblings=finished)
print(made)

# %%
# The forecast, and the rest of the run.
row = made.table.iloc[0]
figure, ax = plt.subplots()
for _, sibling in finished.groupby("run"):
    ax.plot(sibling["step"], sibling["loss"], color="0.8", linewidth=1)
ax.plot(whole["step"], whole["loss"], color="C0", alpha=0.3, label="the rest")
ax.plot(whole["step"][:60], whole["loss"][:60], color="C0", label="seen")
half = [[row["final_loss"] - row["low"]], [row["high"] - row["final_loss"]]]
ax.errorbar([2000], [row["final_loss"]], half, fmt="o", color="C1", capsize=4, label="forecast, 90%")
ax.set_ylim(2.3, 6)
ax.set_xlabel("step")
ax.set_ylabel("loss")
ax.legend()
