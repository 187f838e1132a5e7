"""A run at a constant learning rate: where it goes, and what a decay that starts now would give."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import toposcope as ts

step = np.arange(10, 3010, 10)
log = pd.DataFrame({"step": step, "learning_rate": 1e-3 * np.minimum(1, step / 300)})
log["loss"] = 2.2 + 8 * step**-0.5 + 0.01 * np.random.default_rng(0).normal(size=len(step))
plt.plot(log["step"], log["loss"], linewidth=1, color="0.4", label="seen")
made = {"goes on": ts.forecast(log, horizon=3600), "decays from now on": ts.forecast(log, annealed=600)}
for n, (label, answer) in enumerate(made.items()):
    row = answer.table.iloc[0]
    half = [[row["final_loss"] - row["low"]], [row["high"] - row["final_loss"]]]
    plt.errorbar([3600 + 80 * n], [row["final_loss"]], half, fmt="o", capsize=4, label=f"{label}, 90%")
plt.ylim(2.1, 2.8)
plt.xlabel("step")
plt.ylabel("loss")
plt.legend()
plt.tight_layout()
