"""Six seeds; the one that the check calls odd leaves the others half way."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import toposcope as ts

generator = np.random.default_rng(0)
step = np.arange(1, 301)
frames = []
for n in range(6):
    loss = (2 + 4 * step**-0.5) * (1 + 0.004 * generator.normal()) + 0.01 * generator.normal(size=300)
    loss += 0.4 * (step > 150) * (n == 4)
    frames.append(pd.DataFrame({"run": f"seed{n}", "step": step, "loss": loss, "parameters": 10_000}))
figure, ax = plt.subplots()
ts.check(pd.concat(frames), horizon=300).plot(ax)
ax.set_ylim(2, 3.4)
figure.tight_layout()
