"""Six seeds; one leaves the others."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import toposcope as ts

generator = np.random.default_rng(0)
step = np.arange(1, 301)
frames = []
for n in range(6):
    loss = (2 + 4 * step**-0.5) * (1 + 0.01 * generator.normal()) + 0.01 * generator.normal(size=300)
    loss += 0.4 * (step > 150) * (n == 4)
    frames.append(pd.DataFrame({"run": f"seed{n}", "step": step, "loss": loss, "parameters": 10_000}))
answer = ts.check(pd.concat(frames), horizon=300)
levels = {one.run: one.level for one in answer.runs}
for frame in frames:
    run = frame["run"].iloc[0]
    plt.plot(
        step, frame["loss"], label=f"{run}: {levels[run]}", linewidth=2 if levels[run] != "all right" else 1
    )
plt.ylim(2, 3.4)
plt.xlabel("step")
plt.ylabel("loss")
plt.legend(ncols=2, fontsize=8)
plt.tight_layout()
