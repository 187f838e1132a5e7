"""A run seen to 40%, its forecast, and the rest of the run."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import toposcope as ts

generator = np.random.default_rng(0)
step = np.arange(1, 1001)
loss = 2 + 5 * step**-0.5 + 0.02 * generator.normal(size=1000)
frame = pd.DataFrame({"step": step, "loss": loss})
made = ts.forecast(frame[:400], horizon=1000).table.iloc[0]
plt.plot(step[400:], loss[400:], color="0.8", label="the rest")
plt.plot(step[:400], loss[:400], color="C0", linewidth=1, label="seen")
end, low, high = made["final_loss"], made["low"], made["high"]
plt.errorbar([1000], [end], [[end - low], [high - end]], fmt="o", color="C1", capsize=4, label="forecast")
plt.ylim(1.9, 3)
plt.xlabel("step")
plt.ylabel("loss")
plt.legend()
plt.tight_layout()
