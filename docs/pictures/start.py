"""A log of 400 of 1,000 steps, and where it will end."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import toposcope as ts

step = np.arange(1, 401)
noise = np.random.default_rng(0).normal(0, 0.02, 400)
answer = ts.check(pd.DataFrame({"step": step, "loss": 2 + 5 * step**-0.5 + noise}), horizon=1000)
figure, ax = plt.subplots()
answer.plot(ax)
figure.tight_layout()
