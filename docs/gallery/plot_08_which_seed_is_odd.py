"""
Which seed is odd?
==================

Six seeds of one recipe. One of them had another learning rate, and its log says so.
"""

import numpy as np
import pandas as pd

import toposcope as ts

generator = np.random.default_rng(0)
step = np.arange(1, 301)


def seed(n, rate=1e-3):
    """Return the log of a seed."""
    level = (2 + 4 * step ** -(0.5 if rate == 1e-3 else 0.35)) * (1 + 0.004 * generator.normal())
    loss = level + 0.01 * generator.normal(size=300)
    return pd.DataFrame(
        {"run": f"seed{n}", "step": step, "loss": loss, "learning_rate": rate, "parameters": 10_000}
    )


runs = pd.concat([seed(n, rate=2.5e-4 if n == 3 else 1e-3) for n in range(6)])
answer = ts.check(runs, horizon=300)
print(answer)

# %%
# The odd run lies above the others from early on.
answer.plot()
